package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/internal/partners"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
)

// modernMain is a small MCP server of the modern era. Its tools: exact (answers
// sayTool and the request as it came), slow (tells of progress, and answers when it
// is cancelled, to nobody). With the variable TOOLS it lists these. A subscription says that it has begun, and no more.
func modernMain() int {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	listed := ""
	if os.Getenv("TOOLS") != "" {
		listed = `"tools":{}`
	}
	for in.Scan() {
		var m mcpmap.Message
		if m.Scan(in.Bytes()) != nil {
			continue
		}
		switch {
		case m.Is(mcpmap.MethodCancelled):
			fmt.Fprintf(os.Stderr, "cancelled %s\n", m.RequestID())
		case m.Is(mcpmap.MethodDiscover):
			reply(m.ID(), `{"supportedVersions":["2026-07-28"],"capabilities":{`+listed+`},"serverInfo":{"name":"modern","version":"1"}}`)
		case m.Is("tools/list") && listed != "":
			reply(m.ID(), os.Getenv("TOOLS"))
		case m.Is(mcpmap.MethodListen):
			fmt.Fprintf(os.Stderr, "listening %s\n", m.ID())
		case string(m.Tool()) == "slow":
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,  "progress":1}}`+"\n", m.ProgressToken())
		case string(m.Tool()) == "task":
			reply(m.ID(), fmt.Sprintf(`{"resultType":"task","taskId":"task-%d","status":"working","ttlMs":null}`, os.Getpid()))
		case string(m.Tool()) == "fails":
			reply(m.ID(), `{"content":[],"isError":true}`)
		case string(m.Tool()) == "look":
			quoted, err := json.Marshal(in.Text())
			if err != nil {
				return 1
			}
			reply(m.ID(), `{"content":[],"n":9007199254740993,"f":1.0,"request":`+string(quoted)+`}`)
		default:
			quoted, err := json.Marshal(in.Text())
			if err != nil {
				return 1
			}
			reply(m.ID(), `{"tool":`+sayTool+`,"request":`+string(quoted)+`}`)
		}
	}
	return 0
}

// organisation is a daemon with an authority of its own.
type organisation struct {
	*running
	name, identity string
}

// open starts the daemon of an organisation. In its configuration @NAME/FILE stands
// for a file of another's.
func open(t *testing.T, name, yaml string) *organisation {
	t.Helper()
	dir, identity := t.TempDir(), "spiffe://"+name+".example/swpd"
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{Name: identity}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(yaml, "access:") {
		yaml += "access: {rules: [{identity: '**'}], agents: [{identity: '**', agent_ids: '**'}]}\n"
	}
	return &organisation{startIn(t, dir, yaml), name, identity}
}

// again starts the daemon of an organisation once more, after its end.
func (o *organisation) again() {
	o.t.Helper()
	text, err := os.ReadFile(filepath.Join(o.dir, "swpd.yaml"))
	if err != nil {
		o.t.Fatal(err)
	}
	_, yaml, _ := strings.Cut(string(text), "data: data\n")
	o.running = startIn(o.t, o.dir, yaml)
}

func (o *organisation) ca() string { return filepath.Join(o.dir, "pki", "ca.crt") }

// modernYAML configures the test binary as the MCP server "modern".
func modernYAML(t *testing.T) string {
	t.Helper()
	return strings.Replace(strings.Replace(childYAML(t), "child:", "modern:", 1), childEnv+": '1'", childEnv+": modern", 1)
}

// entry is what a configuration says of a partner.
func entry(name string, of *organisation, addresses ...string) string {
	return fmt.Sprintf("  %s: {identity: %q, trust: [%q], addresses: [%s]}\n", name, of.identity, of.ca(), strings.Join(addresses, ", "))
}

// trusting has an organisation take another for its partner, who dials it.
func (o *organisation) trusting(name string, other *organisation, addresses ...string) {
	o.t.Helper()
	o.configure(func(text string) string {
		if !strings.Contains(text, "partners:\n") {
			text += "partners:\n"
		}
		return strings.Replace(text, "partners:\n", "partners:\n"+entry(name, other, addresses...), 1)
	})
	o.reloaded()
}

// connected waits until a daemon says that it is connected to a partner.
func (o *organisation) connected(name string) {
	o.until("partner "+name+" up", func() bool { return o.up(name) })
}

// connectsAgain does what ends the session of a partner, and waits for the next one.
func (o *organisation) connectsAgain(name string, after func()) {
	o.t.Helper()
	before := o.link(name).Connects
	after()
	o.until("another session of partner "+name, func() bool { l := o.link(name); return l.Up && l.Connects > before })
}

// losesB connects an organisation to b, and calls check: at first, after a cut of the link
// (over TLS), after b was started again, and after the organisation itself was. joins is
// called before it for each endpoint that has just started, and makes the sessions with it.
func (o *organisation) losesB(b *organisation, transport int, joins func(*organisation), check func(after string)) {
	o.t.Helper()
	b.trusting("a", o)
	address := b.addrs[transport]
	o.trusting("b", b, address)
	connected := func() {
		o.t.Helper()
		o.connected("b")
		b.connected("a")
	}
	connected()
	joins(o)
	joins(b)
	check("at first")
	if transport == 0 {
		link, through := newTunnel(o.t, address)
		o.rewrite(address, through)
		o.reloaded()
		o.connected("b")
		o.connectsAgain("b", link.cut)
		b.connected("a")
		check("after a cut")
		o.rewrite(through, address)
		o.reloaded()
	}
	if err := b.end(); err != nil {
		o.t.Fatal(err)
	}
	b.again()
	o.rewrite(address, b.addrs[transport])
	o.reloaded()
	connected()
	joins(b)
	check("after a start there")
	if err := o.end(); err != nil {
		o.t.Fatal(err)
	}
	o.again()
	connected()
	joins(o)
	check("after a start here")
}

func (o *organisation) up(name string) bool { return o.link(name).Up }

// link is what a daemon says of the link to a partner.
func (o *organisation) link(name string) (of partners.Status) {
	_, body := o.get("/status")
	var s Status
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		o.t.Fatal(err)
	}
	for _, p := range s.Partners {
		if p.Name == name {
			of = p
		}
	}
	return of
}

// until polls for what only an admin listener tells.
func (o *organisation) until(what string, ok func() bool) {
	o.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			_, status := o.get("/status")
			o.t.Fatalf("%s: still waiting for %s: %s\n%s", o.name, what, status, o.log)
		}
		select {
		case <-o.log.grown:
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// pair starts two organisations, b behind a, linked by a transport of b.
func pair(t *testing.T, transport int, yamlB string) (a, b *organisation) {
	t.Helper()
	return pairOf(t, transport, "", yamlB)
}

func pairOf(t *testing.T, transport int, yamlA, yamlB string) (a, b *organisation) {
	t.Helper()
	row := inARow(t, transport, yamlA, yamlB)
	return row[0], row[1]
}

// inARow starts organisations a, b and so on, each linked to the next by a transport of it.
func inARow(t *testing.T, transport int, yaml ...string) []*organisation {
	t.Helper()
	row := make([]*organisation, len(yaml))
	for i := len(yaml) - 1; i >= 0; i-- {
		row[i] = open(t, string(rune('a'+i)), yaml[i])
		if i+1 < len(row) {
			near, far := row[i], row[i+1]
			far.trusting(near.name, near)
			near.trusting(far.name, far, far.addrs[transport])
		}
	}
	for i := range len(row) - 1 {
		row[i].connected(row[i+1].name)
	}
	return row
}

func overTLSAndQUIC(t *testing.T, f func(t *testing.T, transport int)) {
	for i, name := range []string{"tls", "quic"} {
		t.Run(name, func(t *testing.T) { f(t, i) })
	}
}

// ask calls an MCP server by its name.
func (s *session) ask(t *testing.T, call mcpmap.Call) (*mcpmap.Result, error) {
	t.Helper()
	return s.askIn(t.Context(), call)
}

func (s *session) askIn(ctx context.Context, call mcpmap.Call) (*mcpmap.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.mapping.Client(s.Session).Do(ctx, &call)
}

func (s *session) mustAsk(t *testing.T, target, request string) string {
	t.Helper()
	result, err := s.ask(t, mcpmap.Call{Target: target, Octets: []byte(request)})
	if err != nil {
		t.Fatal(err)
	}
	return string(result.Octets)
}

const modernCall = `{ "jsonrpc":"2.0", "id":9007199254740993.0, "method":"tools/call","x":1e400,"x":2,` +
	`"params":{"name":"\u0065xact","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}} }`

func TestModernRequestsReachAPartnerOctetForOctet(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, _ := pair(t, transport, modernYAML(t))
		got := a.mustDial(a.addrs[0]).mustAsk(t, "b/modern", modernCall)
		quoted, err := json.Marshal(modernCall)
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"jsonrpc":"2.0","id":9007199254740993.0,"result":{"tool":` + sayTool + `,"request":` + string(quoted) + `}}`; got != want {
			t.Errorf("answer %s\nwant   %s", got, want)
		}
	})
}

func TestPartnerBothEndsOfTheLinkServe(t *testing.T) {
	a, b := pair(t, 0, modernYAML(t))
	_ = a
	b.connected("a") // by the session that a has dialled
	got := b.mustDial(b.addrs[0]).mustAsk(t, "a/b/modern", modernCall)
	if !strings.Contains(got, sayTool) {
		t.Errorf("there and back: %s", got)
	}
}

func TestPartnersThatForwardInACircleStopAtTheHopLimit(t *testing.T) {
	b := open(t, "b", modernYAML(t))
	a := open(t, "a", modernYAML(t))
	b.trusting("a", a)
	a.trusting("b", b, b.addrs[0])
	b.connected("a")
	a.connected("b")
	s := a.mustDial(a.addrs[0])
	if got := s.mustAsk(t, strings.Repeat("b/a/", 4)+"modern", modernCall); !strings.Contains(got, sayTool) {
		t.Errorf("eight hops: %s", got)
	}
	if got := s.mustAsk(t, strings.Repeat("b/a/", 4)+"b/modern", modernCall); !strings.Contains(got, "passed on 8 times already") {
		t.Errorf("nine hops: %s", got)
	}
}

func TestPartnerThatIsNotThereIsARetryableError(t *testing.T) {
	t.Parallel()
	a, b := pair(t, 0, modernYAML(t))
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	a.until("the loss of b", func() bool { return !a.up("b") })
	got := a.mustDial(a.addrs[0]).mustAsk(t, "b/modern", modernCall)
	if want := `{"jsonrpc":"2.0","id":9007199254740993.0,"error":{"code":-32603,"message":"partner b cannot be reached now","data":{"code":"ERR_RATE_LIMIT_EXCEEDED","retryable":true,"endpoint":"spiffe://a.example/swpd"}}}`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
	a.counts(`swpd_partner_up{partner="b"}`, "0")
	_, ready := a.get("/readyz")
	if !strings.Contains(ready, "partner b is away") {
		t.Errorf("/readyz: %s", ready)
	}
}

func TestWhatIsBehindAPartnerNeedsARuleHere(t *testing.T) {
	b := open(t, "b", modernYAML(t))
	a := open(t, "a", "access: {rules: [{identity: 'spiffe://a.example/**', profile: mcp, operation: tools/call, name: [b/modern/exact]}]}\n")
	b.trusting("a", a)
	a.trusting("b", b, b.addrs[0])
	a.connected("b")
	s := a.mustDial(a.addrs[0])
	if got := s.mustAsk(t, "b/modern", modernCall); !strings.Contains(got, sayTool) {
		t.Errorf("an allowed tool: %s", got)
	}
	if got := s.mustAsk(t, "b/modern", strings.Replace(modernCall, `\u0065xact`, "other", 1)); !strings.Contains(got, `"code":"ERR_SECURITY_POLICY"`) {
		t.Errorf("a tool without a rule: %s", got)
	}
	a.await(`"operation":"tools/call","name":"b/modern/other"`)
}

// At the far end it is the identity of the forwarding endpoint that needs a rule.
func TestThePartnerSeesTheIdentityOfTheEndpoint(t *testing.T) {
	a, b := pair(t, 0, "access: {}\n"+modernYAML(t))
	if got := a.mustDial(a.addrs[0]).mustAsk(t, "b/modern", modernCall); !strings.Contains(got, `"code":"ERR_SECURITY_POLICY"`) {
		t.Errorf("answer %s", got)
	}
	b.await(`"msg":"denied","err_code":"ERR_SECURITY_POLICY","peer":"spiffe://a.example/swpd","profile":"mcp","operation":"tools/call","name":"modern/exact"`)
}

func TestNobodyElsesAuthoritySpeaksForAPartner(t *testing.T) {
	t.Parallel()
	b, c := open(t, "b", ""), open(t, "c", "")
	a := open(t, "a", "")
	wrong := *b
	wrong.running = c.running // b's name, c's authority
	b.trusting("a", a)
	a.trusting("b", &wrong, b.addrs[0], b.addrs[1])
	a.await(`"msg":"partner not reached"`)
	a.await("certificate signed by unknown authority")
	if a.up("b") {
		t.Error("connected under the wrong authority")
	}
	a.rewrite(c.ca(), b.ca()) // found without a signal
	a.connected("b")
	a.rewrite(b.ca(), c.ca())
	a.reloaded()
	a.until("the end of a link that is not trusted", func() bool { return !a.up("b") })
}

// misnamed is an organisation under an identity that its certificate does not say.
func misnamed(o *organisation) *organisation {
	wrong := *o
	wrong.identity = "spiffe://" + o.name + ".example/swpx"
	return &wrong
}

func TestWrongIdentityInTheEntryOfAPartnerIsNamedAndNoAuthorityAdvised(t *testing.T) {
	t.Parallel()
	const why = "partner b is configured as spiffe://b.example/swpx, but spiffe://b.example/swpd "
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := open(t, "a", ""), open(t, "b", "")
		b.trusting("a", a)
		a.trusting("b", misnamed(b), b.addrs[transport])
		a.await(why + `answers (partners.b.identity)","do":"if this is the endpoint of the partner, correct partners.b.identity, then run swpd reload"`)
		a.until("the reason of the link", func() bool {
			_, status := a.get("/status")
			return strings.Contains(status, why+"answers")
		})
		a.neverAdvises("trust")
	})
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := open(t, "a", ""), open(t, "b", "")
		a.trusting("b", misnamed(b))
		b.trusting("a", a, a.addrs[transport])
		a.await(why + `connects (partners.b.identity)","do":"if this is the endpoint of the partner, correct partners.b.identity, then run swpd reload"`)
		a.neverAdvises("trust")
	})
}

