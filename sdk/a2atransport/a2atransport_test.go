package a2atransport_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"go.uber.org/goleak"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/sdk/a2atransport"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait in these tests.
const patience = 5 * time.Minute

// agent is an AgentExecutor. It echoes what it is told, works on "work" in steps that
// the test lets it take, and refuses "refuse".
type agent struct {
	steps  chan struct{}
	mu     sync.Mutex
	users  []string
	params []string
}

func (a *agent) Execute(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	a.mu.Lock()
	a.users = append(a.users, x.User.Name)
	if values, ok := x.ServiceParams.Get("X-Test"); ok {
		a.params = append(a.params, values...)
	}
	a.mu.Unlock()
	return func(yield func(sdk.Event, error) bool) {
		switch text := x.Message.Parts[0].Text(); text {
		case "refuse":
			yield(nil, sdk.NewError(sdk.ErrUnsupportedContentType, "not like this").WithErrorInfoMeta(map[string]string{"why": "because"}))
		case "work":
			if !yield(sdk.NewSubmittedTask(x, x.Message), nil) {
				return
			}
			for range 3 {
				select {
				case <-a.steps:
				case <-ctx.Done():
					return
				}
				if !yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateWorking, nil), nil) {
					return
				}
			}
			yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCompleted, nil), nil)
		default:
			yield(sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart(text)), nil)
		}
	}
}

func (a *agent) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCanceled, nil), nil)
	}
}

// link is a client's end, and what connects it.
type link struct {
	t    *testing.T
	kind string
	far  *endpoint.Endpoint
	near *endpoint.Endpoint
	a2a  *a2a.Service

	mu       sync.Mutex
	session  *endpoint.Session
	identity string // of this end, as the other one knows it
}

// get connects when there is no connection.
func (l *link) get(context.Context) (profiles.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == nil || l.session.Context().Err() != nil {
		accepted, dialled := transporttest.Pair(l.t, l.kind)
		l.identity = l.far.Attach(accepted).Peer().Identity
		l.session = l.near.Attach(dialled)
	}
	return l.session, nil
}

// Tasks implements a2atransport.Peer.
func (l *link) Tasks(ctx context.Context, _ string) (profiles.Session, *a2a.Service, error) {
	session, err := l.get(ctx)
	return session, l.a2a, err
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session.Close(0)
}

func linked(t *testing.T, kind string, a *agent) (*a2aclient.Client, *link) {
	t.Helper()
	handler := a2asrv.NewHandler(a,
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), nothing{}),
		a2asrv.WithExtendedAgentCard(&sdk.AgentCard{Name: "agent", Capabilities: sdk.AgentCapabilities{ExtendedAgentCard: true}}),
	)
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	far := serve(t, all.Options{A2A: a2a.Options{
		Store:   db,
		Workers: []a2a.Registration{{Kinds: a2atransport.Kinds(), Worker: a2atransport.NewWorker(handler)}},
	}})
	near := serve(t, all.Options{})
	l := &link{t: t, kind: kind, far: far.ep, near: near.ep, a2a: near.set.A2A}
	factory := a2atransport.Factory(func(context.Context, *sdk.AgentInterface) (*a2atransport.Client, error) {
		return &a2atransport.Client{Peer: l}, nil
	})
	card := &sdk.AgentCard{
		Name:                "agent",
		Capabilities:        sdk.AgentCapabilities{Streaming: true, PushNotifications: true, ExtendedAgentCard: true},
		SupportedInterfaces: []*sdk.AgentInterface{{URL: "swp+tls://127.0.0.1:7777/agent", ProtocolBinding: a2atransport.Protocol, ProtocolVersion: sdk.Version}},
	}
	program, err := a2aclient.NewFromCard(t.Context(), card, a2aclient.WithTransport(a2atransport.Protocol, factory))
	if err != nil {
		t.Fatal(err)
	}
	return program, l
}

// nothing sends no notifications.
type nothing struct{}

func (nothing) SendPush(context.Context, *sdk.PushConfig, sdk.Event) error { return nil }

type end struct {
	set *all.Set
	ep  *endpoint.Endpoint
}

func serve(t *testing.T, opts all.Options) end {
	t.Helper()
	set, err := all.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ep.Close()
		set.Close()
	})
	return end{set, ep}
}

func everywhere(t *testing.T, run func(t *testing.T, kind string)) {
	for _, kind := range transporttest.Kinds() {
		t.Run(kind, func(t *testing.T) { run(t, kind) })
	}
}

func saying(text string) *sdk.SendMessageRequest {
	return &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text))}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestMessageIsAnswered(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		a := new(agent)
		client, l := linked(t, kind, a)
		ctx := a2aclient.AttachServiceParams(within(t), a2aclient.ServiceParams{"X-Test": {"one", "two"}})
		result, err := client.SendMessage(ctx, saying("hello"))
		if err != nil {
			t.Fatal(err)
		}
		message, ok := result.(*sdk.Message)
		if !ok || message.Parts[0].Text() != "hello" {
			t.Fatalf("%+v", result)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if !slices.Equal(a.users, []string{l.identity}) {
			t.Errorf("users %q, want %q", a.users, l.identity)
		}
		if !slices.Equal(a.params, []string{"one", "two"}) {
			t.Errorf("service parameters %q", a.params)
		}
	})
}

