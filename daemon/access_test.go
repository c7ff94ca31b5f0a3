package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/rpc"
)

// rewrite replaces text in the configuration of a daemon.
func (r *running) rewrite(from, to string) {
	r.t.Helper()
	file := filepath.Join(r.dir, "swpd.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		r.t.Fatalf("the configuration has no %q", from)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// reloaded has the daemon read its files again and waits until it has.
func (r *running) reloaded() {
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
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
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
	r.await(`"class":"security","msg":"denied","err_code":"ERR_SECURITY_POLICY","peer":"spiffe://localhost/swp-client","profile":"mcp","operation":"tools/call","name":"child/exit`)
	if n := strings.Count(r.log.String(), `"msg":"denied"`); n != 1 {
		t.Errorf("%d audit events, want 1", n)
	}
	if got := r.metric(`swpd_denials_total{profile="mcp"}`); got != "1" {
		t.Errorf("swpd_denials_total %q, want 1", got)
	}
	if got := r.metric(`swpd_rejects_total{code="ERR_SECURITY_POLICY",detail="access",profile="mcp"}`); got != "1" {
		t.Errorf("swpd_rejects_total %q, want 1", got)
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
	r := start(t, "")
	var gone []*session
	for _, address := range r.addrs {
		gone = append(gone, r.mustDial(address))
	}
	changed := time.Now()
	r.rewrite("access: {", "access: {deny: ['spiffe://localhost/swp-*', loopback], ") // found without a signal
	for i, s := range gone {
		select {
		case <-s.Context().Done():
		case <-time.After(time.Until(changed.Add(5 * time.Second))):
			t.Errorf("%s: a denied peer is still connected after 5 s", r.addrs[i])
		}
	}
	for _, address := range r.addrs {
		if s, err := r.dial(address); err == nil && echo(t, s) == nil {
			t.Errorf("%s: a denied peer was let in", address)
		}
	}
	if n := strings.Count(r.log.String(), `"class":"security","msg":"security event","err_code":"ERR_SECURITY_POLICY","reason":"denied"`); n != 6 {
		t.Errorf("%d security events, want one for each connection closed and refused, 6", n)
	}
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
	r := start(t, onlySay)
	r.rewrite("operation:", "operations:")
	r.reloaded()
	status, body := r.get("/readyz")
	if status != 200 || !strings.Contains(body, "warning: access rules not reloaded, the old ones stay in force: ") || !strings.Contains(body, "did you mean operation?") {
		t.Errorf("/readyz says %d %q", status, body)
	}
	r.mustDial(r.addrs[0])
	r.rewrite("operations:", "operation:") // found without a signal
	r.await(`"msg":"access rules reloaded"`)
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
	if diff := cmp.Diff(Reloaded{Problems: []string{}, Later: []string{}}, ask()); diff != "" {
		t.Error(diff)
	}
	r.rewrite("access:", "log: {level: debug}\nquota: {total: 2GiB}\naccess:")
	if diff := cmp.Diff(Reloaded{Problems: []string{}, Later: []string{"quota", "log"}}, ask()); diff != "" {
		t.Error(diff)
	}
	r.rewrite("level: debug", "level: loud")
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

func TestChangesThatNeedARestartAreNamed(t *testing.T) {
	a, b := config.Default(), config.Default()
	b.Access, b.Source = config.Everything("**"), "x"
	if got := laterKeys(a, b); len(got) != 0 {
		t.Errorf("keys %q, want none: access rules take effect at once", got)
	}
	b.Admin, b.Limits.Idle = "off", time.Second
	if diff := cmp.Diff([]string{"admin", "limits"}, laterKeys(a, b)); diff != "" {
		t.Error(diff)
	}
}