// neverAdvises fails if the log advises to change a key.
func (o *organisation) neverAdvises(key string) {
	o.t.Helper()
	for line := range strings.Lines(o.log.String()) {
		if _, do, ok := strings.Cut(line, `"do":`); ok && strings.Contains(do, key) {
			o.t.Errorf("%s: %s", o.name, line)
		}
	}
}

// says waits until the log and the status of an endpoint give a reason for a link.
func (o *organisation) says(reason string) {
	o.t.Helper()
	o.await(`"msg":"partner not reached"`)
	o.await(reason)
	o.until("the reason of the link", func() bool {
		_, status := o.get("/status")
		return strings.Contains(status, reason)
	})
}

func TestPartnerThatDoesNotKnowThisEndpointYetIsSaidToRefuseItsCertificate(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := open(t, "a", ""), open(t, "b", "")
		a.trusting("b", b, b.addrs[transport])
		a.says(b.addrs[transport] + ": it refused this endpoint's certificate; has it added this endpoint, with the output of swpd cert bundle?")
	})
}

// Over TLS the code of the end is not known.
func TestPartnerThatDeniesThisEndpointIsSaidToLockItOut(t *testing.T) {
	for transport, words := range []string{
		"it refused this endpoint, and the cause was not said: perhaps it is full, or does not let this identity in; its operator finds the cause in its log",
		"it trusts this endpoint's certificate but does not let its identity in; its operator finds it in access.deny",
	} {
		a, b := open(t, "a", ""), open(t, "b", "access: {deny: ['spiffe://a.example/**'], rules: [{identity: '**'}], agents: [{identity: '**', agent_ids: '**'}]}\n")
		b.trusting("a", a)
		a.trusting("b", b, b.addrs[transport])
		a.says(b.addrs[transport] + ": " + words)
	}
}

