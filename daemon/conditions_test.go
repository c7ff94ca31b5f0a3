package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/caller"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/profiles/slip"
	stateprofile "github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// deed is something that a profile does for a peer.
type deed struct {
	name string

	// do asks for it, under a name. It returns what was answered, and the error if that says
	// no.
	do func(ctx context.Context, s *session, name string) (string, error)

	// done returns the names under which it was done. Nil: the answer shows it.
	done func() string

	// denial is what is said to a caller that no rule allows this. Empty: it is not denied.
	denial string
}

// The callers of these tests.
const (
	ann       = "spiffe://a.example/agents/ann"
	bob       = "spiffe://a.example/agents/bob"
	eve       = "spiffe://a.example/agents/eve"
	pseudonym = "pseudonym:GhPwq0Tb6cPUVDMSZ3hRnA"
	stranger  = "pseudonym:000000000000000000000A"
	clientID  = "spiffe://localhost/swp-client" // calls for itself
)

// conditionedAccess lets the clients of the endpoint do everything, and of the callers of
// two organisations ann and one pseudonym.
var conditionedAccess = fmt.Sprintf(`access:
  rules:
    - {identity: "spiffe://localhost/**"}
    - {identity: [%q, %q], for: [%q, %q]}
  agents: [{identity: "**", agent_ids: "**"}]
  deny: [{identity: "**", for: %q}]
`, organisationID("a"), organisationID("c"), ann, pseudonym, eve)

// organisationID is the identity of an organisation, here a or c.
func organisationID(name string) string { return "spiffe://" + name + ".example/swpd" }

// syncPlain calls swp.sync for nobody and under no chain, so that what it waits for is
// refused or nothing is.
func syncPlain(ctx context.Context, lane profiles.Lane) error {
	return rpc.Sync(profiles.WithChain(profiles.WithCaller(ctx, ""), nil), lane)
}

// showing is the deed that is about the connection, as hints are: they do not apply to it.
const showing = "credential"

// What profiles say to a caller that no rule allows something.
const (
	notAllowed = "allow"
	notFound   = "NOT_FOUND"
	insecure   = "SECURITY_UNSUPPORTED"
)

