package partner_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// The messages of a profile that crosses: ASK is answered once, KEEP if it is refused, FOLLOW
// several times.
const (
	typeAsk    = 1
	typeKeep   = 2
	typeAnswer = 3
	typeErr    = 4
	typeFollow = 5
)

// crossed is a profile whose payload is a name, and whose answer is the name and " done".
func crossed(serve func(name string, req *profiles.Request, w profiles.Responder) error) *profiles.Profile {
	return &profiles.Profile{
		ID: 900, Name: "crossed",
		Types: []profiles.Type{
			{ID: typeAsk, Name: "ASK", Role: profiles.Initiating}, {ID: typeKeep, Name: "KEEP", Role: profiles.Initiating},
			{ID: typeFollow, Name: "FOLLOW", Role: profiles.Initiating},
			{ID: typeAnswer, Name: "ANSWER", Role: profiles.Answer | profiles.Terminal}, {ID: typeErr, Name: "ERR", Role: profiles.Answer | profiles.Terminal},
		},
		Operations: []profiles.Operation{{Name: "use", On: "name"}},
		Crossing: &profiles.Crossing{
			Read: func(env *e1.Envelope) (profiles.Errand, error) {
				e := profiles.Errand{Operation: "use", Names: []string{string(env.Payload)}, By: []uint64{typeAnswer}}
				switch env.MsgType {
				case typeKeep:
					e.Answers = profiles.Refusal
				case typeFollow:
					e.Answers = profiles.Many
				}
				return e, nil
			},
			Pass: func(way *profiles.Way, req *profiles.Request, _ profiles.Responder) (func(context.Context) error, error) {
				name := bytes.Clone(req.Payload)
				return func(ctx context.Context) error {
					s, err := way.Session(ctx)
					if err != nil {
						return err
					}
					call, err := s.Call(ctx, e1.Envelope{ProfileID: 900, MsgType: typeAsk, Payload: name})
					if err != nil {
						return err
					}
					defer call.Close()
					_, err = call.Recv(ctx)
					return err
				}, nil
			},
			Rename: func(env *e1.Envelope, f func([]byte) []byte) ([]byte, error) { return f(env.Payload), nil },
			Refused: func(env *e1.Envelope) *profiles.PeerError {
				if env.MsgType != typeErr {
					return nil
				}
				return &profiles.PeerError{Profile: "crossed", Code: "NOT_FOUND", Message: string(env.Payload)}
			},
		},
		Refusal: func(_ *profiles.Request, err *profiles.Error) (e1.Envelope, bool) {
			return e1.Envelope{MsgType: typeErr, Payload: []byte(err.Text)}, true
		},
		Handler: profiles.HandlerFunc(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
			return serve(string(req.Payload), req, w)
		}),
	}
}

// pair is a client of an endpoint with a partner b.
type hopPair struct {
	client *endpoint.Session
	there  chan string // names that b was asked about
	freeze chan struct{}
	link   *partner.Link

	far, near *memory.Budget // of b, and of the end that dials it
}

// newHopPair links two endpoints by pipes. b answers nothing once freeze is closed.
func newHopPair(t *testing.T, access profiles.Access) *hopPair {
	t.Helper()
	return newHopPairTo(t, access, rpc.Info{
		Profiles: []rpc.ProfileInfo{{ID: 900}, {ID: rpc.ProfileID}}, Extensions: map[uint64][]uint64{0: {profiles.ExtTarget}},
	})
}

