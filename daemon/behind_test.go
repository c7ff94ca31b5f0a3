package daemon

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/rpc"
)

// behind returns the record of a thing.
func (r *running) behind(kind, name string) Behind {
	r.t.Helper()
	var s Status
	_, body := r.get("/status")
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		r.t.Fatal(err)
	}
	i := slices.IndexFunc(s.Behind, func(b Behind) bool { return string(b.Kind) == kind && b.Name == name })
	if i < 0 {
		r.t.Fatalf("no record of %s %s: %s", kind, name, body)
	}
	return s.Behind[i]
}

// becomes waits for the state of a thing, and returns its record.
func (r *running) becomes(kind, name, state string) (b Behind) {
	r.t.Helper()
	r.eventually(kind+" "+name+" is "+state, func() bool {
		b = r.behind(kind, name)
		return string(b.State) == state
	})
	return b
}

// exits is a server that says why it ends, unless a file exists; then it is childMain.
func exits(t *testing.T, file, more string) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("mcp: {servers: {broken: {command: sh, args: [-c, 'test -e %s && exec %s; echo starting >&2; echo token=hunter2 >&2; echo \"FATAL: API_KEY is not set\" >&2; exit 1'], env: {%s: '1'}%s}}}\n",
		file, self, childEnv, more)
}

func TestAServerThatEndsAtItsStartIsFailingAtOnceAndAfterARestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "works")
	r := start(t, exits(t, file, ""))
	if b := r.behind("server", "broken"); b.State != "untried" {
		t.Errorf("before a call %+v", b)
	}
	call := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	if got := string(r.mustDial(r.addrs[0]).do(t, "", call).Octets); !strings.Contains(got, "error") {
		t.Fatalf("a server that ends answers %s", got)
	}
	b := r.behind("server", "broken")
	if b.State != "failing" || b.Failures != 1 || b.LastError == nil || b.Remedy == "" {
		t.Fatalf("%+v", b)
	}
	if want := []string{"starting", "token=[masked]", "FATAL: API_KEY is not set"}; b.LastError.Text != "its process ended: exit status 1" || !slices.Equal(b.LastError.Output, want) {
		t.Errorf("%+v", b.LastError)
	}
	for series, want := range map[string]string{
		`swpd_behind{kind="server",name="broken",state="failing"}`: "1", `swpd_behind{kind="server",name="broken",state="ok"}`: "0",
		`swpd_behind_failures_total{kind="server",name="broken"}`: "1", `swpd_mcp_child_failures_total{server="broken"}`: "1",
	} {
		if got := r.metric(series); got != want {
			t.Errorf("%s is %q, want %s", series, got, want)
		}
	}
	if _, ready := r.get("/readyz"); !strings.Contains(ready, "warning: mcp server broken: its process ended\n") {
		t.Errorf("readiness says %s", ready)
	}
	if got := r.warned(); !strings.Contains(got, "mcp server broken: its process ended: exit status 1: FATAL: API_KEY is not set") {
		t.Errorf("warnings %s", got)
	}
	r.await("mcp server is failing")
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if log := r.log.String(); strings.Contains(log, "hunter2") || !strings.Contains(log, `"said":"FATAL: API_KEY is not set"`) {
		t.Errorf("the log says %s", log)
	}

	r = startIn(t, r.dir, exits(t, file, ""))
	after := r.behind("server", "broken")
	if after.State != b.State || !after.Since.Equal(b.Since) || after.Failures != 1 || after.LastError == nil || after.LastError.Text != b.LastError.Text {
		t.Errorf("after a restart %+v, want %+v", after, b)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := r.mustDial(r.addrs[0])
	r.eventually("an answer", func() bool { return strings.Contains(string(s.do(t, "", call).Octets), `"result"`) })
	if b := r.becomes("server", "broken", "ok"); b.LastSuccess.IsZero() || b.Remedy != "" {
		t.Errorf("%+v", b)
	}
	r.await("mcp server works again")
	if got := r.warned(); strings.Contains(got, "broken") {
		t.Errorf("warnings %s", got)
	}
}

