package client

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/store/sqlstore"
)

// office is a site that takes tasks, and tells their states when a test says so.
type office struct {
	*site
	server  *serve.Server
	signer  seal.Signer           // of answers and states; without a key they are unsigned
	asked   []canonical.Value     // requests, in order
	session profiles.Session      // of the last one
	answer  func() *serve.Outcome // replaces the next answer; may be nil
}

// Handle implements the Server of the profile.
func (o *office) Handle(ctx context.Context, m *carriage.Message) carriage.Answer {
	v, refused := sdl.Decode(m.Body, sdl.JSON, sdl.Limits{})
	if refused != nil {
		o.t.Error(refused)
	}
	o.asked, o.session = append(o.asked, v), m.Session
	out := o.server.Handle(ctx, m.Body, sdl.JSON, serve.Caller{})
	if o.answer != nil {
		out, o.answer = o.answer(), nil
	}
	return carriage.Answer{Body: o.sign(out.Response).AppendJSON(nil)}
}

// Refusal implements the Server of the profile.
func (*office) Refusal(carriage.Form, *carriage.Fault) []byte { return []byte("{}") }

func (o *office) sign(v canonical.Value) canonical.Value {
	if o.signer.Key == nil {
		return v
	}
	v, err := o.signer.Sign(v)
	if err != nil {
		o.t.Error(err)
	}
	return v
}