func TestErrorsAreTheSDKs(t *testing.T) {
	client, _ := linked(t, "tls", new(agent))
	_, err := client.SendMessage(within(t), saying("refuse"))
	var told *sdk.Error
	if !errors.Is(err, sdk.ErrUnsupportedContentType) || !errors.As(err, &told) || told.Message != "not like this" {
		t.Fatalf("%v", err)
	}
	if metadata, _ := told.ErrorInfo().Value["metadata"].(map[string]string); metadata["why"] != "because" {
		t.Errorf("details %+v", told.ErrorInfo())
	}
	if _, err := client.GetTask(within(t), &sdk.GetTaskRequest{ID: "nothing"}); !errors.Is(err, sdk.ErrTaskNotFound) {
		t.Errorf("%v", err)
	}
}

func TestStreamComesInOrderAndTaskIsFound(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		a := &agent{steps: make(chan struct{}, 3)}
		client, _ := linked(t, kind, a)
		for range 3 {
			a.steps <- struct{}{}
		}
		ctx := within(t)
		var id sdk.TaskID
		var states []sdk.TaskState
		for e, err := range client.SendStreamingMessage(ctx, saying("work")) {
			if err != nil {
				t.Fatal(err)
			}
			switch e := e.(type) {
			case *sdk.Task:
				id = e.ID
			case *sdk.TaskStatusUpdateEvent:
				states = append(states, e.Status.State)
			}
		}
		want := []sdk.TaskState{sdk.TaskStateWorking, sdk.TaskStateWorking, sdk.TaskStateWorking, sdk.TaskStateCompleted}
		if !slices.Equal(states, want) {
			t.Errorf("%v, want %v", states, want)
		}
		task, err := client.GetTask(ctx, &sdk.GetTaskRequest{ID: id})
		if err != nil || task.Status.State != sdk.TaskStateCompleted {
			t.Errorf("%+v, %v", task, err)
		}
		list, err := client.ListTasks(ctx, &sdk.ListTasksRequest{})
		if err != nil || len(list.Tasks) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

func TestStreamGoesOnAfterALostConnection(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		a := &agent{steps: make(chan struct{}, 3)}
		client, l := linked(t, kind, a)
		a.steps <- struct{}{}
		n := 0
		for _, err := range client.SendStreamingMessage(within(t), saying("work")) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 2 {
				l.cut()
				a.steps <- struct{}{}
				a.steps <- struct{}{}
			}
		}
		if n != 5 {
			t.Errorf("%d events, want 5", n)
		}
	})
}

func TestOthersSubscribeAndCancel(t *testing.T) {
	a := &agent{steps: make(chan struct{}, 3)}
	client, _ := linked(t, "quic", a)
	ctx := within(t)
	ids := make(chan sdk.TaskID, 1)
	ended := make(chan sdk.TaskState, 2)
	follow := func(events iter.Seq2[sdk.Event, error]) {
		var last sdk.TaskState
		for e, err := range events {
			if err != nil {
				t.Errorf("%v", err)
				break
			}
			switch e := e.(type) {
			case *sdk.Task:
				last = e.Status.State
				select {
				case ids <- e.ID:
				default:
				}
			case *sdk.TaskStatusUpdateEvent:
				last = e.Status.State
			}
		}
		ended <- last
	}
	go follow(client.SendStreamingMessage(ctx, saying("work")))
	id := <-ids
	subscribed := make(chan struct{})
	go follow(func(yield func(sdk.Event, error) bool) {
		var once sync.Once
		for e, err := range client.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: id}) {
			once.Do(func() { close(subscribed) })
			if !yield(e, err) {
				return
			}
		}
	})
	<-subscribed
	task, err := client.CancelTask(ctx, &sdk.CancelTaskRequest{ID: id})
	if err != nil || task.Status.State != sdk.TaskStateCanceled {
		t.Fatalf("%+v, %v", task, err)
	}
	for range 2 {
		if state := <-ended; state != sdk.TaskStateCanceled {
			t.Errorf("a stream ended with %s", state)
		}
	}
}

func TestReaderThatStopsLeavesTheTaskAlone(t *testing.T) {
	a := &agent{steps: make(chan struct{}, 3)}
	client, _ := linked(t, "tls", a)
	ctx := within(t)
	var id sdk.TaskID
	for e, err := range client.SendStreamingMessage(ctx, saying("work")) {
		if err != nil {
			t.Fatal(err)
		}
		id = e.(*sdk.Task).ID
		break
	}
	var last sdk.TaskState
	var once sync.Once
	for e, err := range client.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: id}) {
		if err != nil {
			t.Fatal(err)
		}
		once.Do(func() { // a task that is over cannot be subscribed to
			for range 3 {
				a.steps <- struct{}{}
			}
		})
		if e, ok := e.(*sdk.TaskStatusUpdateEvent); ok {
			last = e.Status.State
		}
	}
	task, err := client.GetTask(ctx, &sdk.GetTaskRequest{ID: id})
	if err != nil || task.Status.State != sdk.TaskStateCompleted {
		t.Errorf("the task is %+v (%v), its last state was %s", task, err, last)
	}
}