// conditioned is a daemon in the region eu, and what it can be asked for.
func conditioned(t *testing.T, transport int) (*peers, []deed) {
	var mu sync.Mutex
	var called strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(&called, string(body))
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "tasks")
	const here = "hints: {region: eu-west-1}"
	r := start(t, conditionedAccess+"endpoint: {"+here+"}\nlimits: {error_budget: 1000}\n"+
		"slip: {relay: [sleeper]}\nsdl: {agent_id: "+sdlServer+", tools: {allow: [sys.ping, child/note]}}\n"+
		strings.Replace(childYAML(t, ", NOTES: '"+file+"'"), "      command:", "      "+here+"\n      command:", 1)+
		fmt.Sprintf("a2a: {workers: {one: {kinds: [k, sdl/task.v1], command: sh, args: [-c, 'text=$(cat); echo \"$text\" >>%s'], %s}}}\n", file, here)+
		fmt.Sprintf("rpc: {backends: {demo: {url: '%s', methods: demo.echo, %s}}}\n", server.URL, here))
	p := newPeers(r, transport)
	plain := r.mustDial(r.addrs[0])
	kept := stateprofile.State{Blob: []byte("kept")}
	if err := put(t.Context(), plain.Session, kept); err != nil {
		t.Fatal(err)
	}
	if err := upload(t.Context(), plain.Session, "kept"); err != nil {
		t.Fatal(err)
	}
	log, err := events.Open(t.Context(), plain.Session, events.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	asked := func(ct, payload string) func(context.Context, *session, string) (string, error) {
		return func(ctx context.Context, on *session, name string) (string, error) {
			octets, err := carriage.Call(ctx, on, sdl.JSON.Append(nil, sdlRequest(ct, strings.ReplaceAll(payload, "NAME", name))))
			if err != nil {
				return "", err
			}
			v, err := canonical.ParseJSON(octets)
			if err != nil {
				return "", err
			}
			answer := string(v.Get("payload").AppendJSON(nil))
			if strings.Contains(answer, `"code":`) || strings.Contains(answer, `"ok":false`) {
				return "", errors.New(answer)
			}
			return answer, nil
		}
	}
	inFile := func() string {
		octets, _ := os.ReadFile(file)
		return string(octets)
	}
	inTopic := func(ctx context.Context, on profiles.Session, topic, text string) error {
		_, err := relay.Send(ctx, on, &relay.Publication{ID: profiles.NewMsgID(), Topic: topic, Payload: []byte(text)})
		return err
	}
	bySLIP := func(ctx context.Context, on profiles.Session, _, text string) error {
		return on.Send(ctx, e1.Envelope{ProfileID: slip.ProfileID, MsgType: slip.TypeSLIP, Payload: []byte("SLIP v1 planner sleeper RequestReview \"" + text + "\"")})
	}
	consumed := func(topic string, send func(ctx context.Context, on profiles.Session, topic, text string) error) func() string {
		var got strings.Builder
		return func() string {
			set, s := relayPeer(t, r, r.addrs[0])
			c, err := set.Consume(t.Context(), s, topic, 64)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := send(t.Context(), s, topic, "the last one"); err != nil {
				t.Fatal(err)
			}
			for {
				d, err := c.Recv(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintln(&got, string(d.Payload))
				if err := d.Ack(); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(d.Payload), "the last one") {
					return got.String()
				}
			}
		}
	}
	return p, []deed{
		{"mcp request", func(ctx context.Context, s *session, name string) (string, error) {
			result, err := s.mapping.Client(s.Session).Do(ctx, &mcpmap.Call{
				Octets: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"note","arguments":{"text":%q}}}`, name),
			})
			if err != nil {
				return "", err
			}
			if bytes.Contains(result.Octets, []byte(`"error":`)) {
				return "", errors.New(string(result.Octets))
			}
			return string(result.Octets), nil
		}, inFile, notAllowed},
		{"rpc call", func(ctx context.Context, s *session, name string) (string, error) {
			result, err := rpc.Call(ctx, s.Session, "demo.echo", []byte(name))
			return string(result), err
		}, func() string {
			mu.Lock()
			defer mu.Unlock()
			return called.String()
		}, notAllowed},
		{"method of the store", func(ctx context.Context, s *session, name string) (string, error) {
			result, err := rpc.Call(ctx, s.Session, artifact.MethodList, []byte(`{}`))
			return string(result), err
		}, nil, ""},
		{"a2a task", func(ctx context.Context, s *session, name string) (string, error) {
			d, err := s.tasks.Send(ctx, s.Session, &a2a.Task{Kind: "k", Input: []byte(name)}, a2a.SendOptions{})
			if err != nil {
				return "", err
			}
			defer d.Close()
			_, result := follow(t, d, "")
			if !result.OK {
				return "", errors.New(result.Reason)
			}
			return "", nil
		}, inFile, "denied"},
		{"events publish", func(ctx context.Context, on *session, name string) (string, error) {
			lane, err := on.Open(ctx)
			if err != nil {
				return "", err
			}
			p := events.NewPublisher(lane, syncPlain)
			defer p.Close()
			err = p.Publish(ctx, &events.Record{EventID: []byte(name), EventType: []byte("t"), Severity: []byte("info"), Timestamp: 1, TaskID: []byte("t")})
			if err == nil {
				err = p.Sync(ctx)
			}
			return "", err
		}, func() string {
			lane, err := plain.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p := events.NewPublisher(lane, syncPlain)
			defer p.Close()
			last := events.Record{EventID: []byte("last"), EventType: []byte("last"), Severity: []byte("info"), Timestamp: 1, TaskID: []byte("t")}
			if err := errors.Join(p.Publish(t.Context(), &last), p.Sync(t.Context())); err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for {
				d, err := log.Recv(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range d.Events {
					if string(e.EventType) == "last" {
						return got.String()
					}
					fmt.Fprintln(&got, string(e.EventID))
				}
			}
		}, notAllowed},
		{"events subscribe", func(ctx context.Context, on *session, _ string) (string, error) {
			sub, err := events.Open(ctx, on, events.SubscribeOptions{})
			if err == nil {
				sub.Close()
			}
			return "", err
		}, nil, notAllowed},
		{"artifact put", func(ctx context.Context, on *session, name string) (string, error) {
			return "", upload(ctx, on.Session, name)
		}, func() string {
			octets, err := rpc.Call(t.Context(), plain.Session, artifact.MethodList, []byte(`{"limit":1000}`))
			if err != nil {
				t.Fatal(err)
			}
			return strings.NewReplacer(`"`, "\n").Replace(string(octets))
		}, notAllowed},
		{"artifact get", func(ctx context.Context, on *session, _ string) (string, error) {
			var got bytes.Buffer
			_, err := artifact.Download{ArtifactID: "kept", Sink: func(c *artifact.Chunk) error {
				_, _ = got.Write(c.Data)
				return nil
			}}.Receive(ctx, on)
			return got.String(), err
		}, nil, notFound},
		{"state put", func(ctx context.Context, on *session, name string) (string, error) {
			return "", put(ctx, on.Session, stateprofile.State{Blob: []byte(name)})
		}, func() string {
			var got strings.Builder
			for _, c := range conditions {
				name := "state put " + c.name
				if _, err := stateprofile.Fetch(t.Context(), plain.Session, stateprofile.IDOf([]byte(name))); err == nil {
					fmt.Fprintln(&got, name)
				}
			}
			return got.String()
		}, notAllowed},
		{"state get", func(ctx context.Context, on *session, _ string) (string, error) {
			got, err := stateprofile.Fetch(ctx, on, stateprofile.IDOf(kept.Blob))
			if err != nil {
				return "", err
			}
			return string(got.Blob), nil
		}, nil, notFound},
		{"state delta", func(ctx context.Context, on *session, name string) (string, error) {
			lane, err := on.Open(ctx)
			if err != nil {
				return "", err
			}
			defer func() { _ = lane.Close() }()
			return "", stateprofile.AddDelta(ctx, lane, syncPlain, stateprofile.IDOf(kept.Blob), []byte(name))
		}, func() string {
			var got strings.Builder
			base := stateprofile.IDOf(kept.Blob)
			stream, err := rpc.Open(t.Context(), plain.Session, stateprofile.MethodDeltas, base[:])
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			for {
				item, err := stream.Recv(t.Context())
				if errors.Is(err, io.EOF) {
					return got.String()
				}
				var c *stateprofile.Change
				if err == nil {
					c, err = stateprofile.ReadChange(item, base)
				}
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintln(&got, string(c.Delta))
			}
		}, notFound},
		{"relay publish", func(ctx context.Context, on *session, name string) (string, error) {
			_, err := relay.Send(ctx, on, &relay.Publication{ID: []byte(name), Topic: "t", Payload: []byte(name)})
			return "", err
		}, consumed("t", inTopic), notAllowed},
		{"slip send", func(ctx context.Context, on *session, name string) (string, error) {
			lane, err := on.Open(ctx)
			if err != nil {
				return "", err
			}
			defer func() { _ = lane.Close() }()
			call, err := lane.Call(ctx, e1.Envelope{
				ProfileID: slip.ProfileID, MsgType: slip.TypeSLIP, Payload: []byte("SLIP v1 planner sleeper RequestReview \"" + name + "\""),
			})
			if err != nil {
				return "", err
			}
			defer call.Close()
			if err := syncPlain(ctx, lane); err != nil {
				return "", err
			}
			polled, cancel := context.WithCancel(ctx)
			cancel()
			if env, err := call.Recv(polled); err == nil {
				return string(env.Payload), errors.New(string(env.Payload))
			}
			return "", nil
		}, consumed("slip/sleeper", bySLIP), notAllowed},
		{"sdl tool", asked(sdl.CTToolCall, `{"tool":"child/note","call_id":"c1","args":{"text":"NAME"},"expect":{}}`), inFile, insecure},
		{"sdl function", asked(sdl.CTToolCall, `{"tool":"sys.ping","call_id":"c1","args":{},"expect":{}}`), nil, insecure},
		{"relay consume", func(ctx context.Context, on *session, _ string) (string, error) {
			c, err := on.relays.Consume(ctx, on.Session, "empty", 1)
			if err == nil {
				c.Close()
			}
			return "", err
		}, nil, notAllowed},
		{showing, func(ctx context.Context, on *session, name string) (string, error) {
			return "", shown(ctx, on, name)
		}, func() string {
			var got strings.Builder
			owners := p.everyone()
			for i := range conditions {
				name := showing + " " + conditions[i].name
				if slices.ContainsFunc(owners, func(as profiles.Session) bool {
					_, err := rpc.Call(profiles.WithChain(t.Context(), []byte(name)), as, artifact.MethodList, []byte(`{}`))
					return err == nil
				}) {
					fmt.Fprintln(&got, name)
				}
			}
			return got.String()
		}, notAllowed},
		{"sdl task", asked(sdl.CTTask, strings.Replace(sdlTask, `"goal":"dig"`, `"goal":"NAME"`, 1)), inFile, insecure},
	}
}

