package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// whole says that the gate runs; `make gate` sets it.
func whole() bool { return os.Getenv("SWP_GATE") != "" }

// conformance is a conformance suite of MCP as the gate runs it.
type conformance struct {
	version string // of the npm package
	name    string // of the run
	server  string // of the everything-server
	args    []string
}

// suites are all scenarios of both suites, each against a server of its revision.
var suites = []conformance{
	{"0.1.16", "2025-11-25", "legacy", []string{"--suite", "all"}},
	{"0.2.0-alpha.12", "2025-11-25", "legacy", []string{"--requirements", "2025-11-25"}},
	{"0.2.0-alpha.12", "2026-07-28", "modern", []string{"--requirements", "2026-07-28"}},
	{"0.2.0-alpha.12", "2026-07-28", "modern", []string{"--scenario", "sep-2640-skills-directory"}}, // required by no revision
	{"0.2.0-alpha.12", "2026-07-28", "modern", []string{"--scenario", "sep-2640-skills-enumeration"}},
	{"0.2.0-alpha.12", "2026-07-28", "modern", []string{"--scenario", "sep-2640-skills-manifest"}},
}

// stamp ends the name of the directory of each scenario.
var stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// run runs the suite against a server, and returns its verdicts: the statuses of each check of each
// scenario.
func (c *conformance) run(t *testing.T, url string) map[string]string {
	t.Helper()
	dir, prefix := t.TempDir(), os.Getenv("SWP_GATE")
	script := filepath.Join(prefix, c.version, "node_modules/@modelcontextprotocol/conformance/dist/index.js")
	cmd := exec.CommandContext(within(t), filepath.Join(prefix, "node_modules/.bin/node"), append([]string{script, "server", "--url", url, "-o", dir}, c.args...)...)
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed { //nolint:errorlint // it fails when a check does
		t.Fatal(err)
	}
	scenarios, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil || len(scenarios) == 0 {
		t.Fatalf("the suite has left no report (%v):\n%s", err, out)
	}
	verdicts := make(map[string]string)
	for _, file := range scenarios {
		octets, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var checks []struct{ ID, Status string }
		if err := json.Unmarshal(octets, &checks); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		scenario := strings.TrimPrefix(stamp.ReplaceAllString(filepath.Base(filepath.Dir(file)), ""), "server-")
		verdicts[scenario] = fmt.Sprint(len(checks), " checks")
		for _, c := range checks {
			name := scenario + ", " + c.ID
			verdicts[name] = strings.TrimPrefix(verdicts[name]+" "+c.Status, " ")
		}
	}
	return verdicts
}

// freePort returns a port that nobody listened on a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

// everything runs the everything-server of the official Go SDK over HTTP until the
// test ends, and returns its URL.
func everything(t *testing.T, bin string, args ...string) string {
	t.Helper()
	address := "127.0.0.1:" + freePort(t)
	cmd := exec.Command(bin, append([]string{"-http", address}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return "http://" + address
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// buildEverything builds that server, in the version that this module uses.
func buildEverything(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "everything-server")
	out, err := exec.Command("go", "build", "-o", bin, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

// behind is two organisations: MCP servers behind the swpd of one, an HTTP front at
// the swpd of the other. It returns the URL of the front.
func behind(t *testing.T, transport, servers string) string {
	t.Helper()
	return joined(t, transport, servers).http
}

// joined is the same, and returns the swpd that has the front.
func joined(t *testing.T, transport, servers string) *node {
	t.Helper()
	far := prepared(t, "--name", "spiffe://far.example/swpd")
	near := prepared(t, "--name", "spiffe://near.example/swpd")
	trust := func(n *node) string { return fmt.Sprintf("trust: [%q]", filepath.Join(n.dir, "pki", "ca.crt")) }
	far.more = servers + "partners:\n  near: {identity: spiffe://near.example/swpd, " + trust(near) + "}\n"
	far.untilEnd(t)
	near.more = fmt.Sprintf("partners:\n  far: {identity: spiffe://far.example/swpd, %s, addresses: [%q]}\n", trust(far), far.transports()[transport]) +
		"http: {address: '127.0.0.1:0', anonymous: suite}\n"
	near.untilEnd(t)
	return near
}

// The gate: programs of others see no difference between a server or an agent and the same behind
// swpd, but those of testdata/gate.txt. Everything goes through the same endpoints, before and after
// their sessions have met their bounds.
func TestGate(t *testing.T) {
	if !whole() {
		t.Skip("needs the conformance suites of MCP: make gate")
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the SDK tells there of each error
	bin := buildEverything(t)
	servers := map[string]string{"legacy": everything(t, bin, "-stateless=false"), "modern": everything(t, bin)}
	o := &obedient{held: make(map[sdk.TaskID]chan struct{})}
	c := chained(t, serveAble(t, o), fmt.Sprintf("mcp:\n  servers:\n    legacy: {url: %q}\n    modern: {url: %q}\n", servers["legacy"], servers["modern"]))
	reasons := readExpected(t)
	var ways []string
	for _, way := range c.ways() {
		ways = append(ways, way+"-jsonrpc", way+"-rest")
	}
	for _, round := range []string{"first", "again, after sessions up to their bounds"} {
		t.Run(round, func(t *testing.T) {
			began := time.Now()
			o.compare(t, c, reasons, ways...)
			t.Logf("the table of A2A at %d ways: %v", len(ways), time.Since(began))
			for _, suite := range suites {
				began := time.Now()
				directly := suite.run(t, servers[suite.server])
				for _, way := range c.ways() {
					url, prefix := c.front(way)
					reasons.compare(t, "mcp/"+suite.version+"/"+suite.name+"/"+way, directly, suite.run(t, url+"/mcp/"+prefix+suite.server))
				}
				t.Logf("suite %s, %s: %d verdicts at %d ways: %v", suite.version, suite.name, len(directly), len(c.ways()), time.Since(began))
			}
			for _, way := range c.ways() {
				url, prefix := c.front(way)
				reasons.compare(t, "mcp/sessions/"+strings.Split(round, ",")[0]+"/"+way, abandon(t, servers["legacy"]), abandon(t, url+"/mcp/"+prefix+"legacy"))
			}
		})
	}
	reasons.unused(t, "a2a/", "mcp/")
}

// abandon begins more sessions than each caller may have, as clients do that end without a word.
// The outcome says whether all were served.
func abandon(t *testing.T, url string) map[string]string {
	t.Helper()
	const each = 66 // a caller may have 64
	outcome := "all are served"
	for i := range callers {
		for n := range each {
			if got := session(t, url, token(i)); got != "200 200" {
				t.Logf("%s: session %d of caller %d: %s", url, n+1, i+1, got)
				outcome = "some are refused"
				break
			}
		}
	}
	return map[string]string{fmt.Sprint(callers*each, " sessions without an end"): outcome}
}

// session begins a session and lists the tools of its server, and returns the statuses.
func session(t *testing.T, url, token string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id := ""
	post := func(body string) (status int) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + token},
			"Mcp-Protocol-Version": {"2025-11-25"},
		}
		if id != "" {
			r.Header.Set("Mcp-Session-Id", id)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		defer func() { _ = answer.Body.Close() }()
		_, _ = io.Copy(io.Discard, answer.Body)
		if id == "" {
			id = answer.Header.Get("Mcp-Session-Id")
		}
		return answer.StatusCode
	}
	first := post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"gate","version":"1"}}}`)
	if first != http.StatusOK {
		return fmt.Sprint(first)
	}
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return fmt.Sprint(first, " ", post(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`))
}
