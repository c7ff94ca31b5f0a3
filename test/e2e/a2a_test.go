package e2e

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
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

// A client that is written with @a2a-js/sdk reaches an agent behind two organisations. Its
// script prints a line for each thing that it has seen. `make a2a-js` installs it and says where
// it is.
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
