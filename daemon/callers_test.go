package daemon

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/internal/partners"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport/transporttest"
)

// Callers of an organisation, beside that of mustDial.
const (
	aliceID = "spiffe://people.example/alice"
	bobID   = "spiffe://people.example/bob"
)

// people have their certificates of an authority that every organisation of a test trusts
// for its own peers.
type people struct {
	t  *testing.T
	ca *transporttest.CA
}

func newPeople(t *testing.T) *people {
	t.Helper()
	return &people{t: t, ca: transporttest.NewCA(t)}
}

// write writes a certificate and its key as a client of an organisation has them.
func (p *people) write(o *organisation, identity string) devpki.Files {
	p.t.Helper()
	return p.issue(o, transporttest.Named(identity))
}

// issue is write for a certificate that is described.
func (p *people) issue(o *organisation, leaf transporttest.Leaf) devpki.Files {
	p.t.Helper()
	ca, err := os.ReadFile(o.ca())
	if err != nil {
		p.t.Fatal(err)
	}
	cert := p.ca.Issue(p.t, leaf)
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		p.t.Fatal(err)
	}
	dir := p.t.TempDir()
	f := devpki.Files{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), CA: filepath.Join(dir, "ca")}
	for name, text := range map[string][]byte{f.Cert: pemOf("CERTIFICATE", cert.Certificate...), f.Key: pemOf("PRIVATE KEY", key), f.CA: ca} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	return f
}

func pemOf(kind string, ders ...[]byte) (text []byte) {
	for _, der := range ders {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})...)
	}
	return text
}

// dial connects somebody to an organisation.
func (p *people) dial(o *organisation, transport int, identity string) *session {
	p.t.Helper()
	s, err := dialWith(p.t, o.addrs[transport], p.write(o, identity))
	if err == nil {
		err = echo(p.t, s)
	}
	if err != nil {
		p.t.Fatalf("%s: %v", identity, err)
	}
	return s
}

// admit has an organisation trust the authority of people.
func (p *people) admit(o *organisation) {
	p.t.Helper()
	bundle, err := os.ReadFile(o.ca())
	if err != nil {
		p.t.Fatal(err)
	}
	bundle = append(bundle, pemOf("CERTIFICATE", p.ca.Cert.Raw)...)
	if err := os.WriteFile(o.ca(), bundle, 0o600); err != nil {
		p.t.Fatal(err)
	}
	o.reloaded()
}

// telling has an organisation tell a partner of its callers in another way than by default.
func (o *organisation) telling(partner, how string) {
	o.t.Helper()
	o.configure(func(text string) string {
		for _, before := range []string{"none", "caller", "pseudonym"} {
			text = strings.Replace(text, "tell: "+before+", ", "", 1)
		}
		return strings.Replace(text, "  "+partner+": {", "  "+partner+": {tell: "+how+", ", 1)
	})
	o.reloaded()
	o.connected(partner)
}

// lastOf returns the last record of a call of a method.
func (o *organisation) lastOf(method string) (last recorded) {
	o.t.Helper()
	for _, r := range o.trail() {
		if r.Name == method {
			last = r
		}
	}
	return last
}

