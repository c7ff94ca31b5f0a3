package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// configure changes the configuration of a daemon at once: the daemon may read a file that
// is half written, which can be a valid configuration.
func (r *running) configure(change func(text string) string) {
	r.t.Helper()
	file := filepath.Join(r.dir, "swpd.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		r.t.Fatal(err)
	}
	next := file + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(change(string(text))), 0o600), os.Rename(next, file)); err != nil {
		r.t.Fatal(err)
	}
}

// rewrite replaces text in the configuration of a daemon.
func (r *running) rewrite(from, to string) {
	r.t.Helper()
	r.configure(func(text string) string {
		if !strings.Contains(text, from) {
			r.t.Fatalf("the configuration has no %q", from)
		}
		return strings.Replace(text, from, to, 1)
	})
}

// reloaded has the daemon read its files again and waits until it has.
func (r *running) reloaded() {
	if r.admin != "" {
		r.post()
		return
	}
	r.reload <- struct{}{}
	r.reload <- struct{}{} // returns when the one before is done
}

// post asks the admin listener to reload.
func (r *running) post(header ...string) (status int, body string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.admin+"/reload", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: r.socket(), Timeout: patience}
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

const onlySay = `access: {rules: [{identity: 'spiffe://localhost/**', profile: mcp, operation: [initialize, tools/call], name: [child, child/say]}]}` + "\n"

func TestDenialIsAuditedAndCounted(t *testing.T) {
	r := start(t, onlySay+childYAML(t))
	s := r.mustDial(r.addrs[0])
	name := s.initialize(t)
	if got := s.tool(t, name, "say", `{"text":"x"}`); strings.Contains(got, "ERR_SECURITY_POLICY") {
		t.Errorf("an allowed tool: %s", got)
	}
	if got := s.tool(t, name, "exit\x1b[31m\r\n"+strings.Repeat("x", 1000), `{}`); !strings.Contains(got, `"code":"ERR_SECURITY_POLICY"`) {
		t.Errorf("a denied tool: %s", got)
	}
	r.await(`"class":"denied","msg":"denied","err_code":"ERR_SECURITY_POLICY","peer":"spiffe://localhost/swp-client","profile":"mcp","operation":"tools/call","name":"child/exit`)
	if n := strings.Count(r.log.String(), `"msg":"denied"`); n != 1 {
		t.Errorf("%d audit events, want 1", n)
	}
	r.counts(`swpd_denials_total{profile="mcp"}`, "1")
	r.counts(`swpd_rejects_total{code="ERR_SECURITY_POLICY",detail="access",profile="mcp"}`, "1")
}

// Thirty different denials of an identity are all logged, over TLS and QUIC, while others
// spoil hundreds of handshakes.
func TestOP08DenialsAreLoggedBesideBrokenConnections(t *testing.T) {
	t.Parallel()
	r := start(t, "access: {}\n")
	noise := make(chan struct{})
	var loud sync.WaitGroup
	defer loud.Wait()
	defer close(noise)
	host := strings.TrimPrefix(r.addrs[0], "swp+tls://")
	began := make(chan struct{})
	loud.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-noise:
				return
			default:
			}
			if conn, err := net.Dial("tcp", host); err == nil {
				_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}
			if i == 200 {
				close(began)
			}
			time.Sleep(2 * time.Millisecond) // at most 500 a second
		}
	})
	<-began
	const each = 15
	for i, address := range r.addrs[:2] {
		s := r.mustDial(address)
		for j := range each {
			if _, err := rpc.Call(t.Context(), s.Session, fmt.Sprintf("denied.%d.%d", i, j), nil); err == nil {
				t.Error("a call was not denied")
			}
		}
	}
	for i := range r.addrs[:2] {
		for j := range each {
			r.await(fmt.Sprintf(`"name":"denied.%d.%d"`, i, j))
		}
	}
}

func TestWithoutRulesOnlyWhatDisclosesNothingIsServed(t *testing.T) {
	r := start(t, "access: {}\n"+childYAML(t))
	s := r.mustDial(r.addrs[0])
	for _, method := range []string{rpc.MethodPing, rpc.MethodInfo, rpc.MethodSync} {
		got, err := rpc.Call(t.Context(), s.Session, method, nil)
		if err != nil || strings.Contains(string(got), "child") {
			t.Errorf("%s: %s, %v", method, got, err)
		}
	}
	if got := s.tool(t, "", "say", `{"text":"x"}`); !strings.Contains(got, `"code":"ERR_SECURITY_POLICY"`) {
		t.Errorf("a tool: %s", got)
	}
}

