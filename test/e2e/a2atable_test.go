package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aext"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
)

// faults are the errors by which the agent of the table fails.
var faults = map[string]error{
	"parse": sdk.ErrParseError, "request": sdk.ErrInvalidRequest, "method": sdk.ErrMethodNotFound, "params": sdk.ErrInvalidParams,
	"internal": sdk.ErrInternalError, "server": sdk.ErrServerError, "unknown": sdk.ErrTaskNotFound, "cancel": sdk.ErrTaskNotCancelable,
	"push": sdk.ErrPushNotificationNotSupported, "unsupported": sdk.ErrUnsupportedOperation, "content": sdk.ErrUnsupportedContentType,
	"response": sdk.ErrInvalidAgentResponse, "card": sdk.ErrExtendedCardNotConfigured, "extension": sdk.ErrExtensionSupportRequired,
	"version": sdk.ErrVersionNotSupported, "unauthenticated": sdk.ErrUnauthenticated, "unauthorized": sdk.ErrUnauthorized,
	"details": sdk.NewError(sdk.ErrInvalidParams, "with details").WithDetails(map[string]any{"field": "x", "n": 3}).WithErrorInfoMeta(map[string]string{"k": "v"}),
	"other":   errors.New("an error of the agent's own"),
}

// asked are the ids of messages by which the TCK of A2A asks for something else than a task that
// is completed.
var asked = map[string]string{"tck-message-response": "answer", "tck-input-required": "ask", "tck-reject-task": "reject", "test-resubscribe": "wait"}

// obedient is an agent, written with the official SDK, that does what its message says.
type obedient struct {
	mu   sync.Mutex
	held map[sdk.TaskID]chan struct{}
}

// hold returns the channel that ends the work on a task.
func (o *obedient) hold(id sdk.TaskID) chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held[id] == nil {
		o.held[id] = make(chan struct{})
	}
	return o.held[id]
}

// release lets the work on a task end.
func (o *obedient) release(id sdk.TaskID) {
	held := o.hold(id)
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-held:
	default:
		close(held)
	}
}

func (o *obedient) Execute(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		text := ""
		if len(x.Message.Parts) > 0 {
			text = x.Message.Parts[0].Text()
		}
		word, rest, _ := strings.Cut(text, " ")
		for prefix, does := range asked {
			if strings.HasPrefix(x.Message.ID, prefix) {
				word, rest = does, "the TCK"
			}
		}
		say := func(s sdk.TaskState) bool { return yield(sdk.NewStatusUpdateEvent(x, s, nil), nil) }
		switch word {
		case "fail":
			yield(nil, faults[rest])
			return
		case "answer":
			yield(sdk.NewMessageForTask(sdk.MessageRoleAgent, x, sdk.NewTextPart("über "+rest), sdk.NewDataPart(map[string]any{"n": 1.5})), nil)
			return
		}
		if x.StoredTask == nil && !yield(sdk.NewSubmittedTask(x, x.Message), nil) {
			return
		}
		switch word {
		case "ask":
			say(sdk.TaskStateInputRequired)
		case "login":
			say(sdk.TaskStateAuthRequired)
		case "reject":
			say(sdk.TaskStateRejected)
		case "wait":
			if !say(sdk.TaskStateWorking) {
				return
			}
			select {
			case <-time.After(4 * time.Second):
			case <-ctx.Done():
				return
			}
			say(sdk.TaskStateCompleted)
		case "hold", "begin":
			if word == "hold" && !say(sdk.TaskStateWorking) {
				return
			}
			select {
			case <-o.hold(x.TaskID):
			case <-ctx.Done():
				return
			}
			fallthrough
		default:
			if yield(sdk.NewArtifactEvent(x, sdk.NewTextPart("done")), nil) {
				say(sdk.TaskStateCompleted)
			}
		}
	}
}

func (o *obedient) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCanceled, nil), nil)
	}
}

// wellKnown is where the card of an agent is.
const wellKnown = "/.well-known/agent-card.json"

