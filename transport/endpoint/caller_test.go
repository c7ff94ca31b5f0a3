package endpoint_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	assertion "github.com/slimwire/swp/internal/caller"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

const alice = "http:alice"

// who answers with the identity that a message has.
func who(_ context.Context, req *profiles.Request, w profiles.Responder) error {
	return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: []byte(req.Identity())})
}

// refusing refuses the messages of alice, each in another way, and answers the others.
func refusing(fault *profiles.Error, detach bool) func(context.Context, *profiles.Request, profiles.Responder) error {
	serve := func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		if req.Identity() == transporttest.Client+" for "+alice {
			return fault
		}
		return who(ctx, req, w)
	}
	if !detach {
		return serve
	}
	return func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		return req.Exchange.Detach(req, serve)
	}
}

// clock is one that a test sets.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// asking is a peer that asserts what a test wants.
type asking struct {
	*endpoint.Session
	t     *testing.T
	token []byte // nil: none
}

func (a *asking) ask() (string, error) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), transporttest.Patience)
	defer cancel()
	var said string
	err := profiles.Ask(profiles.WithCaller(ctx, alice), a.Session, e1.Envelope{ProfileID: testProfile, MsgType: typeRequest}, func(answer *e1.Envelope) error {
		said = string(answer.Payload)
		return nil
	})
	return said, err
}

// vouched is an Access that allows everything, and callers with error budgets of their own.
type vouched struct{}

func (vouched) Allowed(_, _, _, _ string) bool { return true }
func (vouched) MayAssert(peer string) bool     { return peer == transporttest.Client }

// asserting connects a peer to an endpoint that hears of callers.
func asserting(t *testing.T, kind string) (*wired, *asking, *clock) {
	t.Helper()
	return assertingTo(t, kind, who, endpoint.Bounds{}, vouched{})
}

func assertingTo(
	t *testing.T, kind string, serve func(context.Context, *profiles.Request, profiles.Responder) error, b endpoint.Bounds, access profiles.Access,
) (*wired, *asking, *clock) {
	t.Helper()
	c := &clock{at: time.Now().Truncate(time.Second)}
	w := listen(t, kind, endpoint.Options{
		Now: c.now, Callers: true, Identity: func() string { return transporttest.Server }, Bounds: b, Access: access,
	}, telling(profile(serve)))
	a := w.asking(t)
	a.Assert(func(identity string) ([]byte, error) {
		if identity != alice {
			t.Errorf("asked to assert %q", identity)
		}
		return a.token, nil
	})
	return w, a, c
}

// asking connects another endpoint.
func (w *wired) asking(t *testing.T) *asking {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	conn, err := transporttest.Dial(ctx, w.kind, w.ln.Addr().String(), w.policy)
	if err != nil {
		t.Fatal(err)
	}
	ep, _ := newEndpoint(t, endpoint.Options{Bounds: endpoint.Bounds{Write: transporttest.Patience}}, telling(profile(echo)))
	return &asking{Session: ep.Attach(conn), t: t}
}

func claim(names ...string) *assertion.Claim {
	return &assertion.Claim{Caller: alice, Chain: append([]string{transporttest.Client}, names...)}
}

func (a *asking) sign(c *assertion.Claim, audience string, now time.Time) []byte {
	a.t.Helper()
	leaves, ok := a.Leaves()
	if !ok {
		a.t.Fatal("the connection has no certificates")
	}
	jwt, err := assertion.Sign(c, leaves.Own, audience, now)
	if err != nil {
		a.t.Fatal(err)
	}
	return jwt
}

func overTLSAndQUIC(t *testing.T, test func(t *testing.T, kind string)) {
	for _, kind := range []string{"tls", "quic"} {
		t.Run(kind, func(t *testing.T) {
			transporttest.NoLeaks(t)
			test(t, kind)
		})
	}
}