// Nobody calls them.
func TestThingsAreAskedAtTheStart(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := "http://" + ln.Addr().String()
	_ = ln.Close()
	var tools atomic.Int32
	legacy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct{ ID, Method json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&m)
		if strings.Contains(string(m.Method), "tools") {
			tools.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
	}))
	t.Cleanup(legacy.Close)
	r := start(t, strings.Replace(exits(t, filepath.Join(t.TempDir(), "none"), ", probe: true"), "{servers: {", fmt.Sprintf("{servers: {gone: {url: '%s'}, here: {url: '%s'}, still: {command: 'false'}, ", away, legacy.URL), 1)+
		fmt.Sprintf("rpc: {backends: {desk: {url: '%s', methods: desk.ask}, open: {url: '%s', methods: open.ask}}}\n", away, legacy.URL)+
		fmt.Sprintf("a2a: {agents: {far: {url: '%s'}}, workers: {one: {url: '%s', kinds: [k]}, two: {command: 'true', kinds: [l]}}}\n", away, away))
	for _, want := range [][3]string{
		{"server", "gone", "failing"}, {"server", "here", "ok"}, {"server", "broken", "failing"}, {"backend", "desk", "failing"}, {"backend", "open", "ok"},
		{"agent", "far", "failing"}, {"worker", "one", "failing"},
	} {
		if b := r.becomes(want[0], want[1], want[2]); want[2] == "failing" && (b.LastError == nil || b.Remedy == "") {
			t.Errorf("%+v", b)
		}
	}
	for _, want := range [][2]string{{"server", "still"}, {"worker", "two"}} {
		if b := r.behind(want[0], want[1]); b.State != "untried" {
			t.Errorf("a command without probe: %+v", b)
		}
	}
	if got := r.metric(`swpd_mcp_child_starts_total{server="still"}`); got != "0" {
		t.Errorf("a process was started to ask a command: %s", got)
	}
	if tools.Load() > 0 {
		t.Error("tools were asked for")
	}
}

func TestPartnersCertificatesAndTheStoreHaveRecords(t *testing.T) {
	t.Parallel()
	r := start(t, "partners: {acme: {identity: 'spiffe://acme.example/swpd', trust: [pki/ca.crt], addresses: ['swp+tls://127.0.0.1:1']}, idle: {identity: 'spiffe://idle.example/swpd', trust: [pki/ca.crt], state: suspended}}\naudit: {exchanges: all}\n")
	if b := r.becomes("partner", "acme", "away"); b.LastError == nil || !strings.Contains(b.LastError.Text, "refused") || b.Remedy == "" {
		t.Errorf("%+v", b)
	}
	if b := r.becomes("partner", "idle", "suspended"); !strings.Contains(b.Remedy, "swpd partner resume idle") {
		t.Errorf("%+v", b)
	}
	r.becomes("store", "store", "ok")
	r.becomes("store", "audit trail", "ok")
	r.becomes("certificate", filepath.Join(r.dir, "pki", "server.crt"), "ok")
}

func TestAWorkerAndABackendFailUntilTheyWork(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	down.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	r := start(t, fmt.Sprintf("rpc: {backends: {desk: {url: '%s', methods: desk.ask}}}\n", server.URL)+
		workerYAML(`test $SWP_TASK_KIND = k && exit; echo "password: hunter2" >&2; echo "no such kind" >&2; exit 3`, ""))
	s := r.mustDial(r.addrs[0])
	r.becomes("backend", "desk", "ok") // it accepts connections
	_, _ = rpc.Call(t.Context(), s.Session, "desk.ask", nil)
	if b := r.becomes("backend", "desk", "failing"); !strings.Contains(b.LastError.Text, "500") {
		t.Errorf("%+v", b.LastError)
	}
	down.Store(false)
	if _, err := rpc.Call(t.Context(), s.Session, "desk.ask", nil); err != nil {
		t.Fatal(err)
	}
	r.becomes("backend", "desk", "ok")

	s.hand(t, &a2a.Task{Kind: "k2"}, a2a.SendOptions{})
	b := r.becomes("worker", "one", "failing")
	if want := []string{"password: [masked]", "no such kind"}; !slices.Equal(b.LastError.Output, want) || b.LastError.Text != "a task failed: no such kind" {
		t.Errorf("%+v", b.LastError)
	}
	s.hand(t, &a2a.Task{Kind: "k"}, a2a.SendOptions{})
	r.becomes("worker", "one", "ok")
}