// able are the agents of the table and what each can do.
var able = map[string]sdk.AgentCapabilities{
	"all":    {Streaming: true, PushNotifications: true, ExtendedAgentCard: true},
	"none":   {},
	"still":  {PushNotifications: true},                  // no streams
	"quiet":  {Streaming: true, ExtendedAgentCard: true}, // no push, and an extended card that is not configured
	"strict": {Streaming: true, PushNotifications: true, Extensions: []sdk.AgentExtension{{URI: required, Required: true}}},
}

// serveAble serves those agents: JSON-RPC at /NAME, REST below /NAME/rest.
func serveAble(t *testing.T, o *obedient) string {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for name, can := range able {
		card := &sdk.AgentCard{
			Name: name, Description: "an agent", Version: "1", Capabilities: can,
			SupportedInterfaces: []*sdk.AgentInterface{
				sdk.NewAgentInterface(server.URL+"/"+name, sdk.TransportProtocolJSONRPC), sdk.NewAgentInterface(server.URL+"/"+name+"/rest", sdk.TransportProtocolHTTPJSON),
			},
			DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
			Skills: []sdk.AgentSkill{{ID: "work", Name: "work", Description: "works", Tags: []string{"work"}}},
		}
		options := []a2asrv.RequestHandlerOption{a2asrv.WithCallInterceptors(someone{}), a2asrv.WithCapabilityChecks(&can)}
		if can.PushNotifications {
			options = append(options, a2asrv.WithPushNotifications(push.NewInMemoryStore(), unsent{}))
		}
		if name == "all" {
			extended := *card
			extended.Name = "all, extended"
			options = append(options, a2asrv.WithExtendedAgentCard(&extended))
		}
		handler := a2asrv.NewHandler(o, options...)
		mux.Handle("/"+name, a2asrv.NewJSONRPCHandler(handler))
		mux.Handle("/"+name+"/rest/", http.StripPrefix("/"+name+"/rest", a2asrv.NewRESTHandler(handler)))
		mux.Handle("/"+name+wellKnown, a2asrv.NewStaticAgentCardHandler(card))
	}
	return server.URL
}

// seen is an http.RoundTripper that keeps the last answer.
type seen struct {
	mu     sync.Mutex
	status int
	kind   string
	body   bytes.Buffer
}

func (s *seen) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.kind = 0, ""
	s.body.Reset()
	if err == nil {
		s.status = answer.StatusCode
		s.kind, _, _ = strings.Cut(answer.Header.Get("Content-Type"), ";")
		answer.Body = &teed{answer.Body, s}
	}
	return answer, err
}

type teed struct {
	io.ReadCloser
	to *seen
}

func (t *teed) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.to.mu.Lock()
	t.to.body.Write(p[:n])
	t.to.mu.Unlock()
	return n, err
}

// said returns the last answer with names in place of ids. Of an error it has the code and the
// reason: its text and the metadata that bindings add may differ.
func (s *seen) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := names{ids: make(map[string]string)}
	parts := []string{fmt.Sprint(s.status)}
	switch s.kind {
	case "text/event-stream":
		parts = append(parts, "stream")
		for line := range strings.Lines(s.body.String()) {
			if data, ok := strings.CutPrefix(line, "data:"); ok {
				parts = append(parts, n.plain([]byte(data)))
			}
		}
	case "application/json":
		parts = append(parts, n.plain(s.body.Bytes()))
	default:
		parts = append(parts, s.kind, fmt.Sprintf("%.40q", s.body.Bytes()))
	}
	return strings.Join(parts, " ")
}

// names replaces what differs from run to run.
type names struct{ ids map[string]string }