func TestTL10DeniedPeersAreClosedAndRefused(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	var gone []*session
	for _, address := range r.addrs {
		gone = append(gone, r.mustDial(address))
	}
	r.rewrite("access: {", "access: {deny: ['spiffe://localhost/swp-*', loopback], ") // found without a signal
	for i, s := range gone {
		select {
		case <-s.Context().Done():
		case <-time.After(patience): // pollEvery and a little, where nothing else is to be done
			t.Errorf("%s: a denied peer is still connected", r.addrs[i])
		}
	}
	for _, address := range r.addrs {
		if s, err := r.dial(address); err == nil && echo(t, s) == nil {
			t.Errorf("%s: a denied peer was let in", address)
		}
	}
	// One for each connection closed and refused.
	r.awaitTimes(6, `"class":"security","msg":"security event","err_code":"ERR_SECURITY_POLICY","reason":"denied"`)
	r.rewrite("deny: ['spiffe://localhost/swp-*', loopback], ", "")
	r.reloaded()
	for _, address := range r.addrs {
		r.mustDial(address)
	}
}

func TestRulesThatChangeHoldForConnectedPeers(t *testing.T) {
	r := start(t, onlySay+childYAML(t))
	s := r.mustDial(r.addrs[0])
	name := s.initialize(t)
	if got := s.tool(t, name, "say", `{"text":"x"}`); strings.Contains(got, "ERR_SECURITY_POLICY") {
		t.Errorf("before: %s", got)
	}
	r.rewrite("child/say", "child/other")
	r.reloaded()
	if got := s.tool(t, name, "say", `{"text":"x"}`); !strings.Contains(got, "ERR_SECURITY_POLICY") {
		t.Errorf("after: %s", got)
	}
}

func TestRulesThatCannotBeReadKeepTheOldOnesAndWarn(t *testing.T) {
	t.Parallel()
	r := start(t, onlySay)
	r.rewrite("operation:", "operations:")
	r.reloaded()
	status, _ := r.get("/readyz")
	if body := r.warned(); status != 200 || !strings.Contains(body, "configuration not reloaded, the old one stays in force: ") || !strings.Contains(body, "did you mean operation?") {
		t.Errorf("/readyz says %d, warnings %q", status, body)
	}
	r.mustDial(r.addrs[0])
	r.rewrite("operations:", "operation:") // found without a signal
	r.await(`"msg":"configuration can be used again"`)
	if _, body := r.get("/readyz"); body != "ready\n" {
		t.Errorf("restored: /readyz says %q", body)
	}
}

func TestReloadOverTheAdminListenerSaysWhatCameOfIt(t *testing.T) {
	r := start(t, onlySay)
	ask := func() (result Reloaded) {
		t.Helper()
		status, body := r.post()
		if err := json.Unmarshal([]byte(body), &result); err != nil || status != http.StatusOK {
			t.Fatalf("%d %q: %v", status, body, err)
		}
		return result
	}
	if diff := cmp.Diff(Reloaded{Changed: []string{}, Problems: []string{}, Later: []string{}}, ask()); diff != "" {
		t.Error(diff)
	}
	r.rewrite("access:", "store: memory\nlimits: {extension_bytes: 1KiB}\naccess:")
	if diff := cmp.Diff(Reloaded{Changed: []string{}, Problems: []string{}, Later: []string{"limits.extension_bytes", "store"}, Reasons: map[string]string{"limits.extension_bytes": whySizes, "store": whyStore}}, ask()); diff != "" {
		t.Error(diff)
	}
	r.rewrite("store: memory", "log: {level: loud}")
	if got := ask(); len(got.Problems) != 1 || !strings.Contains(got.Problems[0], `log.level: is "loud"`) {
		t.Errorf("problems %q", got.Problems)
	}
}

func TestOP05ReloadIsForThisMachineOnly(t *testing.T) {
	r := start(t, "")
	for _, header := range [][]string{{"Origin", "https://example.org"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "null"}} {
		if status, _ := r.post(header...); status != http.StatusForbidden {
			t.Errorf("%q: status %d, want 403", header, status)
		}
	}
	if status, _ := r.get("/reload"); status != http.StatusMethodNotAllowed {
		t.Errorf("GET: status %d, want 405", status)
	}
}

// sync returns once the daemon has handled everything that was sent before.
func (s *session) sync(t *testing.T) {
	t.Helper()
	if _, err := rpc.Call(t.Context(), s.Session, rpc.MethodSync, nil); err != nil {
		t.Fatal(err)
	}
}

func (s *session) send(t *testing.T, profile, typ uint64, payload []byte) {
	t.Helper()
	if err := s.Send(t.Context(), e1.Envelope{ProfileID: profile, MsgType: typ, Payload: payload}); err != nil {
		t.Fatal(err)
	}
}