// Whoever answers at the address of a partner, under an authority that is not the
// partner's, may be anybody.
func TestStrangerAtTheAddressOfAPartnerIsNotTakenForIt(t *testing.T) {
	a, b, c := open(t, "a", ""), open(t, "b", ""), open(t, "c", "")
	a.trusting("b", b, c.addrs[0])
	a.await(`partner b is configured as spiffe://b.example/swpd, but spiffe://c.example/swpd answers (partners.b.identity)",` +
		`"do":"no authority of this partner issued that certificate: correct partners.b.addresses`)
}

func TestANameIsThatOfAPartnerOrOfAServer(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "swpd.yaml")
	text := childYAML(t) + "partners: {child: {identity: spiffe://b.example/swpd}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(file, nil); err == nil || !strings.Contains(err.Error(), "partners.child: has the name of mcp.servers.child") {
		t.Errorf("error %v", err)
	}
}

func TestAReloadRefusesTheOwnIdentityAsAPartner(t *testing.T) {
	t.Parallel()
	a, _ := pair(t, 0, modernYAML(t))
	a.rewrite("partners:\n", "partners:\n  me: {identity: 'spiffe://a.example/swpd'}\n")
	a.await(`"msg":"partners not reloaded, the old ones stay"`)
	if ready := a.warned(); !strings.Contains(ready, "partners.me.identity: spiffe://a.example/swpd is the identity of this endpoint") {
		t.Errorf("/readyz: %s", ready)
	}
	if got := a.mustDial(a.addrs[0]).mustAsk(t, "b/modern", modernCall); !strings.Contains(got, sayTool) {
		t.Errorf("the partner that was there: %s", got)
	}
	a.rewrite("spiffe://a.example/swpd", "spiffe://c.example/swpd")
	a.reloaded()
	if _, ready := a.get("/readyz"); strings.Contains(ready, "not reloaded") {
		t.Errorf("/readyz: %s", ready)
	}
	if n := strings.Count(a.log.String(), "partners not reloaded"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

func TestLegacySessionsReachAPartner(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, _ := pair(t, transport, childYAML(t))
		s, other := a.mustDial(a.addrs[transport]), a.mustDial(a.addrs[transport])
		one, two := s.begin(t, "b/child"), other.begin(t, "b/child")
		pid := func(s *session, name string) string {
			result, err := s.ask(t, mcpmap.Call{Target: "b/child", Session: name, Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid"}}`)})
			if err != nil {
				t.Fatal(err)
			}
			return string(result.Octets)
		}
		first := pid(s, one)
		if first != pid(s, one) || first == pid(other, two) {
			t.Errorf("each session has a child of its own: %s, %s, then %s", first, pid(s, one), pid(other, two))
		}
		if got := pid(other, one); got != first { // another connection of the same identity
			t.Errorf("taken up on another connection: %s, want %s", got, first)
		}
		// A request without a session must not fall into somebody's.
		if got := s.mustAsk(t, "b/child", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid"}}`); got != first {
			t.Errorf("the current session of the connection: %s, want %s", got, first)
		}
		third := a.mustDial(a.addrs[transport])
		if got := third.mustAsk(t, "b/child", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid"}}`); !strings.Contains(got, `"error"`) {
			t.Errorf("without a session: %s", got)
		}
	})
}

// begin opens a legacy session and returns its name.
func (s *session) begin(t *testing.T, target string) string {
	t.Helper()
	result, err := s.ask(t, mcpmap.Call{Target: target, Octets: []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)})
	if err != nil || result.Session == "" {
		t.Fatalf("initialize: %+v, %v", result, err)
	}
	return result.Session
}

func TestALegacySessionOutlivesTheLink(t *testing.T) {
	t.Parallel()
	b, a := open(t, "b", childYAML(t)), open(t, "a", "")
	link, address := newTunnel(t, b.addrs[0])
	a.trusting("b", b, address)
	b.trusting("a", a)
	a.connected("b")
	s := a.mustDial(a.addrs[0])
	name := s.begin(t, "b/child")
	const ask = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid"}}`
	before, err := s.ask(t, mcpmap.Call{Target: "b/child", Session: name, Octets: []byte(ask)})
	if err != nil {
		t.Fatal(err)
	}
	// What is in flight is lost, and said to be, once.
	failed := make(chan string, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		result, err := s.mapping.Client(s.Session).Do(ctx, &mcpmap.Call{Target: "b/child", Session: name, Octets: []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"hang"}}`)})
		if err != nil {
			failed <- err.Error()
			return
		}
		failed <- string(result.Octets)
	}()
	b.until("the call", func() bool { return b.metric(`swpd_mcp_in_flight{server="child"}`) == "1" })
	link.cut()
	if got, want := <-failed, `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"the link to partner b was lost; whether it had an effect is not known","data":{"code":"ERR_INTERNAL_ERROR","retryable":false,"endpoint":"spiffe://a.example/swpd"}}}`; got != want {
		t.Errorf("in flight: %s, want %s", got, want)
	}
	after, err := s.ask(t, mcpmap.Call{Target: "b/child", Session: name, Octets: []byte(ask)})
	if err != nil || string(after.Octets) != string(before.Octets) {
		t.Errorf("after the link was lost: %s, %v, want %s", after.Octets, err, before.Octets)
	}
}

// The partner is back before anybody notices that it was killed, and knows the session no
// more: whether the tool ran is as little known as after a lost connection.
func TestACallOfALegacySessionAtAPartnerThatWasKilledIsNotSaidToBeUnknown(t *testing.T) {
	t.Parallel()
	b, a := open(t, "b", childYAML(t)), open(t, "a", "")
	link, address := newTunnel(t, a.addrs[0])
	a.trusting("b", b)
	b.trusting("a", a, address)
	a.connected("b")
	s := a.mustDial(a.addrs[0])
	name := s.begin(t, "b/child")
	type outcome struct {
		*mcpmap.Result
		error
	}
	inFlight := make(chan outcome, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		result, err := s.mapping.Client(s.Session).Do(ctx, &mcpmap.Call{Target: "b/child", Session: name, Octets: []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"hang"}}`)})
		inFlight <- outcome{result, err}
	}()
	b.until("the call", func() bool { return b.metric(`swpd_mcp_in_flight{server="child"}`) == "1" })
	link.held.Lock()
	defer link.held.Unlock()

	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(b.dir, "pki"), filepath.Join(dir, "pki")); err != nil {
		t.Fatal(err)
	}
	startIn(t, dir, childYAML(t)+"access: {rules: [{identity: '**'}]}\npartners:\n"+entry("a", a, a.addrs[0]))
	got := <-inFlight
	if got.error != nil {
		t.Fatal(got.error)
	}
	if want := `"code":-32603,"message":"the partner has lost the session; whether this was carried out is not known","data":{"code":"ERR_INTERNAL_ERROR","retryable":false,`; !strings.Contains(string(got.Octets), want) {
		t.Errorf("in flight: %s, want %s", got.Octets, want)
	}
	const ask = `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"pid"}}`
	next, err := s.ask(t, mcpmap.Call{Target: "b/child", Session: name, Octets: []byte(ask)})
	if err != nil || next.Status != 404 || !strings.Contains(string(next.Octets), `"ERR_NOT_FOUND"`) {
		t.Errorf("the session: %+v, %v", next, err)
	}
}