func TestAPartnerIsToldWhoCalls(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		f, yaml := newFar(t)
		a, b := pair(t, transport, yaml+accessAll+"access: {rules: [{identity: '**'}]}\n")
		p := newPeople(t)
		p.admit(a)
		alice, bob := p.dial(a, transport, aliceID), p.dial(a, transport, bobID)
		asked := func(s *session) *http.Request {
			t.Helper()
			if _, err := rpc.Call(t.Context(), s.Session, "b/echo", []byte("1")); err != nil {
				t.Fatal(err)
			}
			r := <-f.asked
			if peer := r.Header.Get("Swp-Peer"); peer != a.identity {
				t.Errorf("peer %q", peer)
			}
			return r
		}
		known := func(s *session) string {
			t.Helper()
			var info rpc.Info
			if err := rpc.CallJSON(t.Context(), s.Session, rpc.MethodInfo, nil, &info); err != nil {
				t.Fatal(err)
			}
			return info.KnownAs["b"]
		}
		pseudonyms := make(map[string]string)
		for range 2 {
			for who, s := range map[string]*session{aliceID: alice, bobID: bob} {
				told := asked(s).Header.Get("Swp-For")
				if !strings.HasPrefix(told, partners.Pseudonym) || len(told) != len(partners.Pseudonym)+22 || pseudonyms[who] != "" && pseudonyms[who] != told {
					t.Errorf("%s is %q, was %q", who, told, pseudonyms[who])
				}
				pseudonyms[who] = told
				if got := known(s); got != told {
					t.Errorf("swp.info says that b knows %s as %q, want %q", who, got, told)
				}
			}
		}
		if pseudonyms[aliceID] == pseudonyms[bobID] {
			t.Error("two callers have one pseudonym")
		}
		a.telling("b", "caller")
		if told := asked(alice).Header.Get("Swp-For"); told != aliceID || known(alice) != aliceID {
			t.Errorf("told %q, known as %q", told, known(alice))
		}
		b.until("a line for alice", func() bool {
			return slices.ContainsFunc(b.accessLines(), func(l accessLine) bool { return l.For == aliceID && l.Peer == a.identity })
		})
		if r := b.lastOf("echo"); r.Identity != a.identity || r.For != aliceID {
			t.Errorf("recorded %+v", r)
		}
		a.telling("b", "none")
		if told, ok := asked(alice).Header["Swp-For"]; ok || known(alice) != "" {
			t.Errorf("told %q, known as %q", told, known(alice))
		}
	})
}

func TestAPseudonymOutlivesARestart(t *testing.T) {
	f, yaml := newFar(t)
	a, _ := pair(t, 0, yaml)
	told := func() string {
		t.Helper()
		if _, err := rpc.Call(t.Context(), a.mustDial(a.addrs[0]).Session, "b/echo", []byte("1")); err != nil {
			t.Fatal(err)
		}
		return (<-f.asked).Header.Get("Swp-For")
	}
	before := told()
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	a.again()
	a.connected("b")
	if after := told(); after != before || before == "" {
		t.Errorf("%q after a restart, %q before", after, before)
	}
}

func TestRulesOfAPartnerTellCallersApart(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		_, yaml := newFar(t)
		a, b := pair(t, transport, yaml+fmt.Sprintf(`access:
  rules:
    - {identity: spiffe://a.example/swpd, for: %q, profile: rpc, name: echo}
    - {identity: spiffe://a.example/swpd, profile: rpc, name: items}
  deny: [{identity: "**", for: "http:*"}]
`, aliceID))
		p := newPeople(t)
		p.admit(a)
		alice, bob := p.dial(a, transport, aliceID), p.dial(a, transport, bobID)
		may := func(s *session, method string, want bool) {
			t.Helper()
			_, err := rpc.Call(t.Context(), s.Session, "b/"+method, []byte("1"))
			if want && err != nil || !want && !isRPC(err, rpc.CodeUnauthorized) {
				t.Errorf("%s: %v", method, err)
			}
		}
		may(alice, "echo", false) // as a pseudonym
		a.telling("b", "none")
		may(alice, "echo", false)
		may(alice, "items", true)
		a.telling("b", "caller")
		may(alice, "echo", true)
		may(bob, "echo", false)
		may(bob, "items", true)
		b.rewrite(`for: "http:*"`, fmt.Sprintf(`for: %q`, bobID))
		b.reloaded()
		denials := `swpd_denials_total{profile="rpc"}`
		before, _ := strconv.Atoi(b.metric(denials))
		may(bob, "items", false)
		b.await(fmt.Sprintf(`"msg":"denied","err_code":"ERR_SECURITY_POLICY","peer":"spiffe://a.example/swpd","profile":"rpc","operation":"call","name":"items","for":%q`, bobID))
		b.counts(denials, strconv.Itoa(before+1))
		may(alice, "echo", true)
		records := b.trail()
		last := func(who string) (rule, outcome string) {
			for _, r := range records {
				if r.For == who {
					rule, outcome = r.Rule, r.Outcome
				}
			}
			return rule, outcome
		}
		if rule, outcome := last(bobID); rule != "access.deny" || outcome != "denied" {
			t.Errorf("bob: %s, %s", rule, outcome)
		}
		if rule, outcome := last(aliceID); rule != "access.rules[0]" || outcome != "ok" {
			t.Errorf("alice: %s, %s", rule, outcome)
		}
	})
}