func (n names) plain(octets []byte) string {
	var failed struct {
		ID    any
		Error *struct {
			Code          int
			Status        string
			Data, Details []map[string]any
		}
	}
	if json.Unmarshal(octets, &failed) == nil && failed.Error != nil {
		parts := []string{fmt.Sprint(failed.Error.Code)}
		if failed.Error.Status != "" {
			parts = append(parts, failed.Error.Status)
		}
		for _, d := range append(failed.Error.Data, failed.Error.Details...) {
			if reason, ok := d["reason"]; ok {
				parts = append(parts, fmt.Sprint(d["domain"], " ", reason))
				continue
			}
			text, _ := json.Marshal(d) //nolint:errchkjson // as it was read
			parts = append(parts, string(text))
		}
		if failed.ID == nil && failed.Error.Code < 0 {
			parts = append(parts, "without an id")
		}
		return strings.Join(parts, " ")
	}
	var value any
	if json.Unmarshal(octets, &value) != nil {
		return fmt.Sprintf("%.40q", octets)
	}
	text, err := json.Marshal(n.in(value))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (n names) in(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = n.in(v[i])
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			text, is := v[name].(string)
			switch {
			case name == "timestamp":
				delete(v, name)
			case is && (name == "id" || strings.HasSuffix(name, "Id")):
				if n.ids[text] == "" && text != "" {
					n.ids[text] = fmt.Sprint("#", len(n.ids)+1)
				}
				v[name] = n.ids[text]
			default:
				v[name] = n.in(v[name])
			}
		}
	}
	return value
}

// probe is a client of one agent, at some distance.
type probe struct {
	t      *testing.T
	o      *obedient
	base   string // URL of the agent in the binding of the client
	card   string // and of its card
	by     sdk.TransportProtocol
	client *a2aclient.Client
	seen   *seen
}

func (o *obedient) probe(t *testing.T, base, card string, by sdk.TransportProtocol, opts ...a2aclient.FactoryOption) *probe {
	t.Helper()
	p := &probe{t: t, o: o, base: base, card: card, by: by, seen: new(seen)}
	carrier := &http.Client{Transport: p.seen}
	opts = append(opts, a2aclient.WithJSONRPCTransport(carrier), a2aclient.WithRESTTransport(carrier))
	client, err := a2aclient.NewFromEndpoints(t.Context(), []*sdk.AgentInterface{sdk.NewAgentInterface(base, by)}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	p.client = client
	t.Cleanup(func() { _ = client.Destroy() })
	return p
}

func request(text string) *sdk.SendMessageRequest {
	return &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text))}
}

// task makes a task, and returns its id when it is over, or at work until it is released.
func (p *probe) task(ctx context.Context, text string) sdk.TaskID {
	r := request(text)
	r.Config = &sdk.SendMessageConfig{ReturnImmediately: true}
	made, err := p.client.SendMessage(ctx, r)
	if err != nil {
		return "not-made"
	}
	task, ok := made.(*sdk.Task)
	if !ok {
		return "no-task"
	}
	for ctx.Err() == nil && !task.Status.State.Terminal() && (text != "hold" || task.Status.State != sdk.TaskStateWorking) {
		if now, err := p.client.GetTask(ctx, &sdk.GetTaskRequest{ID: task.ID}); err == nil {
			task = now
		}
	}
	return task.ID
}

// notify makes a push configuration, and returns the outcome of the last of so many operations
// on it.
func (p *probe) notify(ctx context.Context, operations int) string {
	id := p.task(ctx, "work")
	get := func() error {
		_, err := p.client.GetTaskPushConfig(ctx, &sdk.GetTaskPushConfigRequest{TaskID: id, ID: "one"})
		return err
	}
	remove := func() error {
		return p.client.DeleteTaskPushConfig(ctx, &sdk.DeleteTaskPushConfigRequest{TaskID: id, ID: "one"})
	}
	var err error
	for _, do := range []func() error{
		func() error {
			_, err := p.client.CreateTaskPushConfig(ctx, &sdk.PushConfig{TaskID: id, ID: "one", URL: "https://example.com/hook", Token: "t"})
			return err
		},
		get,
		func() error {
			_, err := p.client.ListTaskPushConfigs(ctx, &sdk.ListTaskPushConfigRequest{TaskID: id})
			return err
		},
		remove, remove, get,
	}[:operations] {
		err = do()
	}
	return p.outcome(err)
}