// A link that begins anew is another one: clients are told that the session is unknown,
// and open one.
func TestLegacySessionsEndWithTheirLink(t *testing.T) {
	t.Parallel()
	for what, change := range map[string][2]string{
		"changed": {"addresses: [swp", "in_flight: 100, addresses: [swp"},
		"removed": {"  b: {", "  other: {"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			a, b := pair(t, 0, childYAML(t))
			s := a.mustDial(a.addrs[0])
			name := s.begin(t, "b/child")
			const ask = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid"}}`
			first, err := s.ask(t, mcpmap.Call{Target: "b/child", Session: name, Octets: []byte(ask)})
			if err != nil {
				t.Fatal(err)
			}
			listening, err := rpc.Open(t.Context(), s.Session, mcpmap.MethodRPCListen, fmt.Appendf(nil, `{"target":"b/child","session":%q}`, name))
			if err != nil {
				t.Fatal(err)
			}
			defer listening.Close()
			// By the time that this is answered the session is listened to.
			if _, err := s.ask(t, mcpmap.Call{Target: "b/child", Session: name, Octets: []byte(ask)}); err != nil {
				t.Fatal(err)
			}
			a.rewrite(change[0], change[1])
			a.reloaded()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := listening.Recv(ctx); !errors.Is(err, io.EOF) {
				t.Errorf("swp.mcp.listen ended with %v", err)
			}
			gone, err := s.ask(t, mcpmap.Call{Target: "b/child", Session: name, Octets: []byte(ask)})
			if err != nil || gone.Status != 404 || !strings.Contains(string(gone.Octets), `"message":"unknown session","data":{"code":"ERR_NOT_FOUND"`) {
				t.Errorf("the session: %+v, %v", gone, err)
			}
			b.await(`"msg":"child ended"`) // it was told
			if what == "removed" {
				return
			}
			a.connected("b")
			again, err := s.ask(t, mcpmap.Call{Target: "b/child", Session: s.begin(t, "b/child"), Octets: []byte(ask)})
			if err != nil || string(again.Octets) == string(first.Octets) {
				t.Errorf("a new session: %+v, %v", again, err)
			}
		})
	}
}