func TestThreeHopsShowTheChain(t *testing.T) {
	f, yaml := newFar(t)
	row := inARow(t, 0, "", "", yaml)
	a, b, c := row[0], row[1], row[2]
	p := newPeople(t)
	p.admit(a)
	call := func() string {
		t.Helper()
		if _, err := rpc.Call(t.Context(), p.dial(a, 0, aliceID).Session, "b/c/echo", []byte("1")); err != nil {
			t.Fatal(err)
		}
		r := <-f.asked
		if peer := r.Header.Get("Swp-Peer"); peer != b.identity {
			t.Errorf("peer %q", peer)
		}
		return r.Header.Get("Swp-For")
	}
	if told := call(); !strings.HasPrefix(told, a.identity+" for "+partners.Pseudonym) {
		t.Errorf("told %q", told)
	}
	a.telling("b", "caller")
	b.telling("c", "caller")
	want := a.identity + " for " + aliceID
	if told := call(); told != want {
		t.Errorf("told %q", told)
	}
	if r := c.lastOf("echo"); r.Identity != b.identity || r.For != want {
		t.Errorf("recorded %+v", r)
	}
}

// An idempotency_key of one caller is another key of another.
func TestCallersOfAPartnerDoNotShareKeys(t *testing.T) {
	f, yaml := newFar(t)
	a, _ := pair(t, 0, yaml)
	p := newPeople(t)
	p.admit(a)
	alice, bob := p.dial(a, 0, aliceID), p.dial(a, 0, bobID)
	for i, s := range []*session{alice, bob, alice, bob} {
		call := rpc.Invocation{Method: "b/echo", Params: fmt.Appendf(nil, "%d", i%2), IdempotencyKey: "one"}
		got, err := call.Call(t.Context(), s.Session)
		if err != nil || string(got) != fmt.Sprint(i%2) {
			t.Errorf("%d: %s, %v", i, got, err)
		}
	}
	if n := len(f.asked); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestCallersOfTheFrontsAreToldToo(t *testing.T) {
	t.Parallel()
	b, a := open(t, "b", "access: {rules: [{identity: spiffe://a.example/swpd, for: \"http:alice\"}]}\n"+modernYAML(t)), open(t, "a", httpYAML)
	a.trusting("b", b, b.addrs[0])
	b.trusting("a", a)
	a.connected("b")
	a.telling("b", "caller")
	for header, want := range map[string]string{"Authorization: Bearer secret-a": sayTool, "X-Nothing: x": "ERR_SECURITY_POLICY"} {
		if _, _, got := post(t, a.front()+"/mcp/b/modern", modernCall, append(slices.Clone(modernHeaders), header)...); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", header, got, want)
		}
	}
}

func TestStatusWarnsOfAPartnerThatCannotBeToldWhoCalls(t *testing.T) {
	seen := make(chan bool, 2)
	set, err := all.New(all.Options{RPC: rpc.Options{Methods: map[string]rpc.Method{"look": {Inline: func(req *profiles.Request, _ []byte) ([]byte, error) {
		_, told := req.Extensions.Lookup(profiles.ExtCaller)
		seen <- told
		return nil, nil
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	a := open(t, "a", "partners:\n")
	a.trustingPeer("old", newPeer(t, "old", 0, a, set.Registry), "")
	a.connected("old")
	warned := func() bool {
		_, body := a.get("/readyz")
		return strings.Contains(body, "partner old cannot be told who calls")
	}
	a.until("a warning", warned)
	if _, err := rpc.Call(t.Context(), a.mustDial(a.addrs[0]).Session, "old/look", nil); err != nil || <-seen {
		t.Errorf("an older partner: %v, or it was told", err)
	}
	a.telling("old", "none")
	a.until("no warning", func() bool { return !warned() })
}
