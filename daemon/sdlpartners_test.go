package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
)

// peer is an endpoint of these tests that a daemon has for a partner.
type peer struct {
	identity, ca, address string
	sessions              chan *endpoint.Session // that were accepted
}

// newPeer serves profiles to a daemon.
func newPeer(t *testing.T, name string, kind int, to *organisation, registry *profiles.Registry) *peer {
	t.Helper()
	dir := t.TempDir()
	p := &peer{identity: "spiffe://" + name + ".example/swpd", ca: filepath.Join(dir, "ca.crt"), sessions: make(chan *endpoint.Session, 16)}
	if err := devpki.Create(dir, devpki.Options{Name: p.identity}); err != nil {
		t.Fatal(err)
	}
	files := devpki.Server(dir)
	c := &config.Config{Identity: config.Identity{Cert: files.Cert, Key: files.Key}, Trust: config.Trust{CA: []string{files.CA, to.ca()}}}
	credentials, err := identity.Read(c, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	policy := &transport.Policy{Credentials: credentials.Current}
	var ln transport.Listener
	scheme := "swp+tls://"
	if kind == 0 {
		ln, err = tlsconn.Listen("127.0.0.1:0", policy, tlsconn.Options{})
	} else {
		scheme = "swp+quic://"
		ln, err = quicconn.Listen("127.0.0.1:0", policy, quicconn.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	p.address = scheme + ln.Addr().String()
	ep, err := endpoint.New(endpoint.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			conn, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			s := ep.Attach(conn)
			select {
			case p.sessions <- s:
			default:
			}
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		_ = ep.Close()
		<-accepting
	})
	return p
}

// trustingPeer has an organisation take an endpoint of a test for its partner.
func (o *organisation) trustingPeer(name string, p *peer, more string) {
	o.t.Helper()
	o.edit("partners:\n", fmt.Sprintf("partners:\n  %s: {identity: %q, trust: [%q], addresses: [%s]%s}\n", name, p.identity, p.ca, p.address, more))
}

// edit replaces a text of the configuration, or appends to it, and reloads.
func (o *organisation) edit(old, with string) {
	o.t.Helper()
	if old != "" {
		o.rewrite(old, with)
	} else {
		o.configure(func(text string) string { return text + with })
	}
	o.reloaded()
}

// recorder is an agent that notes the octets that come, and answers with octets of its own.
type recorder struct {
	came   chan string
	answer string
}

func (r *recorder) Handle(_ context.Context, m *carriage.Message) carriage.Answer {
	r.came <- fmt.Sprint(m.Type, " ", string(m.Body))
	return carriage.Answer{Body: []byte(r.answer)}
}

func (*recorder) Refusal(carriage.Form, *carriage.Fault) []byte { return []byte("{}") }

// loose is an envelope that no encoder here would write so, and of which nothing but the
// head can be read.
func loose(to string) string {
	return ` { "to" : {"agent_id":"` + to + `"}, "x":1E4,"x":2, "\u0066rom":{"agent_id":"` + sdlCaller + `"}` + "\n" + ` ,"payload":null}  `
}

func callSDL(t *testing.T, on profiles.Caller, body string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	octets, err := carriage.Call(ctx, on, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return string(octets)
}

// The daemons on the way speak no A2A-SDL: they have neither an agent_id nor keys.
func TestSDLCrossesOctetForOctet(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := pair(t, transport, "")
		agent := &recorder{came: make(chan string, 1), answer: "\n{ \"any\": 1.50 }"}
		set, err := all.New(all.Options{SDL: carriage.Options{Server: agent}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(set.Close)
		b.trustingPeer("bob", newPeer(t, "bob", transport, b, set.Registry), "")
		b.connected("bob")
		b.edit("", "sdl: {routes: {did:web:bob.example: bob}}\n")
		a.edit("", "sdl: {routes: {'did:web:*.example': b}}\n")
		s := a.speak(t)
		body := loose("did:web:bob.example")
		for name, on := range map[string]profiles.Session{
			"by routes": s.Session, "by a target": profiles.Toward(s.Session, "b/bob"), "by both": profiles.Toward(s.Session, "b"),
		} {
			if got := callSDL(t, on, body); got != agent.answer {
				t.Errorf("%s: answered with %q", name, got)
			}
			if got := <-agent.came; got != "1 "+body {
				t.Errorf("%s: the agent got %q", name, got)
			}
			lane := opened(t, on)
			if err := carriage.Tell(t.Context(), lane, []byte(body)); err != nil {
				t.Fatal(err)
			}
			if err := rpc.Sync(t.Context(), lane); err != nil {
				t.Fatal(err)
			}
			if got := <-agent.came; got != "3 "+body {
				t.Errorf("%s: the agent was told %q", name, got)
			}
		}
	})
}

// No daemon on the way has a key: c alone verifies and decrypts.
func TestSDLIsSealedFromEndToEnd(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		c := open(t, "c", "")
		keys := newSDLKeys(t, c.dir)
		if err := c.end(); err != nil {
			t.Fatal(err)
		}
		c.configure(func(text string) string { return text + sdlSecure })
		c.again()
		b, a := open(t, "b", ""), open(t, "a", "")
		for _, link := range [][2]*organisation{{b, c}, {a, b}} {
			near, far := link[0], link[1]
			far.trusting(near.name, near)
			near.trusting(far.name, far, far.addrs[transport])
			near.connected(far.name)
		}
		s := a.speak(t)
		s.toward("b/c")
		for i, form := range []sdl.Form{sdl.JSON, sdl.CBOR} {
			v := keys.secure(t, sdlToolCall("sys.ping"), fmt.Sprint("nonce", i))
			answer := s.ask(t, form, v)
			if p := keys.opened(t, answer.Value); text(p, "call_id") != "c1" {
				t.Errorf("answered %s", p.AppendJSON(nil))
			}
			if p := s.ask(t, form, v).Payload; text(p, "details", "reason") != sdl.ReplayDetected {
				t.Errorf("again: %s", p.AppendJSON(nil))
			}
		}
		// States of tasks are encrypted and signed by c, and come back to where the agent is.
		s.ask(t, sdl.CBOR, keys.secure(t, sdlRequest(sdl.CTTask, sdlTask), "task"))
		e := s.told(t)
		if p := keys.opened(t, e); text(e, "ct") != sdl.CTState || p.Get("patch").Len() == 0 {
			t.Errorf("told %s", p.AppendJSON(nil))
		}
	})
}

// states as above, of tasks whose worker is at a partner.
func TestStatesOfTasksAtAPartnerComeBack(t *testing.T) {
	t.Parallel()
	b := open(t, "b", sdlOpen)
	a := open(t, "a", "")
	b.trusting("a", a)
	link, address := newTunnel(t, b.addrs[0])
	a.trusting("b", b, address)
	a.connected("b")
	a.edit("", "sdl: {routes: {"+sdlServer+": b}}\n")
	step := make(chan struct{})
	b.agent("digger", func(ctx context.Context, _ *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		for _, say := range []string{"one", "two"} {
			select {
			case <-step:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if err := event(say, nil); err != nil {
				return nil, err
			}
		}
		return []byte(`{"depth":2.0}`), nil
	}, "sdl/task.v1")
	want := fmt.Sprintf(replaceStatus, "working") + "] " + fmt.Sprintf(replaceStatus, "completed") + `,{"op":"add","path":"/result","value":{"depth":2.0}}]`

	t.Run("to the session of the agent", func(t *testing.T) {
		s := a.speak(t)
		s.ask(t, sdl.JSON, sdlRequest(sdl.CTTask, sdlTask))
		step <- struct{}{}
		step <- struct{}{}
		if got := s.states(t); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
	t.Run("over the next session of the link", func(t *testing.T) {
		s := a.speak(t)
		s.ask(t, sdl.JSON, sdlRequest(sdl.CTTask, sdlTask))
		link.cut()
		a.connected("b")
		step <- struct{}{}
		step <- struct{}{}
		// One that was on its way when the link was cut waits in the relay of b.
		relays, session := relayPeer(t, a.running, a.addrs[0])
		got := gathered(t, s, relays, session, "completed")
		if !strings.Contains(got, `"completed"`) {
			t.Errorf("states %s", got)
		}
	})
	t.Run("from the relay, of a partner that was away and for an agent that is", func(t *testing.T) {
		s := a.speak(t)
		s.ask(t, sdl.JSON, sdlRequest(sdl.CTTask, sdlTask))
		s.Close(profiles.OK)
		if err := a.end(); err != nil {
			t.Fatal(err)
		}
		b.until("the loss of a", func() bool { return !b.up("a") })
		step <- struct{}{}
		step <- struct{}{}
		a.again()
		relays, session := relayPeer(t, a.running, a.addrs[0])
		if got := gathered(t, nil, relays, session, "completed"); !strings.Contains(got, `"value":"completed"`) {
			t.Errorf("states %s", got)
		}
	})
}

// gathered are the states that an agent is told, or finds in the relay, up to one with a
// status. Of those that reach it by both ways the order is not known.
func gathered(t *testing.T, s *sdlSession, relays *relay.Service, session profiles.Session, status string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := relays.Consume(ctx, session, "sdl/"+sdlCaller, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	found := make(chan string, 16)
	go func() {
		for {
			d, err := c.Recv(ctx)
			if err != nil {
				return
			}
			_ = d.Ack()
			found <- string(d.Payload)
		}
	}()
	var events chan canonical.Value
	if s != nil {
		events = s.events
	}
	var all []string
	for !strings.Contains(strings.Join(all, " "), `"`+status+`"`) {
		select {
		case v := <-events:
			all = append(all, string(v.AppendJSON(nil)))
		case body := <-found:
			all = append(all, body)
		case <-ctx.Done():
			t.Fatalf("after %q", all)
		}
	}
	return strings.Join(all, " ")
}

// refusal returns code, reason and text of the error that a request is answered with.
func refusal(t *testing.T, on profiles.Caller, v canonical.Value) (code, reason, said string) {
	t.Helper()
	octets := callSDL(t, on, string(v.AppendJSON(nil)))
	answer, err := canonical.ParseJSON([]byte(octets))
	if err != nil {
		t.Fatal(err)
	}
	p := answer.Get("payload")
	return text(p, "code"), text(p, "details", "reason"), text(p, "details", "text")
}

func TestRulesOfBothEndsHoldForSDL(t *testing.T) {
	t.Parallel()
	const (
		open1 = "sdl: {agent_id: " + sdlServer + ", tools: {allow: sys.ping}}\n"
		as    = "agents: [{identity: '**', agent_ids: [" + sdlCaller + ", did:key:second]}]"
	)
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		b := open(t, "b", open1+"access: {rules: [{identity: '**', profile: rpc}, {identity: '**', profile: sdl, name: '"+sdlCaller+"'}], "+as+"}\n")
		a := open(t, "a", "access: {rules: [{identity: '**', profile: rpc}, {identity: '**', profile: sdl, operation: send, name: ['b/**', 'd/**']}], "+as+"}\n")
		b.trusting("a", a)
		a.trusting("b", b, b.addrs[transport])
		a.connected("b")
		s := a.speak(t)
		far := profiles.Toward(s.Session, "b")
		from := func(agentID string) canonical.Value {
			v := sdlToolCall("sys.ping")
			return v.With("from", v.Get("from").With("agent_id", canonical.String(agentID)))
		}
		for name, test := range map[string]struct {
			on           profiles.Caller
			agent        string
			code, reason string
		}{
			"allowed by both":           {far, sdlCaller, "", ""},
			"denied there":              {far, "did:key:second", "SECURITY_UNSUPPORTED", ""},
			"not an agent of its own":   {far, "did:key:third", "SECURITY_UNSUPPORTED", ""},
			"not served here":           {s.Session, sdlCaller, "SECURITY_UNSUPPORTED", "sdl_not_served"},
			"an unknown partner":        {profiles.Toward(s.Session, "d"), sdlCaller, "BAD_REQUEST", "partner_unknown"},
			"an unknown partner, there": {profiles.Toward(s.Session, "b/d"), sdlCaller, "SECURITY_UNSUPPORTED", ""},
			"denied for that partner":   {profiles.Toward(s.Session, "c"), sdlCaller, "SECURITY_UNSUPPORTED", ""},
		} {
			if code, reason, said := refusal(t, test.on, from(test.agent)); code != test.code || reason != test.reason {
				t.Errorf("%s: %s, %s, %s; want %s, %s", name, code, reason, said, test.code, test.reason)
			}
		}
		a.counts(`swpd_denials_total{profile="sdl"}`, "1")
		a.counts(`swpd_denials_total{profile="a2a"}`, "1") // of an agent_id
		b.counts(`swpd_denials_total{profile="sdl"}`, "2")
	})
}

func TestSDLEndsInACircle(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := pair(t, transport, "")
		far := profiles.Marked(profiles.Toward(a.speak(t).Session, "b"), func(env *e1.Envelope) {
			env.Extensions = e1.AppendExtensionUvarint(env.Extensions, profiles.ExtHops, profiles.MaxHops)
		})
		if code, reason, said := refusal(t, far, sdlToolCall("sys.ping")); code != "SECURITY_UNSUPPORTED" || reason != "hops" || !strings.Contains(said, "circle") {
			t.Errorf("passed on as often as may be: %s, %s, %s", code, reason, said)
		}
		b.connected("a")
		a.edit("", "sdl: {routes: {'**': b}}\n")
		b.edit("", "sdl: {routes: {'**': a}}\n")
		// It is back as another identity's, and refused.
		v := sdlToolCall("sys.ping")
		v = v.With("to", v.Get("to").With("agent_id", canonical.String("did:key:nobody")))
		if code, reason, said := refusal(t, a.speak(t), v); code != "BAD_REQUEST" || reason != "partner_agent" || !strings.Contains(said, "circle") {
			t.Errorf("%s, %s, %s", code, reason, said)
		}
	})
}

func TestSDLIsNotSentToAPartnerThatWouldNotKnowIt(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a := open(t, "a", "partners:\n")
		set, err := all.New(all.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(set.Close)
		calls, err := rpc.New(rpc.Options{Info: func(profiles.Session) rpc.Info {
			return rpc.Info{Profiles: []rpc.ProfileInfo{{ID: carriage.ProfileID}, {ID: rpc.ProfileID}}}
		}})
		if err != nil {
			t.Fatal(err)
		}
		agent := &recorder{came: make(chan string, 1), answer: "{}"}
		speaks, err := carriage.New(carriage.Options{Server: agent})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(speaks.Close)
		registry := func(list ...*profiles.Profile) *profiles.Registry {
			r, err := profiles.NewRegistry(list...)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		a.trustingPeer("older", newPeer(t, "older", transport, a, registry(calls, speaks.Profile())), "")
		a.trustingPeer("plain", newPeer(t, "plain", transport, a, registry(set.MCP.Profile(), set.A2A.Profile())), ", profiles: [mcp, a2a]")
		a.connected("older")
		a.connected("plain")
		a.edit("partners:\n", "partners:\n  away: {identity: spiffe://away.example/swpd, addresses: ['swp+tls://127.0.0.1:1']}\n")
		a.until("a failed round", func() bool { return strings.Contains(a.log.String(), "partner not reached") })
		s := a.speak(t)
		for target, want := range map[string][3]string{
			"plain":   {"INTERNAL", "partner_extension", "profile sdl"},
			"older/c": {"INTERNAL", "partner_extension", "extension 52"},
			"away":    {"INTERNAL", "partner_down", "cannot be reached now"},
		} {
			code, reason, said := refusal(t, profiles.Toward(s.Session, target), sdlToolCall("sys.ping"))
			if code != want[0] || reason != want[1] || !strings.Contains(said, want[2]) {
				t.Errorf("%s: %s, %s, %s", target, code, reason, said)
			}
		}
		if got := callSDL(t, profiles.Toward(s.Session, "older"), loose("x")); got != "{}" || <-agent.came != "1 "+loose("x") {
			t.Errorf("without a further hop: %s", got)
		}
	})
}

// Two identities that may use one agent_id share nothing, although to the partner they
// are one.
func TestAnAgentIsOneIdentityTowardsAPartner(t *testing.T) {
	a, _ := pair(t, 0, sdlOpen)
	a.edit("", "sdl: {routes: {"+sdlServer+": b}}\n")
	first := a.speak(t)
	first.ask(t, sdl.JSON, sdlToolCall("sys.ping"))
	authority, err := devpki.Open(filepath.Join(a.dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := authority.Issue(filepath.Join(t.TempDir(), "other"), devpki.Request{Name: "spiffe://a.example/other"})
	if err != nil {
		t.Fatal(err)
	}
	other := a.speakAs(t, files)
	if code, reason, _ := refusal(t, other.Session, sdlToolCall("sys.ping")); code != "BAD_REQUEST" || reason != "partner_agent" {
		t.Errorf("while the first is there: %s, %s", code, reason)
	}
	first.Close(profiles.OK)
	a.until("the other to be let through", func() bool {
		code, _, _ := refusal(t, other.Session, sdlToolCall("sys.ping"))
		return code == ""
	})
}

func TestRoutesOfSDLAreReloadedAndHeldAgainstThePartners(t *testing.T) {
	a, _ := pair(t, 0, sdlOpen)
	s := a.speak(t)
	if code, _, _ := refusal(t, s.Session, sdlToolCall("sys.ping")); code != "SECURITY_UNSUPPORTED" {
		t.Errorf("without a route: %s", code)
	}
	a.edit("", "sdl: {routes: {'did:web:*': b, 'did:web:**': b, 'did:web:***': b}}\n")
	s.ask(t, sdl.JSON, sdlToolCall("sys.ping"))
	a.await("sdl.routes.did:web:*** is never used")
	a.edit("'did:web:*': b", "'did:web:*': c")
	a.await(`there is no partner \"c\"`)
	s.ask(t, sdl.JSON, sdlToolCall("sys.ping")) // the old ones stay
}