// newHopPairTo is newHopPair with what b says that it offers.
func newHopPairTo(t *testing.T, access profiles.Access, offer rpc.Info) *hopPair {
	t.Helper()
	h := &hopPair{
		there: make(chan string, 100), freeze: make(chan struct{}), far: memory.New(4 << 20), near: memory.New(4 << 20),
	}
	end := func(budget *memory.Budget, list ...*profiles.Profile) *endpoint.Endpoint {
		reg, err := profiles.NewRegistry(list...)
		if err != nil {
			t.Fatal(err)
		}
		ep, err := endpoint.New(endpoint.Options{Registry: reg, Memory: budget})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ep.Close() })
		return ep
	}
	calls := func(o rpc.Options) *profiles.Profile {
		p, err := rpc.New(o)
		if err != nil {
			t.Fatal(err)
		}
		frozen := *p
		frozen.Handler = profiles.HandlerFunc(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
			select {
			case <-h.freeze:
				_, _, err := req.Hold()
				return err
			default:
				return p.Handler.Serve(ctx, req, w)
			}
		})
		return &frozen
	}
	b := end(h.far, calls(rpc.Options{Info: func(profiles.Session) rpc.Info { return offer }}), crossed(func(name string, req *profiles.Request, w profiles.Responder) error {
		h.there <- name
		select {
		case <-h.freeze:
			_, _, err := req.Hold()
			return err
		default:
		}
		switch {
		case name == "absent":
			return &profiles.Error{Code: profiles.NotFound, Text: "absent", Domain: true}
		case name == "never":
			req.Defer()
			return nil
		case req.MsgType == typeKeep:
			return nil
		}
		return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: []byte(name + " done")})
	}))
	link := end(h.near, calls(rpc.Options{}), crossed(nil))
	var err error
	h.link, err = partner.New(partner.Options{
		Name: "b", Identity: "spiffe://b.example/swpd", Self: func() string { return "spiffe://a.example/swpd" },
		Addresses: []transport.Addr{{Transport: "tls", Host: "b.example", Port: 1}},
		Dial: func(context.Context, transport.Addr) (transport.Conn, error) {
			ours, theirs := transport.Pipe()
			b.Attach(theirs).AwaitRoom() // it has a link, too
			return ours, nil
		},
		Attach: link.Attach,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.link.Close)
	var d partner.Directory
	d.Set([]*partner.Link{h.link})
	h.link.Start()
	own := crossed(func(name string, _ *profiles.Request, w profiles.Responder) error {
		return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: []byte(name + " here")})
	})
	own.Handler = d.Hop(own, access)
	passing, err := rpc.New(rpc.Options{Toward: d.MethodAt})
	if err != nil {
		t.Fatal(err)
	}
	p, err := rpc.New(rpc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := end(nil, passing, own)
	none := crossed(nil)
	c := end(nil, p, none)
	ours, theirs := transport.Pipe()
	a.Attach(theirs)
	h.client = c.Attach(ours)
	return h
}

// ask sends a message and returns what comes back.
func (h *hopPair) ask(t *testing.T, on profiles.Caller, msgType uint64, name string) string {
	t.Helper()
	call, err := on.Call(t.Context(), e1.Envelope{ProfileID: 900, MsgType: msgType, Payload: []byte(name)})
	if err != nil {
		t.Fatal(err)
	}
	defer call.Close()
	env, err := call.Recv(t.Context())
	if err != nil {
		return err.Error()
	}
	return string(env.Payload)
}

// some allows what it has.
type some map[string]bool

func (s some) Allowed(_, _, operation, name string) bool { return s[operation+" "+name] }

func TestAHopLeadsWhereANameOrATargetSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHopPair(t, nil)
		far := profiles.Toward(h.client, "b")
		for _, test := range []struct {
			on         profiles.Caller
			name, want string
			there      string
		}{
			{h.client, "x", "x here", ""},
			{h.client, "c/x", "c/x here", ""},
			{h.client, "b/x", "b/x done", "x"},
			{far, "x", "x done", "x"},
			{far, "c/x", "c/x done", "c/x"},
			{profiles.Toward(h.client, "b/c"), "x", "x done", "x"}, // b of this test knows no partners
			{h.client, "b/absent", "b/absent", "absent"},
			{profiles.Toward(h.client, "c"), "x", `there is no partner "c"`, ""},
			{profiles.Toward(h.client, strings.Repeat("b", profiles.MaxTarget)), "x", `there is no partner "` + strings.Repeat("b", 80) + `"`, ""},
			{profiles.Toward(h.client, strings.Repeat("b", profiles.MaxTarget+1)), "x", "target (extension 52): 257 octets, want 1 to 256", ""},
			{profiles.Toward(h.client, "b/"), "x", `target (extension 52): "b/" has an empty name`, ""},
		} {
			if got := h.ask(t, test.on, typeAsk, test.name); got != test.want {
				t.Errorf("%s: %q, want %q", test.name, got, test.want)
			}
			there := ""
			select {
			case there = <-h.there:
			default:
			}
			if there != test.there {
				t.Errorf("%s: b was asked about %q, want %q", test.name, there, test.there)
			}
		}
	})
}