func put(ctx context.Context, on profiles.Session, s stateprofile.State) error {
	lane, err := on.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lane.Close() }()
	_, err = stateprofile.PutAll(ctx, lane, syncPlain, s)
	return err
}

func upload(ctx context.Context, on profiles.Session, id string) error {
	octets := []byte(id)
	sum := sha256.Sum256(octets)
	return artifact.Upload{ArtifactID: id, Size: uint64(len(octets)), Hash: sum, Octets: bytes.NewReader(octets), Sync: syncPlain}.Send(ctx, on)
}

// condition is under what something is asked for.
type condition struct {
	name    string
	from    string   // the organisation that asks; empty: a client of the endpoint
	asserts asserted // by it
	hint    string   // set on the connection
	chain   string   // that is named
	met     bool
	says    string // what a refusal says
}

// allows reports whether something is done under a condition.
func (c *condition) allows(d *deed) bool {
	return c.met || c.says == byRules && d.denial == "" || c.hint != "" && d.name == showing
}

// refuses reports whether an error says why something is not done.
func (c *condition) refuses(d *deed, err error) bool {
	denied := c.says == byRules || c.says == notAdmitted
	return denied && d.denial != "" && strings.Contains(err.Error(), d.denial) || c.says != byRules && strings.Contains(err.Error(), c.says)
}

