package e2e

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2aext"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
)

// sdkAgent is an agent as its author would write it with the Go SDK of A2A: it says
// what it is told, and works on "work" in three steps that the test lets it take.
type sdkAgent struct{ steps chan struct{} }

func (a *sdkAgent) Execute(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		text := x.Message.Parts[0].Text()
		if text != "work" {
			yield(sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart(text)), nil)
			return
		}
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
		if yield(sdk.NewArtifactEvent(x, sdk.NewTextPart("done")), nil) {
			yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCompleted, nil), nil)
		}
	}
}

func (a *sdkAgent) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCanceled, nil), nil)
	}
}

// step lets the agent take n steps.
func (a *sdkAgent) step(n int) {
	for range n {
		a.steps <- struct{}{}
	}
}

// someone is whom the agent takes every caller for: its tasks are listed to users only.
type someone struct {
	a2asrv.PassthroughCallInterceptor
}

func (someone) Before(ctx context.Context, c *a2asrv.CallContext, _ *a2asrv.Request) (context.Context, any, error) {
	c.User = a2asrv.NewAuthenticatedUser("someone", nil)
	return ctx, nil, nil
}

type unsent struct{}

func (unsent) SendPush(context.Context, *sdk.PushConfig, sdk.Event) error { return nil }

// required is an extension that the agent "strict" wants its clients to know.
const required = "https://example.com/extensions/strict/v1"

// serveAgents serves two agents over HTTP, /worker and /strict, by JSON-RPC, and
// /worker by REST too, and returns the address.
func serveAgents(t *testing.T, a *sdkAgent) string {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for name, extensions := range map[string][]sdk.AgentExtension{"worker": nil, "strict": {{URI: required, Required: true}}} {
		card := &sdk.AgentCard{
			Name: name, Description: "an agent of another organisation", Version: "1",
			Capabilities: sdk.AgentCapabilities{Streaming: true, PushNotifications: true, ExtendedAgentCard: true, Extensions: extensions},
			SupportedInterfaces: []*sdk.AgentInterface{
				sdk.NewAgentInterface(server.URL+"/"+name, sdk.TransportProtocolJSONRPC),
			},
			DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
			Skills: []sdk.AgentSkill{{ID: "work", Name: "work", Description: "works", Tags: []string{"work"}}},
		}
		extended := *card
		extended.Name = name + ", extended"
		handler := a2asrv.NewHandler(a, a2asrv.WithCallInterceptors(someone{}),
			a2asrv.WithPushNotifications(push.NewInMemoryStore(), unsent{}),
			a2asrv.WithExtendedAgentCard(&extended),
		)
		mux.Handle("/"+name, a2asrv.NewJSONRPCHandler(handler))
		mux.Handle("/"+name+"/rest/", http.StripPrefix("/"+name+"/rest", a2asrv.NewRESTHandler(handler)))
		mux.Handle("/"+name+"/card", a2asrv.NewStaticAgentCardHandler(card))
	}
	return server.URL
}

// fronted is those agents behind the swpd of one organisation, and the address of the
// HTTP front of the other.
func fronted(t *testing.T, transport, binding, url string) string {
	t.Helper()
	path := map[string]string{"jsonrpc": "", "rest": "/rest"}[binding]
	var agents strings.Builder
	for _, name := range []string{"worker", "strict"} {
		fmt.Fprintf(&agents, "    %s: {url: %q, binding: %s, card: %q}\n", name, url+"/"+name+path, binding, url+"/"+name+"/card")
	}
	return behind(t, transport, "a2a:\n  agents:\n"+agents.String()) + "/a2a/far/"
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// told is what an event says, in a word.
func told(t *testing.T, e sdk.Event, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	switch e := e.(type) {
	case *sdk.Task:
		return "task " + string(e.Status.State)
	case *sdk.TaskStatusUpdateEvent:
		return string(e.Status.State)
	case *sdk.TaskArtifactUpdateEvent:
		return "artifact"
	case *sdk.Message:
		return "message"
	}
	return fmt.Sprintf("%T", e)
}

// A client and an agent that know nothing of SlimWire, each written with the Go SDK of
// A2A, do all that A2A has through two organisations.
func TestA2AProgramsNeedNotKnowWhatIsBetweenThem(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"tls", "quic"} {
		for _, binding := range []string{"jsonrpc", "rest"} {
			t.Run(transport+"/"+binding, func(t *testing.T) {
				agent := &sdkAgent{steps: make(chan struct{}, 8)}
				front := fronted(t, transport, binding, serveAgents(t, agent))
				for _, by := range []sdk.TransportProtocol{sdk.TransportProtocolJSONRPC, sdk.TransportProtocolHTTPJSON} {
					t.Run(string(by), func(t *testing.T) { useAgent(t, agent, front, by) })
				}
				http.DefaultClient.CloseIdleConnections()
			})
		}
	}
}

func connectTo(t *testing.T, url string, by sdk.TransportProtocol, opts ...a2aclient.FactoryOption) *a2aclient.Client {
	t.Helper()
	card, err := agentcard.NewResolver(http.DefaultClient).Resolve(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	opts = append(opts, a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []sdk.TransportProtocol{by}}))
	client, err := a2aclient.NewFromCard(within(t), card, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Destroy() })
	return client
}

