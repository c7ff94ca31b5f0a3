package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// verdict is what the conformance suite of MCP says of one check.
type verdict struct{ scenario, check, status string }

func (v verdict) String() string { return v.scenario + " · " + v.check + " · " + v.status }

// pending are the scenarios that may differ: they are not scored, and hold the server
// to how it speaks to this very connection (MCP mapping §6).
var pending = []string{"server-sse-polling"}

// suiteOf is the conformance suite: `make tunnel` installs it and says where it is.
func suiteOf(t *testing.T) (node, suite string) {
	t.Helper()
	node, suite = os.Getenv("SWP_NODE"), os.Getenv("SWP_MCP_CONFORMANCE")
	if node == "" || suite == "" {
		t.Skip("needs the conformance suite of MCP: make tunnel")
	}
	return node, suite
}

// stamp ends the name of the directory of each scenario.
var stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// judged runs the suite against a server and returns its verdicts, sorted.
func judged(t *testing.T, url, requirements string) []verdict {
	t.Helper()
	node, suite := suiteOf(t)
	dir := t.TempDir()
	out, err := exec.Command(node, suite, "server", "--url", url, "--requirements", requirements, "-o", dir).CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed { //nolint:errorlint // it fails when a check does
		t.Fatal(err)
	}
	scenarios, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil || len(scenarios) == 0 {
		t.Fatalf("the suite has left no report (%v):\n%s", err, out)
	}
	var list []verdict
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
		for _, c := range checks {
			list = append(list, verdict{scenario, c.ID, c.Status})
		}
	}
	slices.SortFunc(list, func(a, b verdict) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// counted is how many verdicts have which status.
func counted(list []verdict) string {
	statuses := make(map[string]int)
	for _, v := range list {
		statuses[v.status]++
	}
	return fmt.Sprint(len(list), " checks, ", statuses)
}

// without returns what is in a and not in b, each as often as it is there more often.
func without(a, b []verdict) []verdict {
	left := slices.Clone(a)
	for _, v := range b {
		if i := slices.Index(left, v); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	return left
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

// The suite that judges MCP servers says the same of a server whether it is called
// directly, or through a front and two swpd of two organisations with SlimWire between
// them.
func TestTunnelIsTransparent(t *testing.T) {
	suiteOf(t)
	bin := buildEverything(t)
	for requirements, args := range map[string][]string{"2025-11-25": {"-stateless=false"}, "2026-07-28": nil} {
		url := everything(t, bin, args...)
		direct := judged(t, url, requirements)
		t.Logf("%s directly: %s", requirements, counted(direct))
		for _, transport := range []string{"tls", "quic"} {
			t.Run(requirements+"/"+transport, func(t *testing.T) {
				front := behind(t, transport, fmt.Sprintf("mcp: {servers: {everything: {url: %q}}}\n", url))
				tunnelled := judged(t, front+"/mcp/far/everything", requirements)
				t.Logf("through two swpd: %s", counted(tunnelled))
				for _, v := range without(direct, tunnelled) {
					differs(t, "only directly: ", v)
				}
				for _, v := range without(tunnelled, direct) {
					differs(t, "only through the tunnel: ", v)
				}
			})
		}
	}
}

func differs(t *testing.T, where string, v verdict) {
	t.Helper()
	if slices.Contains(pending, v.scenario) {
		t.Logf("%s%v (pending, not scored)", where, v)
		return
	}
	t.Errorf("%s%v", where, v)
}