// asserted makes what an organisation asserts: for the certificate of this end, and of
// another end that it has spoken to.
type asserted func(own, another *tls.Certificate) ([]byte, error)

// forWhom asserts a caller as an endpoint does, at a time that differs from now.
func forWhom(who string, off time.Duration) asserted {
	return func(own, _ *tls.Certificate) ([]byte, error) {
		return caller.Sign(&caller.Claim{Caller: who, Chain: []string{organisationID("a")}}, own, devpki.DefaultName, time.Now().Add(off))
	}
}

const (
	byRules     = "the rules" // in the words of the profile
	notAdmitted = "the caller is not admitted here"
	assertion   = "the assertion of the caller (extension 51) is not valid here: "
)

var conditions = []condition{
	{name: "nothing", met: true},
	{name: "kept", hint: "MUST region=eu", met: true},
	{name: "wished", hint: "SHOULD region=mars", met: true},
	{name: "broken", hint: "MUST region=mars", says: "MUST region for connection: UNSATISFIED"},
	{name: "undeclared", hint: "MUST no_pii=true", says: "MUST no_pii for connection: UNDECLARED"},
	{name: "known chain", chain: "known", met: true},
	{name: "unknown chain", chain: "unknown", says: "chain of credentials"},
	{name: "revoked chain", chain: "revoked", says: "chain of credentials"},

	{name: "asserted", from: "a", asserts: forWhom(ann, 0), met: true},
	{name: "pseudonymous", from: "a", asserts: forWhom(pseudonym, 0), met: true},
	{name: "slow clock", from: "a", asserts: forWhom(ann, time.Second-caller.Valid), met: true},
	{name: "missing", from: "a", says: byRules},
	{name: "another caller", from: "a", asserts: forWhom(bob, 0), says: byRules},
	{name: "another pseudonym", from: "a", asserts: forWhom(stranger, 0), says: byRules},
	{name: "denied caller", from: "a", asserts: forWhom(eve, 0), says: notAdmitted},
	{name: "forged", from: "a", asserts: func(own, another *tls.Certificate) ([]byte, error) {
		return forWhom(ann, 0)(&tls.Certificate{Certificate: own.Certificate, PrivateKey: another.PrivateKey}, nil)
	}, says: assertion + "not signed with the certificate of this connection"},
	{name: "made for another partner", from: "a", asserts: func(own, _ *tls.Certificate) ([]byte, error) {
		return caller.Sign(&caller.Claim{Caller: ann, Chain: []string{organisationID("a")}}, own, organisationID("c"), time.Now())
	}, says: assertion + "aud is not this endpoint"},
	{name: "replayed by another partner", from: "c", asserts: func(_, another *tls.Certificate) ([]byte, error) {
		return forWhom(ann, 0)(another, nil)
	}, says: assertion + "not signed with the certificate of this connection"},
	{name: "passed off by another partner", from: "c", asserts: forWhom(ann, 0), says: assertion + "act does not begin with the peer"},
	{name: "expired by skew", from: "a", asserts: forWhom(ann, -caller.Valid-caller.Skew-2*time.Second), says: assertion + "expired"},
	{name: "early by skew", from: "a", asserts: forWhom(ann, 2*caller.Skew), says: assertion + "expired"},

	{name: "asserted, kept", from: "a", asserts: forWhom(ann, 0), hint: "MUST region=eu", met: true},
	{name: "asserted, broken", from: "a", asserts: forWhom(ann, 0), hint: "MUST region=mars", says: "MUST region for connection: UNSATISFIED"},
	{name: "asserted, known chain", from: "a", asserts: forWhom(ann, 0), chain: "known", met: true},
	{name: "asserted, revoked chain", from: "a", asserts: forWhom(ann, 0), chain: "revoked", says: "chain of credentials"},
	{name: "asserted, chain of another", from: "a", asserts: forWhom(ann, 0), chain: "of another", says: "chain of credentials"},
}

