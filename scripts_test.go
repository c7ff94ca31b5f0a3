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