func TestAnAssertedCallerIsPartOfTheIdentity(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, kind string) {
		w, a, c := asserting(t, kind)
		for i, row := range []struct {
			token []byte
			want  string
		}{
			{nil, transporttest.Client},
			{a.sign(claim(), transporttest.Server, c.now()), transporttest.Client + " for " + alice},
			{a.sign(claim("spiffe://b.example/swpd", "spiffe://a.example/swpd"), transporttest.Server, c.now()),
				transporttest.Client + " for spiffe://b.example/swpd for spiffe://a.example/swpd for " + alice},
		} {
			a.token = row.token
			for range 2 { // the second time it is remembered
				if got, err := a.ask(); got != row.want || err != nil {
					t.Errorf("%d: %q, %v", i, got, err)
				}
			}
			if got := w.rec.report(t, 2*i+1).Peer.Identity; got != row.want {
				t.Errorf("%d: reported as %q", i, got)
			}
		}
	})
}

func TestAnAssertionThatDoesNotVerifyRefusesTheMessage(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, kind string) {
		w, a, c := asserting(t, kind)
		good := a.sign(claim(), transporttest.Server, c.now())
		changed := bytes.Clone(good)
		changed[len(changed)/2] ^= 1
		forged, err := assertion.Sign(claim(), w.ca.Issue(t, transporttest.Named(transporttest.Client)), transporttest.Server, c.now())
		if err != nil {
			t.Fatal(err)
		}
		for name, token := range map[string][]byte{
			"another key": forged, "a changed octet": changed, "empty": {},
			"for another endpoint":   a.sign(claim(), "spiffe://other.example/swpd", c.now()),
			"of another presenter":   a.sign(&assertion.Claim{Caller: alice, Chain: []string{"x"}}, transporttest.Server, c.now()),
			"more than 1,024 octets": append(bytes.Clone(good), make([]byte, assertion.MaxOctets)...),
		} {
			a.token = token
			n := w.rec.count()
			if got, _ := a.ask(); got != profiles.SecurityPolicy.String() {
				t.Errorf("%s: %q", name, got)
			}
			if v := w.rec.verdict(t, n+1); v.Code != profiles.SecurityPolicy || v.Detail != "caller" || !v.Reject {
				t.Errorf("%s: %+v", name, v)
			}
			w.rec.mu.Lock()
			if ev := w.rec.security[len(w.rec.security)-1]; ev.Reason != transport.ReasonCaller || ev.Identity != transporttest.Client || ev.Err == nil {
				t.Errorf("%s: event %+v", name, ev)
			}
			w.rec.mu.Unlock()
		}
		a.token = good
		if got, err := a.ask(); err != nil || got != transporttest.Client+" for "+alice {
			t.Errorf("afterwards %q, %v", got, err)
		}
	})
}

// Readers differ in which of two they take.
func TestRS35TwoAssertionsRefuseTheMessage(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, kind string) {
		w, a, c := asserting(t, kind)
		good := a.sign(claim(), transporttest.Server, c.now())
		forged, err := assertion.Sign(claim(), w.ca.Issue(t, transporttest.Named(transporttest.Client)), transporttest.Server, c.now())
		if err != nil {
			t.Fatal(err)
		}
		ask := func(tokens ...[]byte) error {
			env := e1.Envelope{ProfileID: testProfile, MsgType: typeRequest}
			for _, token := range tokens {
				env.Extensions = e1.AppendExtension(env.Extensions, profiles.ExtCaller, token)
			}
			return profiles.Ask(t.Context(), a.Session, env, func(answer *e1.Envelope) error {
				if got := string(answer.Payload); got != transporttest.Client+" for "+alice && len(tokens) == 1 || len(tokens) == 2 && got != profiles.SecurityPolicy.String() {
					t.Errorf("%d assertions: %q", len(tokens), got)
				}
				return nil
			})
		}
		for _, tokens := range [][][]byte{{good}, {good, good}, {good, forged}, {forged, good}} {
			if err := ask(tokens...); err != nil {
				t.Error(err)
			}
		}
		if v := w.rec.verdict(t, w.rec.count()); v.Code != profiles.SecurityPolicy || v.Detail != "caller" {
			t.Errorf("%+v", v)
		}
	})
}

