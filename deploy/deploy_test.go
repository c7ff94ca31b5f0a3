// Package deploy_test checks the files of this directory with the tools that will read them.
package deploy_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// tool returns the output of a tool. A machine without it skips the test.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// docs/deployment.md says how exposed the service is, as systemd-analyze judges it.
func TestUnitIsAsConfinedAsDocumented(t *testing.T) {
	out := tool(t, "systemd-analyze", "security", "--offline=true", "--no-pager", "systemd/swpd.service")
	found := regexp.MustCompile(`exposure level for swpd\.service: ([0-9.]+)`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("no exposure level in\n%s", out)
	}
	level, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../docs/deployment.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile(`systemd/swpd\.service. reports an exposure of ([0-9.]+[0-9])`).FindSubmatch(text)
	if documented == nil {
		t.Fatal("docs/deployment.md does not say the exposure level")
	}
	if most, err := strconv.ParseFloat(string(documented[1]), 64); err != nil || level > most {
		t.Errorf("the exposure level is %v, documented as %s\n%s", level, documented[1], out)
	}
}

// systemd knows every key of the units. It also says that the programs of this machine are
// elsewhere, which is no concern here.
func TestSystemdKnowsTheKeysOfTheUnits(t *testing.T) {
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	out, _ := exec.Command(path, "verify", "--man=no", "systemd/swpd.service", "systemd/swpd.socket").CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "swpd.s") && !strings.Contains(line, "/usr/bin/swpd is not executable") {
			t.Error(strings.TrimSpace(line))
		}
	}
}

// The alerts are well-formed, fire when they should, and each has a paragraph in the runbook.
func TestAlertsFireAndHaveARunbook(t *testing.T) {
	rules, err := os.ReadFile("prometheus/swpd.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	runbook, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile("prometheus/swpd.rules.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	if len(alerts) == 0 {
		t.Fatal("no alerts")
	}
	for _, found := range alerts {
		alert := found[1]
		if !strings.Contains(string(rules), "runbook_url: docs/runbook.md#"+strings.ToLower(alert)+"\n") {
			t.Errorf("%s has no runbook_url", alert)
		}
		if !strings.Contains(string(runbook), "\n## "+alert+"\n") {
			t.Errorf("docs/runbook.md has no paragraph for %s", alert)
		}
		if !strings.Contains(string(cases), "alertname: "+alert+"\n        exp_alerts:") || !strings.Contains(string(cases), "alertname: "+alert+"}") {
			t.Errorf("no case shows when %s is raised, or when it is not", alert)
		}
	}
	if titles := strings.Count(string(runbook), "\n## "); titles != len(alerts) {
		t.Errorf("docs/runbook.md has %d paragraphs for %d alerts", titles, len(alerts))
	}
	tool(t, "promtool", "check", "rules", "prometheus/swpd.rules.yaml")
	tool(t, "promtool", "test", "rules", "prometheus/swpd.rules.test.yaml")
}