// One that ignores a target would do itself what is meant for another.
func TestAPartnerThatKnowsLessGetsNothingThatItWouldMistake(t *testing.T) {
	for name, test := range map[string]struct {
		offer rpc.Info
		far   string
	}{
		"an older endpoint without targets": {
			rpc.Info{Profiles: []rpc.ProfileInfo{{ID: 900}}}, "partner b does not know of extension 52, targets",
		},
		"an endpoint without the profile": {
			rpc.Info{Extensions: map[uint64][]uint64{0: {profiles.ExtTarget}}}, "partner b does not know of profile crossed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHopPairTo(t, nil, test.offer)
				if got := h.ask(t, profiles.Toward(h.client, "b/c"), typeAsk, "x"); got != test.far || len(h.there) > 0 {
					t.Errorf("for a partner of b: %q, and b was asked %d times", got, len(h.there))
				}
				want := "x done" // for b itself no target is needed
				if len(test.offer.Profiles) == 0 {
					want = test.far
				}
				if got := h.ask(t, profiles.Toward(h.client, "b"), typeAsk, "x"); got != want {
					t.Errorf("for b: %q, want %q", got, want)
				}
			})
		})
	}
}

func TestAHopAsksTheRulesAboutTheNameHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHopPair(t, some{"use b/x": true})
		far := profiles.Toward(h.client, "b")
		for name, want := range map[string]string{"b/x": "b/x done", "b/y": "crossed: not allowed to use b/y"} {
			if got := h.ask(t, h.client, typeAsk, name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		for name, want := range map[string]string{"x": "x done", "y": "crossed: not allowed to use b/y"} {
			if got := h.ask(t, far, typeAsk, name); got != want {
				t.Errorf("%s by its target: %q, want %q", name, got, want)
			}
		}
		if len(h.there) != 2 {
			t.Errorf("b was asked %d times", len(h.there))
		}
	})
}

func TestWhatIsKeptIsConfirmedByThePartnerFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHopPair(t, nil)
		lane, err := h.client.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var calls []profiles.Call
		for _, name := range []string{"b/1", "b/absent", "b/3"} {
			call, err := lane.Call(t.Context(), e1.Envelope{ProfileID: 900, MsgType: typeKeep, Payload: []byte(name)})
			if err != nil {
				t.Fatal(err)
			}
			defer call.Close()
			calls = append(calls, call)
		}
		if err := rpc.Sync(t.Context(), lane); err != nil {
			t.Fatal(err)
		}
		if len(h.there) != 3 || <-h.there != "1" || <-h.there != "absent" || <-h.there != "3" {
			t.Error("b was not asked for the three, in their order, before they were confirmed")
		}
		past, cancel := context.WithCancel(t.Context())
		cancel()
		for i, call := range calls {
			env, err := call.Recv(past)
			if refused := i == 1; refused != (err == nil) || !refused && !errors.Is(err, context.Canceled) || refused && string(env.Payload) != "b/absent" {
				t.Errorf("message %d: %v, %v", i, env, err)
			}
		}
	})
}

