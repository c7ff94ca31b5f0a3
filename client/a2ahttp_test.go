package client

import (
	"context"
	"net"
	"net/http"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
)

const weatherCard = `{"name":"weather","description":"d","version":"1","capabilities":{"streaming":true},` +
	`"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[],` +
	`"supportedInterfaces":[{"url":"https://nowhere.invalid","protocolBinding":"GRPC","protocolVersion":"1.0"}]}`

// weather says how it is, and in streams from one step to the next.
func weather(step <-chan struct{}) a2a.WorkerFunc {
	return func(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		if o, _ := a2abinding.OfKind(t.Kind); !o.Streams {
			return []byte(`{"message":{"messageId":"m-2","role":"ROLE_AGENT","parts":[{"text":"sunny"}]}}`), nil
		}
		for _, state := range []string{"SUBMITTED", "WORKING", "COMPLETED"} {
			select {
			case <-step:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if err := event("", []byte(`{"statusUpdate":{"taskId":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_`+state+`"}}}`)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

func TestA2AOverHTTPIsTheRemoteAgentAndOutlivesItsConnection(t *testing.T) {
	table, err := agdisc.NewTable(agdisc.Card{AgentID: "weather", Payload: []byte(weatherCard)})
	if err != nil {
		t.Fatal(err)
	}
	step := make(chan struct{}, 3)
	s := newSiteWith(t, a2a.Options{Workers: []a2a.Registration{
		{Agent: "weather", Kinds: a2abinding.Kinds(), Worker: weather(step)},
		{Agent: "other", Kinds: a2abinding.Kinds(), Worker: weather(step)},
	}}, agdisc.Options{Sources: []agdisc.Source{table}})
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	peer := Keep(KeepOptions{Dial: s.dial})
	defer peer.Close()
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- ServeA2AHTTP(ctx, A2AHTTPOptions{Peer: peer, Agent: "weather", Listener: ln, Ready: func() { close(ready) }})
	}()
	<-ready
	url := "http://" + ln.Addr().String()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()

	card, err := agentcard.NewResolver(http.DefaultClient).Resolve(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	for _, binding := range []sdk.TransportProtocol{sdk.TransportProtocolJSONRPC, sdk.TransportProtocolHTTPJSON} {
		c, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []sdk.TransportProtocol{binding}}))
		if err != nil {
			t.Fatal(err)
		}
		message := &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("weather?"))}
		said, err := c.SendMessage(ctx, message)
		if m, ok := said.(*sdk.Message); err != nil || !ok || m.ID != "m-2" {
			t.Errorf("%s: SendMessage: %v, %v", binding, said, err)
		}
		var got []sdk.TaskState
		step <- struct{}{}
		for event, err := range c.SendStreamingMessage(ctx, message) {
			if err != nil {
				t.Fatalf("%s: after %v: %v", binding, got, err)
			}
			update, ok := event.(*sdk.TaskStatusUpdateEvent)
			if !ok {
				t.Fatalf("%s: event %T", binding, event)
			}
			if got = append(got, update.Status.State); len(got) == 1 {
				s.cut(nil)
				step <- struct{}{}
				step <- struct{}{}
			}
		}
		if diff := cmp.Diff([]sdk.TaskState{sdk.TaskStateSubmitted, sdk.TaskStateWorking, sdk.TaskStateCompleted}, got); diff != "" {
			t.Errorf("%s: %s", binding, diff)
		}
		if err := c.Destroy(); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{"/a2a/other/tasks", "/a2a/other/.well-known/agent-card.json", "/", "//a2a/weather"} {
		if status, contentType, body := get(t, url+path); status != http.StatusNotFound || contentType != "application/json" {
			t.Errorf("%s: %d %s %s", path, status, contentType, body)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("ServeA2AHTTP: %v", err)
	}
}

func TestA2AOverHTTPIsNotServedWithoutThePeer(t *testing.T) {
	s := newSite(t, a2a.Options{})
	s.down = net.ErrClosed
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peer := Keep(KeepOptions{Dial: s.dial})
	defer peer.Close()
	if err := ServeA2AHTTP(t.Context(), A2AHTTPOptions{Peer: peer, Agent: "weather", Listener: ln}); err == nil {
		t.Error("served")
	}
	if c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", ln.Addr().String()); err == nil {
		t.Error("still listening", c.Close())
	}
}