// kindOf is the error that a client of the SDK sees.
func kindOf(err error) string {
	if err == nil {
		return "ok"
	}
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		if name != "details" && name != "other" && errors.Is(err, faults[name]) {
			return "error " + name
		}
	}
	return "another error"
}

// outcome is what came of an operation.
func (p *probe) outcome(err error) string { return kindOf(err) + ", " + p.seen.said() }

// all reads a stream to its end.
func (p *probe) all(events iter.Seq2[sdk.Event, error]) string {
	var fault error
	for _, err := range events {
		fault = err
	}
	return p.outcome(fault)
}

// raw sends a request as it is.
func (p *probe) raw(ctx context.Context, method, url, body string, header ...string) string {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := (&http.Client{Transport: p.seen}).Do(r)
	if err != nil {
		return "no answer"
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, answer.Body)
	return p.seen.said()
}

// operations are the rows of the table for every agent.
func operations() map[string]func(context.Context, *probe) string {
	rows := map[string]func(context.Context, *probe) string{
		"SendMessage to a finished task": func(ctx context.Context, p *probe) string {
			r := request("work")
			r.Message.TaskID = p.task(ctx, "work")
			_, err := p.client.SendMessage(ctx, r)
			return p.outcome(err)
		},
		"SendMessage to an unknown task": func(ctx context.Context, p *probe) string {
			r := request("work")
			r.Message.TaskID = "no-such-task, for which a message is sent" // in the SDK it exists for a moment
			_, err := p.client.SendMessage(ctx, r)
			return p.outcome(err)
		},
		"SendMessage without parts": func(ctx context.Context, p *probe) string {
			_, err := p.client.SendMessage(ctx, &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser)})
			return p.outcome(err)
		},
		"SendMessage with a push configuration": func(ctx context.Context, p *probe) string {
			r := request("work")
			r.Config = &sdk.SendMessageConfig{PushConfig: &sdk.PushConfig{URL: "https://example.com/hook"}}
			_, err := p.client.SendMessage(ctx, r)
			return p.outcome(err)
		},
		"SendMessage, at once": func(ctx context.Context, p *probe) string {
			r := request("begin")
			r.Config = &sdk.SendMessageConfig{ReturnImmediately: true, HistoryLength: new(0)}
			made, err := p.client.SendMessage(ctx, r)
			said := p.outcome(err)
			if task, ok := made.(*sdk.Task); ok {
				p.o.release(task.ID)
			}
			return said
		},
		"GetTask": func(ctx context.Context, p *probe) string {
			_, err := p.client.GetTask(ctx, &sdk.GetTaskRequest{ID: p.task(ctx, "work")})
			return p.outcome(err)
		},
		"GetTask without history": func(ctx context.Context, p *probe) string {
			_, err := p.client.GetTask(ctx, &sdk.GetTaskRequest{ID: p.task(ctx, "work"), HistoryLength: new(0)})
			return p.outcome(err)
		},
		"ListTasks of a context": func(ctx context.Context, p *probe) string {
			r := request("work")
			r.Message.ContextID = "context " + sdk.NewMessageID()
			if _, err := p.client.SendMessage(ctx, r); err != nil {
				return p.outcome(err)
			}
			_, err := p.client.ListTasks(ctx, &sdk.ListTasksRequest{ContextID: r.Message.ContextID, IncludeArtifacts: true})
			return p.outcome(err)
		},
		"ListTasks, 1,000 a page": func(ctx context.Context, p *probe) string {
			_, err := p.client.ListTasks(ctx, &sdk.ListTasksRequest{PageSize: 1000})
			return p.outcome(err)
		},
		"ListTasks, a page that is none": func(ctx context.Context, p *probe) string {
			_, err := p.client.ListTasks(ctx, &sdk.ListTasksRequest{PageToken: "no such page", ContextID: "none"})
			return p.outcome(err)
		},
		"CancelTask": func(ctx context.Context, p *probe) string {
			_, err := p.client.CancelTask(ctx, &sdk.CancelTaskRequest{ID: p.task(ctx, "hold")})
			return p.outcome(err)
		},
		"CancelTask of a finished task": func(ctx context.Context, p *probe) string {
			_, err := p.client.CancelTask(ctx, &sdk.CancelTaskRequest{ID: p.task(ctx, "work")})
			return p.outcome(err)
		},
		"SubscribeToTask": func(ctx context.Context, p *probe) string {
			id, begun, fault := p.task(ctx, "hold"), false, error(nil)
			for _, err := range p.client.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: id}) {
				if fault = err; !begun && err == nil {
					begun = true
					p.o.release(id)
				}
			}
			if !begun {
				p.o.release(id)
			}
			return p.outcome(fault)
		},
		"SubscribeToTask after its stream was cut": func(ctx context.Context, p *probe) string {
			cut, kill := context.WithCancel(ctx)
			defer kill()
			var id sdk.TaskID
			for e, err := range p.client.SendStreamingMessage(cut, request("hold")) {
				if err != nil {
					return p.outcome(err)
				}
				id = e.TaskInfo().TaskID
				kill()
				break
			}
			begun, fault := false, error(nil)
			for _, err := range p.client.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: id}) {
				if fault = err; !begun && err == nil {
					begun = true
					p.o.release(id)
				}
			}
			task, err := p.client.GetTask(ctx, &sdk.GetTaskRequest{ID: id, HistoryLength: new(0)})
			if err != nil || fault != nil {
				return kindOf(fault) + ", " + p.outcome(err)
			}
			return string(task.Status.State)
		},
		"SubscribeToTask of a finished task": func(ctx context.Context, p *probe) string {
			for id := p.task(ctx, "work"); ; { // for a moment after its end the SDK takes it for one at work
				if said := p.all(p.client.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: id})); !strings.HasPrefix(said, "ok") || ctx.Err() != nil {
					return said
				}
			}
		},
		"GetExtendedAgentCard": func(ctx context.Context, p *probe) string {
			_, err := p.client.GetExtendedAgentCard(ctx, &sdk.GetExtendedAgentCardRequest{})
			return p.outcome(err)
		},
		"SendMessage, with the extension": func(ctx context.Context, p *probe) string {
			knowing := p.o.probe(p.t, p.base, p.card, p.by, a2aclient.WithCallInterceptors(a2aext.NewActivator(required)))
			_, err := knowing.client.SendMessage(ctx, request("work"))
			return knowing.outcome(err)
		},
		"card": func(ctx context.Context, p *probe) string {
			said := p.raw(ctx, http.MethodGet, p.card, "")
			_, object, _ := strings.Cut(said, "{")
			var card map[string]any
			if json.Unmarshal([]byte("{"+object), &card) != nil {
				return said
			}
			delete(card, "supportedInterfaces") // those of the front
			return fmt.Sprint(card)
		},
	}
	for of, cut := range map[string]int{
		"CreateTaskPushNotificationConfig": 1, "GetTaskPushNotificationConfig": 2, "ListTaskPushNotificationConfigs": 3,
		"DeleteTaskPushNotificationConfig": 4, "DeleteTaskPushNotificationConfig, again": 5, "GetTaskPushNotificationConfig of none": 6,
	} {
		rows[of] = func(ctx context.Context, p *probe) string { return p.notify(ctx, cut) }
	}
	for _, text := range []string{"answer this", "work", "ask", "login", "reject"} {
		rows["SendMessage, "+text] = func(ctx context.Context, p *probe) string {
			_, err := p.client.SendMessage(ctx, request(text))
			return p.outcome(err)
		}
		if text == "login" { // the SDK does not end this stream
			continue
		}
		rows["SendStreamingMessage, "+text] = func(ctx context.Context, p *probe) string {
			return p.all(p.client.SendStreamingMessage(ctx, request(text)))
		}
	}
	for of, id := range map[string]sdk.TaskID{" of an unknown task": "no-such-task", " of a task with a difficult name": "a b=ü"} {
		rows["GetTask"+of] = func(ctx context.Context, p *probe) string {
			_, err := p.client.GetTask(ctx, &sdk.GetTaskRequest{ID: id})
			return p.outcome(err)
		}
		rows["CancelTask"+of] = func(ctx context.Context, p *probe) string {
			_, err := p.client.CancelTask(ctx, &sdk.CancelTaskRequest{ID: id})
			return p.outcome(err)
		}
		rows["SubscribeToTask"+of] = func(ctx context.Context, p *probe) string {
			return p.all(p.client.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: id}))
		}
		rows["CreateTaskPushNotificationConfig"+of] = func(ctx context.Context, p *probe) string {
			_, err := p.client.CreateTaskPushConfig(ctx, &sdk.PushConfig{TaskID: id, ID: "one", URL: "https://example.com/hook"})
			return p.outcome(err)
		}
		rows["GetTaskPushNotificationConfig"+of] = func(ctx context.Context, p *probe) string {
			_, err := p.client.GetTaskPushConfig(ctx, &sdk.GetTaskPushConfigRequest{TaskID: id, ID: "one"})
			return p.outcome(err)
		}
		rows["ListTaskPushNotificationConfigs"+of] = func(ctx context.Context, p *probe) string {
			_, err := p.client.ListTaskPushConfigs(ctx, &sdk.ListTaskPushConfigRequest{TaskID: id})
			return p.outcome(err)
		}
		rows["DeleteTaskPushNotificationConfig"+of] = func(ctx context.Context, p *probe) string {
			return p.outcome(p.client.DeleteTaskPushConfig(ctx, &sdk.DeleteTaskPushConfigRequest{TaskID: id, ID: "one"}))
		}
	}
	return rows
}