// What one caller can cause must not end the connection of all.
func TestTheRefusalsOfACallerAreChargedToIt(t *testing.T) {
	const errs, paced = 3, 5
	invalid := profiles.Errorf(profiles.InvalidProfilePayload, "no")
	for name, row := range map[string]struct {
		fault  *profiles.Error
		budget int
	}{
		"invalid": {invalid, errs},
		"chain":   {profiles.ErrChain, errs},
		"denied":  {profiles.Deny(invalid), paced},
		"pace":    {profiles.Busy("x", "no"), paced},
	} {
		for _, detach := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/detached=", detach), func(t *testing.T) {
				overTLSAndQUIC(t, func(t *testing.T, kind string) {
					_, a, c := assertingTo(t, kind, refusing(row.fault, detach), endpoint.Bounds{ErrorBudget: errs, PaceBudget: paced}, vouched{})
					as := func(name string) {
						cl := claim()
						cl.Caller = name
						a.token = a.sign(cl, transporttest.Server, c.now())
					}
					for range 2 {
						as(alice)
						for i := range 2*paced + 1 {
							want := row.fault.Code
							if i >= row.budget {
								want = profiles.RateLimitExceeded
							}
							if got, err := a.ask(); got != want.String() {
								t.Fatalf("message %d: %q, %v, want %v", i+1, got, err, want)
							}
						}
						as("http:bob")
						if got, err := a.ask(); got != transporttest.Client+" for http:bob" || err != nil {
							t.Errorf("another caller: %q, %v", got, err)
						}
						c.advance(time.Minute)
					}
				})
			})
		}
	}
}

// A peer that no rule names gains no error budget by the callers that it asserts.
func TestRS35RefusalsOfCallersAreChargedToAPeerThatMayNotAssertThem(t *testing.T) {
	const errs = 3
	overTLSAndQUIC(t, func(t *testing.T, kind string) {
		invalid := profiles.Errorf(profiles.InvalidProfilePayload, "no")
		_, a, c := assertingTo(t, kind, func(context.Context, *profiles.Request, profiles.Responder) error { return invalid },
			endpoint.Bounds{ErrorBudget: errs}, profiles.Everyone)
		var err error
		for i := 0; i < errs || i < 1000 && err == nil; i++ { // some above the budget may still be answered
			cl := claim()
			cl.Caller = fmt.Sprint("http:", i)
			a.token = a.sign(cl, transporttest.Server, c.now())
			if _, err = a.ask(); i < errs && err != nil {
				t.Errorf("message %d of %d that the budget allows: %v", i+1, errs, err)
			}
		}
		if err == nil {
			t.Errorf("all messages above the budget of %d are answered", errs)
		}
	})
}

func TestAnAssertionIsBoundToTheCertificatesOfItsConnection(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, kind string) {
		w, a, c := asserting(t, kind)
		w.policy = w.ca.Policy(t, transporttest.Client) // another certificate of the same identity
		other := w.asking(t)
		other.token = a.sign(claim(), transporttest.Server, c.now())
		other.Assert(func(string) ([]byte, error) { return other.token, nil })
		if got, _ := other.ask(); got != profiles.SecurityPolicy.String() {
			t.Errorf("replayed on another connection: %q", got)
		}
		other.token = other.sign(claim(), transporttest.Server, c.now())
		if got, err := other.ask(); err != nil || got != transporttest.Client+" for "+alice {
			t.Errorf("its own: %q, %v", got, err)
		}
	})
}

func TestARememberedAssertionExpires(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, kind string) {
		w, a, c := asserting(t, kind)
		a.token = a.sign(claim(), transporttest.Server, c.now())
		for _, row := range []struct {
			after time.Duration
			want  string
		}{
			{0, transporttest.Client + " for " + alice},
			{assertion.Valid + assertion.Skew, transporttest.Client + " for " + alice},
			{time.Millisecond, profiles.SecurityPolicy.String()},
		} {
			c.advance(row.after)
			if got, _ := a.ask(); got != row.want {
				t.Errorf("%v later: %q", row.after, got)
			}
		}
		if v := w.rec.verdict(t, 3); v.Reject {
			t.Error("a clock that is fast costs the error budget")
		}
		if a.Context().Err() != nil {
			t.Error("the connection has ended")
		}
	})
}

