package obs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// asker is a profile that tells what trace context its handlers have: inline,
// detached and held ones, as the payload asks.
func asker() *profiles.Profile {
	tell := func(ctx context.Context, w profiles.Responder) error {
		t := profiles.TraceOf(ctx)
		return w.Finish(e1.Envelope{MsgType: 2, Payload: []byte(t.Parent + "|" + t.State)})
	}
	return &profiles.Profile{
		ID: 900, Name: "asker",
		Types: []profiles.Type{
			{ID: 1, Name: "ASK", Role: profiles.Initiating},
			{ID: 2, Name: "TOLD", Role: profiles.Answer},
		},
		Lifecycle: func(env *e1.Envelope) []byte {
			_, key, _ := strings.Cut(string(env.Payload), " ")
			return []byte(key)
		},
		Handler: profiles.HandlerFunc(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
			switch {
			case strings.HasPrefix(string(req.Payload), "detached"):
				return req.Detach(func(ctx context.Context, _ *profiles.Request, w profiles.Responder) error { return tell(ctx, w) })
			case strings.HasPrefix(string(req.Payload), "held"):
				_, w, err := req.Hold()
				if err != nil {
					return err
				}
				return tell(w.Context(), w)
			}
			return tell(ctx, w)
		}),
	}
}

// connect returns a session whose other end serves OBS and asker.
func connect(t *testing.T, many bool, opts obs.Options) profiles.Session {
	t.Helper()
	attach := func(conn transport.Conn, c *obs.Contexts, list ...*profiles.Profile) *endpoint.Session {
		reg, err := profiles.NewRegistry(append(list, c.Profile())...)
		if err != nil {
			t.Fatal(err)
		}
		ep, err := endpoint.New(endpoint.Options{Registry: reg, Tracer: endpoint.ContextFunc(c.Attach)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ep.Close() })
		return ep.Attach(conn)
	}
	a, b := transport.NewPipe(transport.PipeOptions{Multiplexed: many})
	attach(b, obs.New(opts), asker())
	return attach(a, obs.New(obs.Options{}), asker())
}

func both(t *testing.T, opts obs.Options, test func(*testing.T, profiles.Session)) {
	for _, many := range []bool{false, true} {
		t.Run(fmt.Sprintf("many streams %v", many), func(t *testing.T) { test(t, connect(t, many, opts)) })
	}
}

func open(t *testing.T, s profiles.Session) profiles.Lane {
	t.Helper()
	lane, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lane.Close() })
	return lane
}

