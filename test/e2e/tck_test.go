package e2e

import (
	"encoding/xml"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// TestTCK is the gate for the TCK of A2A, by its documented command. `make tck` says where it is.
func TestTCK(t *testing.T) {
	dir := os.Getenv("SWP_TCK")
	if dir == "" {
		t.Skip("needs a copy of github.com/a2aproject/a2a-tck: make tck TCK=DIR")
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the SDK tells there of each error
	o := &obedient{held: make(map[sdk.TaskID]chan struct{})}
	c := chained(t, serveAble(t, o), "")
	reasons := readExpected(t)
	base, _ := c.agent("", "all", "jsonrpc")
	directly := tck(t, dir, base)
	t.Logf("%d tests", len(directly))
	for _, way := range c.ways() {
		for _, binding := range []string{"jsonrpc", "rest"} {
			base, _ := c.agent(way, "all", binding)
			reasons.compare(t, "tck/"+way+"-"+binding, directly, tck(t, dir, base))
		}
	}
	reasons.unused(t, "tck/")
}

// tck runs the TCK against an agent, and returns the outcome of each test.
func tck(t *testing.T, dir, base string) map[string]string {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.xml")
	cmd := exec.CommandContext(within(t), "python3", "run_tck.py", "--sut-host", base, "--transport", "jsonrpc,http_json", "--", "--junitxml="+report)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	octets, fault := os.ReadFile(report)
	if fault != nil {
		t.Fatalf("the TCK has left no report (%v):\n%s", err, out)
	}
	type mark struct{}
	var read struct {
		Cases []struct {
			Class   string `xml:"classname,attr"`
			Name    string `xml:"name,attr"`
			Failure *mark  `xml:"failure"`
			Error   *mark  `xml:"error"`
			Skipped *mark  `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(octets, &read); err != nil || len(read.Cases) == 0 {
		t.Fatalf("a report without tests (%v):\n%s", err, out)
	}
	outcomes := make(map[string]string)
	for _, c := range read.Cases {
		outcome := "passed"
		switch {
		case c.Failure != nil:
			outcome = "failed"
		case c.Error != nil:
			outcome = "error"
		case c.Skipped != nil:
			outcome = "skipped"
		}
		name := c.Class + " " + c.Name
		outcomes[name] = strings.TrimPrefix(outcomes[name]+" "+outcome, " ")
	}
	return outcomes
}