// What is in flight is answered first.
func TestLinksThatBeginAnewLetRequestsEnd(t *testing.T) {
	a, _ := pair(t, 0, childYAML(t))
	s := a.mustDial(a.addrs[0])
	name := s.begin(t, "b/child")
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	answer := make(chan string, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		result, err := s.mapping.Client(s.Session).Do(ctx, &mcpmap.Call{
			Target: "b/child", Session: name,
			Octets: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{"socket":%q}}}`, socket),
		})
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- string(result.Octets)
	}()
	waiting, err := ln.Accept() // the call has reached the child
	if err != nil {
		t.Fatal(err)
	}
	a.rewrite("addresses: [swp", "in_flight: 100, addresses: [swp")
	a.reloaded()
	a.eventually("a new link, that does not know the session", func() bool {
		late, err := s.ask(t, mcpmap.Call{Target: "b/child", Session: name, Octets: []byte(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)})
		return err == nil && late.Status == 404
	})
	_ = waiting.Close()
	if got, want := <-answer, `{"jsonrpc":"2.0","id":1,"result":"waited"}`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
}

func TestOP03StopDoesNotWaitForWhoListensAtAPartner(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, _ := pair(t, transport, childYAML(t))
		s := a.mustDial(a.addrs[transport])
		name := s.begin(t, "b/child")
		// By the time that this is answered the session is listened to.
		if _, err := s.ask(t, mcpmap.Call{Target: "b/child", Session: name, Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid"}}`)}); err != nil {
			t.Fatal(err)
		}
		s.Close(0)
		if err := a.end(); err != nil || strings.Contains(a.log.String(), "in flight") {
			t.Errorf("%v\n%s", err, a.log)
		}
	})
}