// peers are clients of an endpoint and the organisations a and c, whose certificates are of
// its authority.
type peers struct {
	*running
	transport int
	files     map[string]devpki.Files
	leaf      map[string]*tls.Certificate
}

func newPeers(r *running, transport int) *peers {
	r.t.Helper()
	pki := filepath.Join(r.dir, "pki")
	authority, err := devpki.Open(pki)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &peers{r, transport, map[string]devpki.Files{"": devpki.Client(pki)}, make(map[string]*tls.Certificate)}
	for _, name := range []string{"a", "c"} {
		f, err := authority.Issue(filepath.Join(r.t.TempDir(), name), devpki.Request{Name: organisationID(name), Server: true})
		if err != nil {
			r.t.Fatal(err)
		}
		cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			r.t.Fatal(err)
		}
		p.files[name], p.leaf[name] = f, &cert
	}
	return p
}

// dial connects an organisation, or a client if the name is empty. Messages on behalf of
// anybody assert what asserts makes.
func (p *peers) dial(name string, asserts asserted) (*session, <-chan string) {
	p.t.Helper()
	s, told := p.hintedSessionOf(p.addrs[p.transport], p.files[name])
	if asserts != nil {
		own, another := p.leaf["a"], p.leaf["c"]
		if name == "c" {
			own, another = another, own
		}
		s.Assert(func(string) ([]byte, error) { return asserts(own, another) })
	}
	return s, told
}

// everyone is each who may own something after the test.
func (p *peers) everyone() (all []profiles.Session) {
	p.t.Helper()
	for _, who := range []struct {
		from    string
		asserts asserted
	}{{"", nil}, {"a", nil}, {"c", nil}, {"a", forWhom(ann, 0)}, {"a", forWhom(pseudonym, 0)}, {"a", forWhom(bob, 0)}, {"a", forWhom(stranger, 0)}} {
		s, _ := p.dial(who.from, who.asserts)
		all = append(all, profiles.Acting(s.Session, "somebody"))
	}
	return all
}