func newOffice(t *testing.T) *office {
	t.Helper()
	server, err := serve.New(serve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	o := &office{server: server}
	o.site = newSiteOf(t, all.Options{SDL: carriage.Options{Server: o}, Relay: relay.Options{Store: store}})
	return o
}

// state is a state of the task of the first request, with the agents from and to.
func (o *office) state(status, from, to string) []byte {
	patch, err := canonical.ParseJSON([]byte(`{"base":"sha256:00","patch":[{"op":"replace","path":"/status","value":"` + status + `"}]}`))
	if err != nil {
		o.t.Fatal(err)
	}
	v := sdl.Response(o.asked[0], sdl.CTState, patch, sdl.Writing{}).With("type", canonical.String(sdl.TypeEvt)).
		With("from", agent(from).Value()).With("to", agent(to).Value())
	return o.sign(v).AppendJSON(nil)
}

const (
	askedAgent  = "did:web:server.example"
	askingAgent = "did:key:caller"
)

// tell sends a state on the session of the last request.
func (o *office) tell(status string) {
	o.t.Helper()
	if err := carriage.Tell(o.t.Context(), o.session, o.state(status, askedAgent, askingAgent)); err != nil {
		o.t.Fatal(err)
	}
	synctest.Wait()
}

// keep stores an event in the relay.
func (o *office) keep(id string, body []byte) {
	o.t.Helper()
	err := o.set.Relay.Keep(o.t.Context(), "here", &relay.Publication{ID: []byte(id), Topic: carriage.Topic + askingAgent, Payload: body})
	if err != nil {
		o.t.Fatal(err)
	}
}

func agent(id string) sdl.Identity {
	return sdl.Identity{AgentID: id, Name: id, Instance: "1", Role: "agent"}
}

// task is a request for a task.
func sdlTask(t *testing.T) canonical.Value {
	t.Helper()
	payload, err := canonical.ParseJSON([]byte(`{"kind":"task.v1","goal":"g","inputs":{},"constraints":{"time_budget_s":1,"compute_budget":"low","safety":{}},` +
		`"deliverables":[],"acceptance":[],"context":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	trace, err := canonical.ParseJSON([]byte(`{"root_id":"r","span_id":"s","hops":0}`))
	if err != nil {
		t.Fatal(err)
	}
	return sdl.New(sdl.TypeReq, sdl.CTTask, agent(askingAgent), agent(askedAgent), payload, sdl.Writing{}).With("trace", trace)
}

// followed is a Follow in progress.
type followed struct {
	states  []string // statuses that were shown
	ignored []string
	lost    int
	done    chan error
}

func (o *office) follows(f SDLFollower) *followed {
	w := &followed{done: make(chan error, 1)}
	f.Connect, f.Request = o.connect, sdlTask(o.t)
	f.State = func(e *sdl.Envelope) error {
		for op := range e.Payload.Get("patch").All() {
			status, _ := op.Get("value").Text()
			w.states = append(w.states, status)
		}
		return nil
	}
	f.Ignored = func(err error) { w.ignored = append(w.ignored, err.Error()) }
	f.Lost = func(error, time.Duration) { w.lost++ }
	go func() { w.done <- f.Follow(o.t.Context()) }()
	synctest.Wait()
	return w
}

// ends waits for the end.
func (w *followed) ends(t *testing.T, want error, states ...string) {
	t.Helper()
	select {
	case err := <-w.done:
		if !errors.Is(err, want) {
			t.Errorf("Follow: %v, want %v", err, want)
		}
	case <-time.After(time.Hour):
		t.Fatalf("Follow does not end after the states %q", w.states)
	}
	if !slices.Equal(w.states, states) {
		t.Errorf("states %q, want %q", w.states, states)
	}
}

// anew seals a request with a text in place of the nonce.
func anew() func(canonical.Value) (canonical.Value, error) {
	n := 0
	return func(v canonical.Value) (canonical.Value, error) {
		n++
		return v.With("n", canonical.Int(int64(n))), nil
	}
}

// The request is sent again under its id, sealed anew, and states that were sent before the
// loss are shown once.
func TestFollowedSDLTaskGoesOnOverAnotherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		w := o.follows(SDLFollower{Seal: anew()})
		o.tell("working")
		for range 3 {
			o.cut(nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			o.tell("working")
		}
		o.tell("completed")
		w.ends(t, nil, "working", "completed")
		if w.lost < 3 || len(o.asked) != 4 {
			t.Errorf("lost %d times, asked %d times", w.lost, len(o.asked))
		}
		for i, v := range o.asked {
			if n, _ := v.Get("n").Int64(); n != int64(i)+1 || canonical.Hash(v.Get("id")) != canonical.Hash(o.asked[0].Get("id")) {
				t.Errorf("request %d is number %d with id %s", i, n, v.Get("id").AppendJSON(nil))
			}
		}
	})
}

// A request with a nonce is not sent twice: its states come from the relay, which keeps those
// of other tasks.
func TestStatesOfASealedRequestComeFromTheRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		w := o.follows(SDLFollower{})
		o.tell("working")
		other := strings.Replace(string(o.state("failed", askedAgent, askingAgent)), `"parent_span_id":"s"`, `"parent_span_id":"t"`, 1)
		o.keep("1", []byte(other))
		o.keep("2", o.state("working", askedAgent, askingAgent))
		o.keep("3", o.state("failed", askedAgent, askingAgent))
		o.cut(nil)
		w.ends(t, ErrSDLFailed, "working", "failed")
		if len(o.asked) != 1 {
			t.Errorf("asked %d times", len(o.asked))
		}
		c, err := o.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		from, err := c.set.Relay.Consume(t.Context(), c.Session, carriage.Topic+askingAgent, 8)
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		var left []string
		for {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			d, err := from.Recv(ctx)
			cancel()
			if err != nil {
				break
			}
			left = append(left, string(d.ID))
			_ = d.Ack()
		}
		if !slices.Equal(left, []string{"1"}) {
			t.Errorf("the relay still has %q, want the state of the other task only", left)
		}
	})
}

// States that nobody vouches for do not end a task, whichever way they come.
func TestStatesAreBelievedIfATrustedKeySignedThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kid = askedAgent + "#1"
		o := newOffice(t)
		good, bad := seal.Signer{Kid: kid}, seal.Signer{Kid: kid}
		for _, s := range []*seal.Signer{&good, &bad} {
			var err error
			if s.Key, err = seal.GenerateSigning(nil); err != nil {
				t.Fatal(err)
			}
		}
		o.signer = good
		w := o.follows(SDLFollower{Seal: anew(), Trust: SDLTrust{Signers: map[string]ed25519.PublicKey{kid: ed25519.PublicKey(good.Key[ed25519.SeedSize:])}}})
		o.signer = bad
		o.tell("completed")
		o.signer = seal.Signer{}
		o.tell("completed")
		o.signer = good
		for _, parties := range [][2]string{{"did:web:other.example", askingAgent}, {askedAgent, "did:key:other"}} {
			if err := carriage.Tell(t.Context(), o.session, o.state("completed", parties[0], parties[1])); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		o.tell("working")
		o.tell("completed")
		w.ends(t, nil, "working", "completed")
		want := []string{
			"seal: signature does not fit the envelope in either form", "client: the envelope is not signed",
			`client: state from "did:web:other.example" to "did:key:caller", want from "did:web:server.example" to "did:key:caller"`,
			`client: state from "did:web:server.example" to "did:key:other", want from "did:web:server.example" to "did:key:caller"`,
		}
		if !slices.Equal(w.ignored, want) {
			t.Errorf("ignored %q, want %q", w.ignored, want)
		}
	})
}

// A refusal ends it, the second time as well, unless the endpoint says that it will pass.
func TestFollowEndsWithARefusalThatStays(t *testing.T) {
	for retryable, states := range map[bool][]string{false: nil, true: {"completed"}} {
		t.Run(fmt.Sprint(retryable), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOffice(t)
				w := o.follows(SDLFollower{Seal: anew()})
				o.answer = func() *serve.Outcome {
					e := &sdl.Error{Code: sdl.BadRequest, Retryable: retryable}
					return &serve.Outcome{Response: sdl.ErrorEnvelope(o.asked[1], e, sdl.Writing{})}
				}
				o.cut(nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				if retryable {
					o.tell("completed")
					w.ends(t, nil, states...)
					return
				}
				select {
				case err := <-w.done:
					if refused, ok := errors.AsType[*SDLError](err); !ok || refused.Code != string(sdl.BadRequest) {
						t.Errorf("Follow: %v", err)
					}
				case <-time.After(time.Hour):
					t.Fatal("Follow does not end")
				}
			})
		})
	}
}

// A listener gets the events that come while it is connected, and those that the relay has kept,
// over several connections; those for others stay in the relay.
func TestSDLListenerGetsWhatComesAndWhatWasKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.asked = append(o.asked, sdlTask(t))
		o.keep("1", o.state("kept", askedAgent, askingAgent))
		o.keep("2", o.state("of another", askedAgent, "did:key:other"))
		var heard, ignored []string
		done := make(chan error, 1)
		go func() {
			done <- SDLListener{
				Connect: o.connect, Agent: askingAgent, Count: 3,
				Heard: func(e *sdl.Envelope) error {
					status, _ := e.Payload.Get("patch").At(0).Get("value").Text()
					heard = append(heard, status)
					return nil
				},
				Ignored: func(err error) { ignored = append(ignored, err.Error()) },
			}.Listen(t.Context())
		}()
		for _, status := range []string{"while connected", "after a loss"} {
			time.Sleep(time.Minute)
			synctest.Wait()
			session, ok := o.set.A2A.Session(askingAgent)
			if !ok {
				t.Fatal("the agent is not declared")
			}
			if err := carriage.Tell(t.Context(), session, o.state(status, askedAgent, askingAgent)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if status == "while connected" {
				o.cut(nil)
			}
		}
		if err := <-done; err != nil {
			t.Errorf("Listen: %v", err)
		}
		if want := []string{"kept", "while connected", "after a loss"}; !slices.Equal(heard, want) || len(ignored) == 0 {
			t.Errorf("heard %q, want %q; ignored %q", heard, want, ignored)
		}
	})
}

func TestFollowEndsWithItsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		w := o.follows(SDLFollower{Seal: anew(), Patience: time.Minute})
		o.cut(errDown)
		w.ends(t, errDown)
	})
}

// Without a trace no state can be told from those of other tasks.
func TestFollowOfARequestWithoutTraceIsRefused(t *testing.T) {
	err := SDLFollower{Request: sdlTask(t).Without("trace")}.Follow(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no trace") {
		t.Errorf("Follow: %v", err)
	}
}