// single are the rows of the table for one agent, because they do not depend on its
// capabilities: every error that an agent can answer with, and requests that no client of the
// SDK makes.
func single(by sdk.TransportProtocol) map[string]func(context.Context, *probe) string {
	rows := make(map[string]func(context.Context, *probe) string)
	for name := range faults {
		rows["SendMessage, fail "+name] = func(ctx context.Context, p *probe) string {
			_, err := p.client.SendMessage(ctx, request("fail "+name))
			return p.outcome(err)
		}
		rows["SendStreamingMessage, fail "+name] = func(ctx context.Context, p *probe) string {
			return p.all(p.client.SendStreamingMessage(ctx, request("fail "+name)))
		}
	}
	version := []string{"A2A-Version", "1.0"}
	type row struct {
		method, path, body string
		header             []string
	}
	const get = `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"no-such-task"}}`
	raws := map[string]row{
		"no version":           {"POST", "", get, nil},
		"version 0.3":          {"POST", "", get, []string{"A2A-Version", "0.3"}},
		"version 2.0":          {"POST", "", get, []string{"A2A-Version", "2.0"}},
		"version in the query": {"POST", "?A2A-Version=1.0", get, nil},
		"GET":                  {"GET", "", "", version},
		"an unknown method":    {"POST", "", `{"jsonrpc":"2.0","id":1,"method":"Nothing","params":{}}`, version},
		"no JSON":              {"POST", "", `{"jsonrpc":`, version},
		"an empty body":        {"POST", "", "", version},
		"a batch":              {"POST", "", "[" + get + "]", version},
		"no jsonrpc":           {"POST", "", `{"id":1,"method":"GetTask","params":{"id":"no-such-task"}}`, version},
		"an id that is null":   {"POST", "", `{"jsonrpc":"2.0","id":null,"method":"GetTask","params":{"id":"no-such-task"}}`, version},
		"an id of text":        {"POST", "", `{"jsonrpc":"2.0","id":"x","method":"GetTask","params":{"id":"no-such-task"}}`, version},
		"an id that is a list": {"POST", "", `{"jsonrpc":"2.0","id":[],"method":"GetTask","params":{"id":"no-such-task"}}`, version},
		"no params":            {"POST", "", `{"jsonrpc":"2.0","id":1,"method":"GetTask"}`, version},
		"params of a list":     {"POST", "", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":["x"]}`, version},
		"params of other type": {"POST", "", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":7}}`, version},
		"ListTasks, no params": {"POST", "", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"contextId":"none"}}`, version},
		"a message of text":    {"POST", "", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":"hello"}}`, version},
		"a role that is none":  {"POST", "", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"NONE","parts":[{"text":"work"}]}}}`, version},
		"text/plain":           {"POST", "", get, []string{"A2A-Version", "1.0", "Content-Type", "text/plain"}},
	}
	if by == sdk.TransportProtocolHTTPJSON {
		raws = map[string]row{
			"no version":                  {"GET", "/tasks/no-such-task", "", nil},
			"version 0.3":                 {"GET", "/tasks/no-such-task", "", []string{"A2A-Version", "0.3"}},
			"version in the query":        {"GET", "/tasks/no-such-task?A2A-Version=1.0", "", nil},
			"a path that is none":         {"GET", "/nothing", "", version},
			"a method that is none":       {"PUT", "/tasks/no-such-task", "{}", version},
			"no JSON":                     {"POST", "/message:send", `{"message":`, version},
			"an empty body":               {"POST", "/message:send", "", version},
			"a message of text":           {"POST", "/message:send", `{"message":"hello"}`, version},
			"a list":                      {"POST", "/message:send", `[]`, version},
			"a history that is no number": {"GET", "/tasks/no-such-task?historyLength=x", "", version},
			"a page that is no number":    {"GET", "/tasks?pageSize=x", "", version},
			"a state that is none":        {"GET", "/tasks?status=NONE&contextId=none", "", version},
			"cancel without a body":       {"POST", "/tasks/no-such-task:cancel", "", version},
			"subscribe by GET":            {"GET", "/tasks/no-such-task:subscribe", "", version},
			"subscribe by POST":           {"POST", "/tasks/no-such-task:subscribe", "", version},
			"another verb":                {"POST", "/tasks/no-such-task:stop", "", version},
			"text/plain":                  {"POST", "/message:send", `{"message":{}}`, []string{"A2A-Version", "1.0", "Content-Type", "text/plain"}},
		}
	}
	for name, r := range raws {
		rows["raw, "+name] = func(ctx context.Context, p *probe) string {
			return p.raw(ctx, r.method, p.base+r.path, r.body, r.header...)
		}
	}
	return rows
}

// chain is one endpoint with agents and servers behind it, and endpoints of other organisations
// in front of it, by the transport to it. All have an HTTP front.
type chain struct {
	agents string // URL of the agents
	far    *node
	nears  map[string]*node
}

// callers is how many callers each front of a chain has beside the anonymous one. If each has the
// 64 sessions of MCP that a caller may have, the far end has three quarters of the 1,024 that it may
// have, and the suites have room.
const callers = 4

// chained runs a chain, with agents at a URL and more in the configuration of its far end.
func chained(t *testing.T, url, more string) *chain {
	t.Helper()
	c := &chain{agents: url, far: prepared(t, "--name", "spiffe://far.example/swpd"), nears: make(map[string]*node)}
	trust := func(n *node) string { return fmt.Sprintf("trust: [%q]", filepath.Join(n.dir, "pki", "ca.crt")) }
	front := "http:\n  address: 127.0.0.1:0\n  anonymous: caller\n  callers:\n"
	for i := range callers {
		front += fmt.Sprintf("    c%d: {tokens: [%x]}\n", i, sha256.Sum256([]byte(token(i))))
	}
	c.far.more = front + more + "partners:\n"
	for _, name := range []string{"tls", "quic"} {
		n := prepared(t, "--name", "spiffe://"+name+".example/swpd")
		c.nears[name] = n
		c.far.more += fmt.Sprintf("  %s: {identity: spiffe://%s.example/swpd, %s}\n", name, name, trust(n))
	}
	c.far.more += "a2a:\n  agents:\n"
	for name := range able {
		for binding, path := range map[string]string{"jsonrpc": "", "rest": "/rest"} {
			c.far.more += fmt.Sprintf("    %s-%s: {url: %q, binding: %s, card: %q}\n", name, binding, url+"/"+name+path, binding, url+"/"+name+wellKnown)
		}
	}
	c.far.untilEnd(t)
	for name, n := range c.nears {
		n.more = fmt.Sprintf("partners:\n  far: {identity: spiffe://far.example/swpd, %s, addresses: [%q]}\n", trust(c.far), c.far.transports()[name]) + front
		n.untilEnd(t)
	}
	return c
}

// token returns the token of a caller of the fronts.
func token(i int) string { return fmt.Sprintf("token of caller %d", i) }

// ways are the ways to the agents and servers of a chain.
func (c *chain) ways() []string { return []string{"1", "2-quic", "2-tls"} }

// front returns the URL of the front of a way, and the prefix there of names at the far end.
func (c *chain) front(way string) (url, prefix string) {
	if n := c.nears[strings.TrimPrefix(way, "2-")]; n != nil {
		return n.http, "far/"
	}
	return c.far.http, ""
}

// agent returns the URL of an agent by a way, which is empty for the agent itself, and the URL
// of its card. The binding is the client's without a way, and the agent's with one.
func (c *chain) agent(way, name, binding string) (base, card string) {
	if way != "" {
		url, prefix := c.front(way)
		base = url + "/a2a/" + prefix + name + "-" + binding
		return base, base + wellKnown
	}
	base, card = c.agents+"/"+name, c.agents+"/"+name+wellKnown
	if binding == "rest" {
		base += "/rest"
	}
	return base, card
}

// An agent answers the same to a client directly, through one swpd, and through two. The gate
// looks at more places.
func TestA2AIsTheSameAtAnyDistance(t *testing.T) {
	t.Parallel()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the SDK tells there of each error
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	o := &obedient{held: make(map[sdk.TaskID]chan struct{})}
	o.compare(t, chained(t, serveAble(t, o), ""), readExpected(t), "1-rest", "2-quic-rest", "2-tls-jsonrpc")
}

// compare compares the outcomes of all rows, for all agents and bindings of clients, by ways that
// end with the binding of the agent.
func (o *obedient) compare(t *testing.T, c *chain, reasons expected, ways ...string) {
	t.Helper()
	for client, by := range map[string]sdk.TransportProtocol{"jsonrpc": sdk.TransportProtocolJSONRPC, "rest": sdk.TransportProtocolHTTPJSON} {
		for agent := range able {
			base, card := c.agent("", agent, client)
			directly := o.table(t, base, card, agent, by)
			for _, way := range ways {
				at := strings.LastIndexByte(way, '-')
				base, card := c.agent(way[:at], agent, way[at+1:])
				reasons.compare(t, "a2a/"+client+"/"+agent+"/"+way, directly, o.table(t, base, card, agent, by))
			}
		}
	}
}

// table returns the outcomes of all rows for an agent at a URL.
func (o *obedient) table(t *testing.T, base, card, agent string, by sdk.TransportProtocol) map[string]string {
	t.Helper()
	rows := operations()
	if agent == "all" {
		maps.Copy(rows, single(by))
	}
	outcomes := make(map[string]string, len(rows))
	var mu sync.Mutex
	var work sync.WaitGroup
	queue := make(chan string, len(rows))
	for name := range rows {
		queue <- name
	}
	close(queue)
	for range 8 {
		p := o.probe(t, base, card, by)
		work.Go(func() {
			for name := range queue {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				outcome := rows[name](ctx, p)
				if ctx.Err() != nil {
					t.Errorf("%s at %s took too long", name, base)
				}
				cancel()
				mu.Lock()
				outcomes[name] = outcome
				mu.Unlock()
			}
		})
	}
	work.Wait()
	return outcomes
}