func TestPushConfigurationsAndExtendedCard(t *testing.T) {
	a := &agent{steps: make(chan struct{}, 3)}
	client, _ := linked(t, "tls", a)
	ctx := within(t)
	for range 3 {
		a.steps <- struct{}{}
	}
	var id sdk.TaskID
	for e, err := range client.SendStreamingMessage(ctx, saying("work")) {
		if err != nil {
			t.Fatal(err)
		}
		if task, ok := e.(*sdk.Task); ok {
			id = task.ID
		}
	}
	made, err := client.CreateTaskPushConfig(ctx, &sdk.PushConfig{TaskID: id, ID: "one", URL: "https://example.com/hook"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.GetTaskPushConfig(ctx, &sdk.GetTaskPushConfigRequest{TaskID: id, ID: made.ID})
	if err != nil || got.URL != "https://example.com/hook" {
		t.Fatalf("%+v, %v", got, err)
	}
	list, err := client.ListTaskPushConfigs(ctx, &sdk.ListTaskPushConfigRequest{TaskID: id})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := client.DeleteTaskPushConfig(ctx, &sdk.DeleteTaskPushConfigRequest{TaskID: id, ID: made.ID}); err != nil {
		t.Fatal(err)
	}
	card, err := client.GetExtendedAgentCard(ctx, &sdk.GetExtendedAgentCardRequest{})
	if err != nil || card.Name != "agent" {
		t.Fatalf("%+v, %v", card, err)
	}
}

func TestClientOutlivesIdleTimesAndAnEndpointThatBeginsAnew(t *testing.T) {
	const idle = 300 * time.Millisecond
	everywhere(t, func(t *testing.T, kind string) {
		handler := a2asrv.NewHandler(new(agent))
		db, err := sqlstore.Open(t.Context(), sqlstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		begin := func() (*endpoint.Endpoint, func()) {
			set, err := all.New(all.Options{TellBounds: true, A2A: a2a.Options{
				Store: db, Workers: []a2a.Registration{{Agent: "one", Kinds: a2atransport.Kinds(), Worker: a2atransport.NewWorker(handler)}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			ep, err := endpoint.New(endpoint.Options{Registry: set.Registry, Bounds: endpoint.Bounds{Idle: idle}})
			if err != nil {
				t.Fatal(err)
			}
			return ep, func() {
				_ = ep.Close()
				set.Close()
			}
		}
		far, end := begin()
		defer func() { end() }()
		peer := client.Keep(client.KeepOptions{Dial: func(context.Context) (*client.Client, error) {
			accepted, dialled := transporttest.Pair(t, kind)
			far.Attach(accepted)
			return client.Attach(dialled, client.Options{})
		}})
		defer peer.Close()
		program, err := a2aclient.NewFromEndpoints(t.Context(), []*sdk.AgentInterface{{
			URL: "swp+tls://localhost:7777/one", ProtocolBinding: a2atransport.Protocol, ProtocolVersion: sdk.Version,
		}}, a2aclient.WithTransport(a2atransport.Protocol, a2atransport.Factory(func(context.Context, *sdk.AgentInterface) (*a2atransport.Client, error) {
			return &a2atransport.Client{Peer: peer, Agent: "one"}, nil
		})))
		if err != nil {
			t.Fatal(err)
		}
		say := func(text string) {
			t.Helper()
			answer, err := program.SendMessage(within(t), &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text))})
			if m, ok := answer.(*sdk.Message); err != nil || !ok || m.Parts[0].Text() != text {
				t.Fatalf("%q: %+v, %v", text, answer, err)
			}
		}
		say("first")
		c, err := peer.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-c.Context().Done():
		case <-time.After(patience):
			t.Fatal("the connection did not end")
		}
		say("after an idle time")
		end()
		far, end = begin()
		say("anew")
	})
}

func TestVersionThatIsNotSpokenIsRefused(t *testing.T) {
	_, l := linked(t, "pipe", new(agent))
	for version, want := range map[string]bool{"1.0": true, "1.0.1": true, "": false, "0.3": false, "1.1": false, "10.0": false} {
		session, err := l.get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		task := &a2a.Task{Kind: "a2a/1.0/ListTasks", Input: []byte(`{}`)}
		if version != "" {
			task.Params = []string{"a2a-version=" + version}
		}
		d, err := l.a2a.Send(within(t), session, task, a2a.SendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = d.Recv(within(t))
		result := d.Result()
		d.Close()
		if result == nil || result.OK != want {
			t.Fatalf("version %q: %+v", version, result)
		}
		if f, _ := a2abinding.OfResult(result); !want && f.Code != a2abinding.CodeVersion {
			t.Errorf("version %q: %+v", version, f)
		}
	}
}
