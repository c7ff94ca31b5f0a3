package conformance_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/conformance"
)

func TestReportAddsUp(t *testing.T) {
	good := conformance.Result{VectorID: "a", Pass: true}
	bad := conformance.Result{VectorID: "b", Detail: "outcome mismatch: expected=accept observed=reject"}
	r := conformance.NewReport(conformance.RunInfo{Pattern: "x"}, []conformance.Result{good, bad, good})
	if r.SchemaVersion != 1 || r.Total != 3 || r.Passed != 2 || r.Failed != 1 || r.FallbackCount != 0 {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]conformance.Result{bad}, r.Failures); diff != "" {
		t.Error(diff)
	}
	if got, want := r.Summary(), "summary: passed=2 failed=1 total=3 fallback=0"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReportHasTheFormOfSchemaOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "not", "there", "yet.json")
	at := time.Date(2026, 11, 21, 6, 7, 8, 9, time.FixedZone("", 3600))
	reject := conformance.Result{
		VectorID: "core_0003", Path: "p<q>", Pass: true, Expected: "reject", Observed: "reject",
		ExpectedCode: "INVALID_FRAME", ObservedCode: "INVALID_FRAME", ExpectedErrorCode: "ERR_INVALID_FRAME", ObservedErrorCode: "ERR_INVALID_FRAME",
	}
	r := conformance.NewReport(conformance.RunInfo{Pattern: "a,b", NoFallback: true, TimestampUTC: conformance.Timestamp(at), RunnerGitSHA: "nogit"}, []conformance.Result{reject})
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "schema_version": 1,
  "run": {
    "pattern": "a,b",
    "no_fallback": true,
    "timestamp_utc": "2026-11-21T05:07:08Z",
    "runner_git_sha": "nogit"
  },
  "total": 1,
  "passed": 1,
  "failed": 0,
  "fallback_count": 0,
  "results": [
    {
      "vector_id": "core_0003",
      "path": "p<q>",
      "pass": true,
      "expected": "reject",
      "observed": "reject",
      "expected_code": "INVALID_FRAME",
      "observed_code": "INVALID_FRAME",
      "expected_error_code": "ERR_INVALID_FRAME",
      "observed_error_code": "ERR_INVALID_FRAME",
      "used_fallback": false
    }
  ]
}
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o600 != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestReportOfNothingHasAnEmptyList(t *testing.T) {
	text, err := json.Marshal(conformance.NewReport(conformance.RunInfo{}, []conformance.Result{}))
	if err != nil || !strings.Contains(string(text), `"results":[]`) || strings.Contains(string(text), "failures") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestReportThatCannotBeWrittenIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := conformance.NewReport(conformance.RunInfo{}, nil).Write(filepath.Join(file, "x.json")); err == nil {
		t.Error("written below a file")
	}
}

// A run is dirty where files are changed or new, and not where git ignores them.
func TestDirtyIsAWorkingDirectoryThatNoCommitHas(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		args = append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"}, args...)
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	write("a.txt", "1")
	write(".gitignore", "ignored\n")
	git("add", ".")
	git("commit", "-qm", "first")
	write("ignored", "x")
	if conformance.Dirty(t.Context()) {
		t.Error("a clean directory is dirty")
	}
	for name, text := range map[string]string{"a.txt": "2", "b.txt": "new"} {
		write(name, text)
		if !conformance.Dirty(t.Context()) {
			t.Errorf("%s: not dirty", name)
		}
		git("add", ".")
		git("commit", "-qm", "next")
	}
}