func useAgent(t *testing.T, agent *sdkAgent, front string, by sdk.TransportProtocol) {
	ctx := within(t)
	client := connectTo(t, front+"worker", by)
	say := func(text string) *sdk.SendMessageRequest {
		return &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text))}
	}

	// A message.
	answer, err := client.SendMessage(ctx, say("hello"))
	if m, ok := answer.(*sdk.Message); err != nil || !ok || m.Parts[0].Text() != "hello" {
		t.Fatalf("%+v, %v", answer, err)
	}

	// A task that streams.
	agent.step(3)
	var got []string
	var id sdk.TaskID
	for e, err := range client.SendStreamingMessage(ctx, say("work")) {
		got = append(got, told(t, e, err))
		id = e.TaskInfo().TaskID
	}
	working, done := string(sdk.TaskStateWorking), string(sdk.TaskStateCompleted)
	if want := []string{"task " + string(sdk.TaskStateSubmitted), working, working, working, "artifact", done}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	if task, err := client.GetTask(ctx, &sdk.GetTaskRequest{ID: id}); err != nil || task.Status.State != sdk.TaskStateCompleted {
		t.Fatalf("%+v, %v", task, err)
	}
	if list, err := client.ListTasks(ctx, &sdk.ListTasksRequest{}); err != nil || len(list.Tasks) == 0 {
		t.Errorf("%+v, %v", list, err)
	}

	// The connection of a stream is killed; another one subscribes to the task.
	cut, kill := context.WithCancel(ctx)
	defer kill()
	for e, err := range client.SendStreamingMessage(cut, say("work")) {
		if cut.Err() != nil {
			break
		}
		told(t, e, err)
		id = e.TaskInfo().TaskID
		kill()
	}
	subscribed := false
	got = nil
	for e, err := range client.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: id}) {
		if got = append(got, told(t, e, err)); !subscribed {
			subscribed = true
			agent.step(3)
		}
	}
	if want := []string{"task " + string(sdk.TaskStateSubmitted), working, working, working, "artifact", done}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}

	// A task that is cancelled.
	got = nil
	for e, err := range client.SendStreamingMessage(ctx, say("work")) {
		got = append(got, told(t, e, err))
		if _, ok := e.(*sdk.Task); ok {
			task, err := client.CancelTask(ctx, &sdk.CancelTaskRequest{ID: e.TaskInfo().TaskID})
			if err != nil || task.Status.State != sdk.TaskStateCanceled {
				t.Fatalf("%+v, %v", task, err)
			}
		}
	}
	if got[len(got)-1] != string(sdk.TaskStateCanceled) {
		t.Errorf("%q", got)
	}
	if _, err := client.CancelTask(ctx, &sdk.CancelTaskRequest{ID: "no-such-task"}); !errors.Is(err, sdk.ErrTaskNotFound) {
		t.Errorf("%v", err)
	}

	// Where notifications go.
	made, err := client.CreateTaskPushConfig(ctx, &sdk.PushConfig{TaskID: id, ID: "one", URL: "https://example.com/hook"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.GetTaskPushConfig(ctx, &sdk.GetTaskPushConfigRequest{TaskID: id, ID: made.ID}); err != nil || got.URL != made.URL {
		t.Errorf("%+v, %v", got, err)
	}
	if list, err := client.ListTaskPushConfigs(ctx, &sdk.ListTaskPushConfigRequest{TaskID: id}); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := client.DeleteTaskPushConfig(ctx, &sdk.DeleteTaskPushConfigRequest{TaskID: id, ID: made.ID}); err != nil {
		t.Error(err)
	}

	// The extended card, and an extension that has to be known.
	if card, err := client.GetExtendedAgentCard(ctx, &sdk.GetExtendedAgentCardRequest{}); err != nil || card.Name != "worker, extended" {
		t.Errorf("%+v, %v", card, err)
	}
	if _, err := connectTo(t, front+"strict", by).SendMessage(ctx, say("hello")); !errors.Is(err, sdk.ErrExtensionSupportRequired) {
		t.Errorf("%v", err)
	}
	knowing := connectTo(t, front+"strict", by, a2aclient.WithCallInterceptors(a2aext.NewActivator(required)))
	if _, err := knowing.SendMessage(ctx, say("hello")); err != nil {
		t.Error(err)
	}
}

// The same with the client of @a2a-js/sdk, whose script prints a line for each thing
// that it has seen. `make a2a-js` installs it and says where it is.
func TestA2AClientInJavaScript(t *testing.T) {
	modules := os.Getenv("SWP_A2A_JS")
	if modules == "" {
		t.Skip("needs @a2a-js/sdk: make a2a-js")
	}
	want, err := os.ReadFile("testdata/a2a.txt")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/a2a.mjs")
	if err != nil {
		t.Fatal(err)
	}
	file := modules + "/a2a.mjs" // beside the modules that it imports
	if err := os.WriteFile(file, script, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{"tls", "quic"} {
		t.Run(transport, func(t *testing.T) {
			agent := &sdkAgent{steps: make(chan struct{}, 16)}
			front := fronted(t, transport, "jsonrpc", serveAgents(t, agent))
			cmd := exec.CommandContext(within(t), "node", file, front, required)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var out, errs strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &errs
			agent.step(3)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = in.Close()
			if err := cmd.Wait(); err != nil || out.String() != string(want) {
				t.Errorf("%v\n%s\nwant\n%s\n%s", err, out.String(), want, errs.String())
			}
		})
	}
}
