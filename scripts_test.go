package swp_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bounded runs scripts/bounded.sh on the tests of a module with two packages, of which one
// test lasts for ever and one fails, if they are selected.
func bounded(t *testing.T, time, expression string) (out string, err error) {
	t.Helper()
	for _, program := range []string{"bash", "timeout", "awk"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	script, err := filepath.Abs("scripts/bounded.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for file, text := range map[string]string{
		"go.mod":        "module example.test/bounded\n\ngo 1.24\n",
		"one/a_test.go": "package one\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestPasses(t *testing.T) {}\n\nfunc TestLasts(t *testing.T) { time.Sleep(time.Hour) }\n\nfunc TestIsNotSelected(t *testing.T) {}\n",
		"two/a_test.go": "package two\n\nimport \"testing\"\n\nfunc TestPasses(t *testing.T) {}\n\nfunc TestFails(t *testing.T) { t.Error(\"because\") }\n",
	} {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), script, time, "-count=1", "-run", expression, filepath.Join(dir, "one"), filepath.Join(dir, "two"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	said, err := cmd.CombinedOutput()
	return string(said), err
}

func TestTestsThatAreCutOffAreNamed(t *testing.T) {
	t.Parallel()
	out, err := bounded(t, "1s", "^(TestPasses|TestLasts)$")
	if err != nil {
		t.Errorf("a slow test is no failure: %v", err)
	}
	_, missing, cut := strings.Cut(out, "not finished: ")
	if !cut || strings.Contains(out, "finished: all") || !strings.Contains(missing, "./one TestLasts") {
		t.Errorf("does not name the test that was cut off:\n%s", out)
	}
}

func TestTestsThatFinishAreCounted(t *testing.T) {
	t.Parallel()
	out, err := bounded(t, "10m", "^TestPasses$")
	if err != nil || !strings.HasSuffix(out, "finished: all 2 tests\n") || strings.Contains(out, "not finished") || strings.Contains(out, "NotSelected") {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestTestsThatFailFailTheRun(t *testing.T) {
	t.Parallel()
	out, err := bounded(t, "10m", "^(TestPasses|TestFails)$")
	if err == nil || !strings.Contains(out, "because") || !strings.Contains(out, "FAIL: ./two TestFails") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// The Makefile has the targets of the public spec kit, and the commands of its demonstrations
// are on its ports.
func TestTargetsOfTheKitAreThere(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip(err)
	}
	for target, want := range map[string]string{
		"vectors": "spec-vector-runner", "spec-vectors": "spec-vector-runner", "vectors-strict": "-no-fallback", "vectors-core": "core_*.json",
		"vectors-relay-strict": "relay_*.json", "conformance-core": "core.strict.json", "conformance-all": "all.strict.json",
		"conformance-summary": "runner_git_sha", "conformance-pack": "swp-conformance-bundle.tar.gz", "build": "./cmd/", "test": "go test", "test-race": "go test",
		"ci": "go test", "gen-vectors": "vectors", "gen-c1-vectors": "vectors", "gen-remaining-vectors": "vectors", "poc-vectors": "-poc",
		"run-server": "swpd run", "run-client": "swp+tls://127.0.0.1:7777", "run-gateway": "mcp http swp+tls://127.0.0.1:7777 --listen 127.0.0.1:8080",
		"mcp-curl": "http://127.0.0.1:8080/mcp", "demo": "demo.sh", "clean": "rm -rf", "clean-artifacts": "rm -rf",
	} {
		cmd := exec.CommandContext(t.Context(), "make", "-n", target)
		cmd.Env = append(os.Environ(), "MAKEFLAGS=")
		said, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(said), want) {
			t.Errorf("make %s: %v, want it to have %q:\n%.500s", target, err, want, said)
		}
	}
}

func TestPackagesOverTheirBudgetAreNamed(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "awk"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	const prefix = "\tgithub.com/slimwire/swp/"
	in := "ok  " + prefix + "e1\t60.0s\nok  " + prefix + "frame\t(cached)\n?   " + prefix + "sdk\t[no test files]\n" +
		"ok  " + prefix + "client\t60.1s\nok  " + prefix + "daemon\t200.0s\nFAIL" + prefix + "slip\t99.0s\n"
	cmd := exec.CommandContext(t.Context(), "scripts/budget.sh")
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if want := in + "over its budget: client took 60 s of 60 s\nover its budget: slip took 99 s of 60 s\n"; err != nil || string(out) != want {
		t.Errorf("%v:\n%swant\n%s", err, out, want)
	}
}