// ask returns the trace context that a handler at the other end has.
func ask(t *testing.T, on profiles.Caller, how string) string {
	t.Helper()
	call, err := on.Call(t.Context(), e1.Envelope{ProfileID: 900, MsgType: 1, Payload: []byte(how)})
	if err != nil {
		t.Fatal(err)
	}
	defer call.Close()
	env, err := call.Recv(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(env.Payload)
}

func TestHandlersHaveTheContextThatWasSentAhead(t *testing.T) {
	both(t, obs.Options{}, func(t *testing.T, s profiles.Session) {
		lane := open(t, s)
		if got := ask(t, lane, "inline"); got != "|" {
			t.Errorf("before any SET: %q", got)
		}
		if err := obs.Send(t.Context(), lane, profiles.Trace{Parent: parent, State: " a=1,,b "}, obs.IDs{}); err != nil {
			t.Fatal(err)
		}
		ctx := profiles.WithTrace(t.Context(), profiles.Trace{Parent: another, State: "c=2"})
		forward(t, ctx, lane)
		for _, how := range []string{"inline", "detached", "held"} {
			for key, want := range map[string]string{
				"":       parent + "| a=1,,b ",
				" other": parent + "| a=1,,b ",
				" task":  another + "|c=2",
				" call":  another + "|c=2",
			} {
				if got := ask(t, lane, how+key); got != want {
					t.Errorf("%s%s: %q, want %q", how, key, got, want)
				}
			}
		}
		// It holds for the connection, whichever stream a message comes on.
		if got := ask(t, s, "inline task"); got != another+"|c=2" {
			t.Errorf("on another stream: %q", got)
		}
	})
}

// forward sends the trace context of ctx ahead of a task, of a call, and of what has no
// id, for which nothing is sent.
func forward(t *testing.T, ctx context.Context, lane profiles.Lane) {
	t.Helper()
	for _, m := range []profiles.Onward{
		{Scope: profiles.ScopeTask, ID: []byte("task")}, {Scope: profiles.ScopeRPC, ID: []byte("call")}, {Name: "server"},
	} {
		if _, err := new(obs.Contexts).Forward(ctx, lane, &m); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWithoutATraceNothingIsSentAhead(t *testing.T) {
	both(t, obs.Options{}, func(t *testing.T, s profiles.Session) {
		lane := open(t, s)
		forward(t, t.Context(), lane)
		got, ids, err := obs.Last(t.Context(), lane)
		if err != nil || got != (profiles.Trace{}) || len(ids.TaskID)+len(ids.RPCID) > 0 {
			t.Errorf("%+v, %+v, %v", got, ids, err)
		}
	})
}

func TestLastReturnsWhatWasBound(t *testing.T) {
	both(t, obs.Options{}, func(t *testing.T, s profiles.Session) {
		lane := open(t, s)
		want := profiles.Trace{Parent: parent, State: "b=2 , a=1"}
		wantIDs := obs.IDs{MsgID: []byte("m"), TaskID: []byte("t"), RPCID: []byte("r")}
		if err := obs.Bind(t.Context(), lane, want, wantIDs); err != nil {
			t.Fatal(err)
		}
		got, ids, err := obs.Last(t.Context(), s)
		if err != nil || got != want || !cmp.Equal(ids, wantIDs) {
			t.Errorf("Last: %+v, %+v, %v", got, ids, err)
		}
	})
}

func TestWhatIsNoTraceContextIsNotSent(t *testing.T) {
	both(t, obs.Options{}, func(t *testing.T, s profiles.Session) {
		var fault *profiles.Error
		err := obs.Send(t.Context(), s, profiles.Trace{Parent: "a-b-c-d"}, obs.IDs{})
		if !errors.As(err, &fault) || fault.Detail != obs.CodeTraceparent {
			t.Errorf("Send: %v", err)
		}
	})
}

func TestTheRefusalOfThePeerIsTheError(t *testing.T) {
	both(t, obs.Options{Access: rules{}}, func(t *testing.T, s profiles.Session) {
		var fault *profiles.Error
		if _, _, err := obs.Last(t.Context(), s); !errors.As(err, &fault) || fault.Code != profiles.SecurityPolicy {
			t.Errorf("Last: %v", err)
		}
	})
	const who = "spiffe://pipe.invalid/a obs "
	for operation, want := range map[string]profiles.Code{"get": profiles.SecurityPolicy, "set": profiles.OK} {
		both(t, obs.Options{Access: rules{who + operation + " ": true}}, func(t *testing.T, s profiles.Session) {
			var fault *profiles.Error
			err := obs.Bind(t.Context(), open(t, s), profiles.Trace{Parent: parent}, obs.IDs{})
			if errors.As(err, &fault) && (fault.Code != want || fault.Text != "obs: set is not allowed") || (err == nil) != (want == profiles.OK) {
				t.Errorf("only %s is allowed: Bind: %v", operation, err)
			}
		})
	}
}

// PR-13 over a connection: the refusal is told, costs the peer what a refusal
// costs, and leaves the connection as it was.
func TestPR13ARefusalIsToldInBand(t *testing.T) {
	both(t, obs.Options{}, func(t *testing.T, s profiles.Session) {
		lane := open(t, s)
		if err := obs.Bind(t.Context(), lane, profiles.Trace{Parent: parent}, obs.IDs{}); err != nil {
			t.Fatal(err)
		}
		for name, bad := range map[string]profiles.Trace{
			obs.CodeTraceparent: {Parent: strings.ToUpper(parent)},
			obs.CodeTracestate:  {Parent: parent, State: strings.Repeat("a=1,", 25<<10)},
		} {
			var fault *profiles.Error
			if err := obs.Bind(t.Context(), lane, bad, obs.IDs{}); !errors.As(err, &fault) || fault.Detail != name || fault.Code != profiles.InvalidProfilePayload {
				t.Errorf("%s: %v", name, err)
			}
			if got, _, err := obs.Last(t.Context(), lane); err != nil || got.Parent != parent {
				t.Errorf("%s: the peer has %q, %v", name, got.Parent, err)
			}
		}
		var err error
		for range 20 { // two refusals were charged already
			if err = obs.Bind(t.Context(), lane, profiles.Trace{Parent: "a-b-c-d"}, obs.IDs{}); !errors.As(err, new(*profiles.Error)) {
				break
			}
		}
		<-s.Context().Done()
		if err == nil {
			t.Error("the budget for errors is not spent")
		}
	})
}