// A sender that sends on without waiting would otherwise have its messages stored in another
// order when it sends the lost one again.
func TestWhatFollowsALostMessageIsRefusedUntilItsSenderKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHopPair(t, nil)
		lane, err := h.client.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		keep := func(name string) profiles.Call {
			call, err := lane.Call(t.Context(), e1.Envelope{ProfileID: 900, MsgType: typeKeep, Payload: []byte(name)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(call.Close)
			return call
		}
		lost := []profiles.Call{keep("b/never")}
		synctest.Wait()
		h.link.Now().Session.Close(profiles.Internal)
		lost = append(lost, keep("b/2"), keep("b/3"))
		for i, call := range lost {
			if env, err := call.Recv(t.Context()); err != nil || !strings.Contains(string(env.Payload), "was lost") {
				t.Errorf("message %d: %v, %v", i, env, err)
			}
		}
		lost = append(lost, keep("b/4"))
		if env, err := lost[3].Recv(t.Context()); err != nil || !strings.Contains(string(env.Payload), "was lost") {
			t.Errorf("at once after that: %v, %v", env, err)
		}
		for range 10 { // a refusal arrives before the answer of swp.sync
			late := keep("b/late")
			if err := rpc.Sync(t.Context(), lane); err != nil {
				t.Fatal(err)
			}
			past, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := late.Recv(past); err != nil {
				t.Fatalf("swp.sync confirmed a message that was refused: %v", err)
			}
		}
		time.Sleep(1100 * time.Millisecond)
		for _, name := range []string{"b/1", "b/2", "b/3", "b/4"} {
			keep(name)
		}
		if err := rpc.Sync(t.Context(), lane); err != nil {
			t.Fatal(err)
		}
		close(h.there)
		var there []string
		for name := range h.there {
			there = append(there, name)
		}
		if want := []string{"never", "1", "2", "3", "4"}; !slices.Equal(there, want) {
			t.Errorf("b got %q, and not %q", there, want)
		}
	})
}

func TestAPartnerThatFallsSilentIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHopPair(t, nil)
		if got := h.ask(t, h.client, typeAsk, "b/x"); got != "b/x done" {
			t.Fatal(got)
		}
		close(h.freeze)
		began := time.Now()
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				if got := h.ask(t, h.client, typeAsk, "b/x"); !strings.Contains(got, "was lost") {
					t.Errorf("answered %q", got)
				}
			})
		}
		waiting.Wait()
		if took := time.Since(began); took < 5*time.Second || took > 16*time.Second {
			t.Errorf("given up after %v", took)
		}
	})
}

// Nobody has to wait as long as it takes to see that a partner is dead.
func TestAPartnerThatFallsSilentIsGivenUpThoughNobodyWaitsForIt(t *testing.T) {
	for name, wait := range map[string]time.Duration{"short": 300 * time.Millisecond, "long": 9 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHopPair(t, nil)
				there := profiles.Toward(h.client, "b")
				for range 3 { // what is answered before says nothing of what is not
					if _, err := rpc.Call(t.Context(), there, rpc.MethodPing, nil); err != nil {
						t.Fatal(err)
					}
				}
				close(h.freeze)
				began := time.Now()
				for h.link.Now() != nil && time.Since(began) < time.Minute {
					ctx, cancel := context.WithTimeout(t.Context(), wait)
					_, _ = rpc.Call(ctx, there, rpc.MethodPing, nil)
					cancel()
					synctest.Wait() // the caller may learn of the loss before the link does
				}
				if took := time.Since(began); took > 16*time.Second {
					t.Errorf("given up after %v", took)
				}
			})
		})
	}
}

// What is answered several times ends as what is answered once, and says that it may be asked
// for again.
func TestWhatAPartnerAnswersSeveralTimesEndsWithTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHopPair(t, nil)
		if got := h.ask(t, h.client, typeAsk, "b/x"); got != "b/x done" {
			t.Fatal(got)
		}
		close(h.freeze)
		if got := h.ask(t, h.client, typeFollow, "b/x"); !strings.Contains(got, "was lost; send it again") {
			t.Errorf("ended with %q", got)
		}
	})
}

// A method of this project does no harm when it runs twice; what another one has done is not
// known.
func TestALostCallOfAMethodOfThisProjectMayBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHopPair(t, nil)
		there := profiles.Toward(h.client, "b")
		if _, err := rpc.Call(t.Context(), there, rpc.MethodPing, nil); err != nil {
			t.Fatal(err)
		}
		close(h.freeze)
		var calling sync.WaitGroup
		for method, again := range map[string]bool{rpc.MethodPing: true, "work": false} {
			calling.Go(func() {
				_, err := rpc.Call(t.Context(), there, method, nil)
				if failed, ok := errors.AsType[*rpc.Error](err); !ok || failed.Retryable != again || !strings.Contains(failed.Message, "the link to partner b was lost") {
					t.Errorf("%s: %v", method, err)
				}
			})
		}
		calling.Wait()
	})
}