func published(eventType string) []byte {
	return (&events.Publish{Event: events.Record{
		EventID: []byte("id"), EventType: []byte(eventType), Severity: []byte("info"), Timestamp: 1, TaskID: []byte("t"),
	}}).Append(nil)
}

func TestEveryProfileAsksTheRules(t *testing.T) {
	t.Parallel()
	r := start(t, "access: {}\nlog: {level: debug}\n"+childYAML(t))
	s := r.mustDial(r.addrs[2])
	s.tool(t, "", "say", `{}`)
	_, _ = rpc.Call(t.Context(), s.Session, "demo.echo", nil)
	s.send(t, a2a.ProfileID, a2a.TypeHandshake, (&a2a.HandshakeBody{AgentID: []byte("someone")}).Append(nil))
	s.send(t, events.ProfileID, events.TypePublish, published("orders.new"))
	_, _ = agdisc.Ask(t.Context(), s.Session, "agent.demo", "")
	_, _ = tooldisc.Find(t.Context(), s.Session, "search", "")
	s.send(t, obs.ProfileID, obs.TypeSet, (&obs.Set{Fields: obs.Fields{
		Traceparent: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
	}}).Append(nil))
	task, err := s.Call(t.Context(), e1.Envelope{
		ProfileID: a2a.ProfileID, MsgType: a2a.TypeTask, Payload: (&a2a.TaskBody{TaskID: []byte("task one"), Kind: []byte("work")}).Append(nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer task.Close()
	answer, err := task.Recv(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var result a2a.ResultBody
	if err := result.Decode(answer.Payload); err != nil || result.OK {
		t.Errorf("a denied task: %+v, %v; want a Result that says so", result, err)
	}
	s.sync(t)
	for _, want := range []string{
		`"profile":"mcp","operation":"tools/call","name":"child/say"`,
		`"profile":"rpc","operation":"call","name":"demo.echo"`,
		`"profile":"a2a","operation":"handshake","name":"someone"`,
		`"profile":"a2a","operation":"task","name":"work"`,
		`"profile":"events","operation":"publish","name":"orders.new"`,
		`"profile":"obs","operation":"set","name":""`,
		`"profile":"agdisc","operation":"get","name":"agent.demo"`,
		`"profile":"tooldisc","operation":"get","name":"search"`,
	} {
		r.awaitTimes(1, `"msg":"denied","err_code":"ERR_SECURITY_POLICY","peer":"loopback",`+want)
	}
}

// What a message says of its sender counts for nothing: rules are about the
// identity that the channel authenticated.
func TestTL11IdentityIsNeverTakenFromAMessage(t *testing.T) {
	r := start(t, `access:
  rules: [{identity: 'spiffe://localhost/**'}, {identity: loopback, profile: a2a}]
  agents:
    - {identity: 'spiffe://localhost/**', agent_ids: ['edge-*']}
    - {identity: 'spiffe://partner.example/**', agent_ids: ['partner-*']}
`)
	denied := 0
	for i, address := range r.addrs {
		s := r.mustDial(address)
		for _, id := range []string{
			"partner-one", "spiffe://partner.example/agents/one", "spiffe://localhost/swpd", "edge-*/x", "*", "edge-\x00/", "loopback",
		} {
			s.claim(t, id)
			denied++
		}
		// Nobody is an agent unless an entry says so, however much the rules allow.
		s.claim(t, "edge-1")
		if i == 2 { // plaintext
			denied++
		}
		r.counts(`swpd_denials_total{profile="a2a"}`, strconv.Itoa(denied))
		// The same names in a place that looks like one for an identity.
		params := []byte(`{"identity":"spiffe://localhost/swpd","peer":"spiffe://localhost/swpd","from":"spiffe://localhost/swpd"}`)
		if got, err := rpc.Call(t.Context(), s.Session, rpc.MethodInfo, params); err != nil || strings.Contains(string(got), "localhost") {
			t.Errorf("swp.info: %s, %v", got, err)
		}
	}
}

// claim says that the peer is an agent, and returns once that was heard.
func (s *session) claim(t *testing.T, agentID string) {
	t.Helper()
	lane, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lane.Close() }()
	body := a2a.HandshakeBody{AgentID: []byte(agentID), Capabilities: [][]byte{[]byte("work")}}
	if err := lane.Send(t.Context(), e1.Envelope{ProfileID: a2a.ProfileID, MsgType: a2a.TypeHandshake, Payload: body.Append(nil)}); err != nil {
		t.Fatal(err)
	}
	// Refused, it takes its stream with it on QUIC, and so this call.
	_, _ = rpc.Call(t.Context(), lane, rpc.MethodSync, nil)
}
