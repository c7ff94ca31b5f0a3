package conformance_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/conformance"
)

func threeResults() *conformance.Report {
	return conformance.NewReport(conformance.RunInfo{Pattern: "p", RunnerGitSHA: "nogit"}, []conformance.Result{
		{VectorID: "core_0001_a", Pass: true}, {VectorID: "core_0002_b", Detail: "why"}, {VectorID: "core_0003_c", Pass: true},
	})
}

func TestReportIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	if err := threeResults().Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := conformance.ReadReport(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(threeResults(), got); diff != "" {
		t.Error(diff)
	}
}

func TestReportThatDoesNotAddUpIsRefused(t *testing.T) {
	for want, change := range map[string]func(*conformance.Report){
		"schema_version 2":          func(r *conformance.Report) { r.SchemaVersion = 2 },
		"total is 4":                func(r *conformance.Report) { r.Total++ },
		"passed is 3":               func(r *conformance.Report) { r.Passed++ },
		"failed is 0":               func(r *conformance.Report) { r.Failed-- },
		"fallback_count is 1":       func(r *conformance.Report) { r.FallbackCount++ },
		"fallback_count is 0":       func(r *conformance.Report) { r.Results[0].UsedFallback = true },
		"2 failures, want 1":        func(r *conformance.Report) { r.Failures = append(r.Failures, r.Failures[0]) },
		"0 failures, want 1":        func(r *conformance.Report) { r.Failures = []conformance.Result{} },
		"none of the results":       func(r *conformance.Report) { r.Failures[0].VectorID = "core_0004_d" },
		`"core_0001_a" is there tw`: func(r *conformance.Report) { r.Results[2].VectorID = "core_0001_a" },
	} {
		r := threeResults()
		change(r)
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := threeResults().Check(); err != nil {
		t.Error(err)
	}
}

func TestReportThatIsNoneIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	if _, err := conformance.ReadReport(path); err == nil {
		t.Error("a file that is not there was read")
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := conformance.ReadReport(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}