func TestWithoutCertificatesNobodyIsAsserted(t *testing.T) {
	w, a, _ := asserting(t, "tcp")
	if got, err := a.ask(); err != nil || got != transport.LoopbackIdentity {
		t.Errorf("%q, %v", got, err)
	}
	a.token = []byte("x")
	if got, _ := a.ask(); got != profiles.SecurityPolicy.String() {
		t.Errorf("%q", got)
	}
	w.rec.verdict(t, 2)
}

func TestAMessageIsNotSentIfItsCallerCannotBeTold(t *testing.T) {
	w, a, _ := asserting(t, "tls")
	a.Assert(func(string) ([]byte, error) { return nil, assertion.ErrSize })
	_, err := a.ask()
	fault, ok := errors.AsType[*profiles.Error](err)
	if !ok || fault.Code != profiles.SecurityPolicy || fault.Detail != "caller" || !errors.Is(err, assertion.ErrSize) {
		t.Errorf("%v", err)
	}
	a.Assert(nil)
	if got, err := a.ask(); got != transporttest.Client || err != nil {
		t.Errorf("afterwards %q, %v", got, err)
	}
	if n := w.rec.count(); n != 1 {
		t.Errorf("%d messages arrived", n)
	}
}

// certified is a treadmill whose ends have certificates.
type certified struct {
	*treadmill
	leaf *x509.Certificate
}

func (c *certified) Leaves() transport.Leaves { return transport.Leaves{Peer: c.leaf} }

// A repeated assertion costs a lookup, and a message without one nothing.
func TestInlineExchangeWithACallerDoesNotAllocate(t *testing.T) {
	effort.Unwatched(t) // under the race detector pools forget at random
	leaf := transporttest.NewCA(t).Issue(t, transporttest.Named("test"))
	for name, ext := range map[string]e1.Extensions{
		"none": nil, "asserted": e1.AppendExtension(nil, profiles.ExtCaller, signed(t, leaf)),
	} {
		t.Run(name, func(t *testing.T) {
			reg, err := profiles.NewRegistry(profile(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
				if (req.Caller != nil) != (ext != nil) {
					return errors.New("caller")
				}
				return w.Finish(e1.Envelope{MsgType: typeAnswer, Extensions: req.Extensions, Payload: req.Payload})
			}))
			if err != nil {
				t.Fatal(err)
			}
			ep, err := endpoint.New(endpoint.Options{Registry: reg, Callers: true, Identity: func() string { return transporttest.Server }})
			if err != nil {
				t.Fatal(err)
			}
			conn := &certified{newTreadmill(), leaf.Leaf}
			ep.Attach(conn)
			defer func() { _ = ep.Close() }()
			env := e1.Envelope{Version: 1, ProfileID: testProfile, MsgType: typeRequest, MsgID: []byte("0123456789abcdef"), Extensions: ext, Payload: make([]byte, 64)}
			batch := bytes.Repeat(framed(env), 100)
			conn.run(batch)
			if allocs := testing.AllocsPerRun(100, func() { conn.run(batch) }); allocs >= 1 {
				t.Errorf("%.0f allocations for 100 messages, want 0", allocs)
			}
		})
	}
}

func signed(t *testing.T, leaf *tls.Certificate) []byte {
	t.Helper()
	jwt, err := assertion.Sign(&assertion.Claim{Caller: alice, Chain: []string{"test"}}, leaf, transporttest.Server, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return jwt
}

func TestManyCallersAreRememberedUpToABound(t *testing.T) {
	w, a, c := asserting(t, "tls")
	const most = 1024
	for i := range most + 2 {
		cl := claim()
		cl.Caller = fmt.Sprintf("http:c%d", i)
		a.token = a.sign(cl, transporttest.Server, c.now())
		if got, err := a.ask(); err != nil || got != transporttest.Client+" for "+cl.Caller {
			t.Fatalf("%d: %q, %v", i, got, err)
		}
	}
	for s := range w.ep.Sessions() {
		if n := endpoint.Heard(s); n < most/2 || n > most {
			t.Errorf("%d are remembered, want at most %d", n, most)
		}
	}
}