// shown has a session show a chain of its certificate.
func shown(ctx context.Context, s *session, chain string) error {
	lane, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lane.Close() }()
	leaves, _ := s.Leaves()
	leaf := sha256.Sum256(leaves.Own.Certificate[0])
	return cred.Show(ctx, lane, syncPlain, cred.MTLS, leaf[:], []byte(chain))
}

// revoked has a session show a chain and end it.
func revoked(ctx context.Context, s *session, chain string) error {
	if err := shown(ctx, s, chain); err != nil {
		return err
	}
	lane, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lane.Close() }()
	return cred.End(ctx, lane, syncPlain, []byte(chain), "")
}

// Every profile, every transport: what is asked for under conditions is done if they are
// met, and only then, and the peer is told which one is not.
func TestPR13ConditionsHoldInEveryProfile(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		peers, deeds := conditioned(t, transport)
		for i := range conditions {
			c := &conditions[i]
			s, told := peers.dial(c.from, c.asserts)
			ctx := profiles.WithCaller(t.Context(), "somebody")
			if c.hint != "" {
				s.put(t, profiles.Acting(s.Session, "somebody"), c.hint)
			}
			var err error
			switch c.chain {
			case "known":
				err = shown(ctx, s, c.chain)
			case "revoked":
				err = revoked(ctx, s, c.chain)
			case "of another":
				another, _ := peers.dial(c.from, forWhom(pseudonym, 0))
				err = shown(ctx, another, c.chain)
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.chain != "" {
				ctx = profiles.WithChain(ctx, []byte(c.chain))
			}
			for _, d := range deeds {
				within, cancel := context.WithTimeout(ctx, patience)
				answer, err := d.do(within, s, d.name+" "+c.name)
				cancel()
				switch met := c.allows(&d); {
				case met && err != nil:
					t.Errorf("%s under %s: %v", d.name, c.name, err)
				case !met && err == nil:
					t.Errorf("%s under %s is answered with %q", d.name, c.name, answer)
				case !met && !c.refuses(&d, err):
					t.Errorf("%s under %s is refused with %q, want %q in it", d.name, c.name, err, c.says)
				}
				if !c.allows(&d) && c.hint != "" {
					select {
					case <-told: // over QUIC it may come after the answer
					case <-time.After(patience):
						t.Errorf("%s under %s: no notice", d.name, c.name)
					}
				}
			}
			if notice := heard(t, s, told); notice != "" {
				t.Errorf("under %s: more notices than refusals: %q", c.name, notice)
			}
		}
		for _, d := range deeds {
			if d.done == nil {
				continue
			}
			done := strings.FieldsFunc(d.done(), func(r rune) bool { return r == '\n' || r == '"' })
			for i := range conditions {
				name := d.name + " " + conditions[i].name
				if got, want := slices.Contains(done, name), conditions[i].allows(&d); got != want {
					t.Errorf("%s: done: %v, want %v", name, got, want)
				}
			}
		}
		ended := make(map[string]int) // by messages that assert nobody
		for _, e := range peers.trail() {
			idle := e.Operation == "cancel" && e.Name == "" // it asserts nobody, and has ended nothing
			if e.Outcome == "ok" && e.Identity != clientID && e.For != ann && e.For != pseudonym && e.Name != artifact.MethodList && !idle {
				t.Errorf("recorded as done: %s %s %s for %q of %s", e.Profile, e.Operation, e.Name, e.For, e.Identity)
			}
			if e.Operation == "unsubscribe" || e.Operation == "cancel" && !idle {
				ended[e.Operation+" for "+e.For]++
			}
		}
		for _, what := range []string{"cancel", "unsubscribe"} {
			for _, of := range []string{"", ann, pseudonym} {
				if ended[what+" for "+of] == 0 {
					t.Errorf("there is no record of an %s that ended something of %q", what, of)
				}
			}
		}
	})
}