const modernListen = `{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`

// What has no end of its own must not hold up the far end either: whoever listens is
// told to come again.
func TestOP03StopDoesNotWaitForPartnersThatListen(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		t.Run("legacy", func(t *testing.T) {
			a, b := pair(t, transport, childYAML(t))
			s := a.mustDial(a.addrs[transport])
			name := s.begin(t, "b/child")
			if _, err := s.ask(t, mcpmap.Call{Target: "b/child", Session: name, Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid"}}`)}); err != nil {
				t.Fatal(err)
			}
			if err := b.end(); err != nil || strings.Contains(b.log.String(), "in flight") {
				t.Errorf("%v\n%s", err, b.log)
			}
		})
		t.Run("modern", func(t *testing.T) {
			a, b := pair(t, transport, modernYAML(t))
			s := a.mustDial(a.addrs[transport])
			answer := make(chan string, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				result, err := s.mapping.Client(s.Session).Do(ctx, &mcpmap.Call{Target: "b/modern", Octets: []byte(modernListen)})
				if err != nil {
					answer <- err.Error()
					return
				}
				answer <- string(result.Octets)
			}()
			b.await("listening 3")
			if err := b.end(); err != nil || strings.Contains(b.log.String(), "in flight") {
				t.Errorf("%v\n%s", err, b.log)
			}
			if got, want := <-answer, `{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"this endpoint is shutting down","data":{"code":"ERR_RATE_LIMIT_EXCEEDED","retryable":true,"endpoint":"spiffe://b.example/swpd"}}}`; got != want {
				t.Errorf("answer %s, want %s", got, want)
			}
		})
	})
}

func TestCancelledRequestsAreCancelledBehindAPartner(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := pair(t, transport, modernYAML(t))
		s := a.mustDial(a.addrs[transport])
		progress := make(chan string, 10)
		call := &mcpmap.Call{
			Target: "b/modern", Octets: []byte(strings.Replace(strings.Replace(modernCall, `\u0065xact`, "slow", 1), `"_meta":{`, `"_meta":{"progressToken":"p",`, 1)),
			Events: mcpmap.Events{Notification: func(octets []byte) { progress <- string(octets) }},
		}
		done := make(chan error, 1)
		go func() {
			_, err := s.mapping.Client(s.Session).Do(t.Context(), call)
			done <- err
		}()
		if got := <-progress; got != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p",  "progress":1}}` {
			t.Errorf("progress %s", got)
		}
		if err := s.mapping.Client(s.Session).Notify(t.Context(), "b/modern", "", []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId": 9007199254740993.0 }}`)); err != nil {
			t.Fatal(err)
		}
		<-done
		b.await(`cancelled 9007199254740993.0`)
	})
}

// count returns how many sessions of the partner the daemon has.
func (o *organisation) count() int {
	_, body := o.get("/status")
	var s Status
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		o.t.Fatal(err)
	}
	return s.Sessions
}

// Of two partners that dial each other the session stays that the smaller identity
// has dialled, if it has dialled one.
func TestOfTwoPartnersTheSmallerIdentityKeepsItsSession(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"a", "b"} {
		t.Run("the first is "+first, func(t *testing.T) {
			b, a := open(t, "b", modernYAML(t)), open(t, "a", modernYAML(t))
			one, two := a, b
			if first == "b" {
				one, two = b, a
			}
			two.trusting(one.name, one)
			one.trusting(two.name, two, two.addrs[0])
			one.connected(two.name)
			two.rewrite("addresses: []", "addresses: ["+one.addrs[0]+"]")
			two.reloaded()
			for _, o := range []*organisation{a, b} {
				o.until("one session", func() bool { return o.count() == 1 && o.up("a") != o.up("b") })
			}
			if got := a.mustDial(a.addrs[0]).mustAsk(t, "b/modern", modernCall); !strings.Contains(got, sayTool) {
				t.Errorf("from a: %s", got)
			}
			if got := b.mustDial(b.addrs[0]).mustAsk(t, "a/modern", modernCall); !strings.Contains(got, sayTool) {
				t.Errorf("from b: %s", got)
			}
			if _, status := a.get("/status"); first == "a" && !strings.Contains(status, `"dialled": true`) && !strings.Contains(status, `"dialled":true`) {
				t.Errorf("a has not dialled: %s", status)
			}
		})
	}
}
