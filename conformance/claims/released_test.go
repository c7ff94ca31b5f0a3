package claims

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/conformance"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/claimed"
	"github.com/slimwire/swp/internal/effort"
)

// What the programs, the README and swp.info state is what a run of all vectors allows.
func TestTheStatedClassesAreThoseOfARun(t *testing.T) {
	effort.Release(t)
	var paths []string
	for _, ns := range conformance.Namespaces() {
		found, err := filepath.Glob("../../vectors/" + ns.Name + "_*.json")
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	report := func(strict bool) *conformance.Report {
		info := conformance.RunInfo{NoFallback: strict, RunnerGitSHA: "abc", TimestampUTC: "2026-11-21T00:00:00Z"}
		return conformance.NewReport(info, conformance.Run(t.Context(), conformance.Local{}, paths, func(conformance.Result) {}))
	}
	d := made(t, Input{
		Default: report(false), Strict: report(true), Config: config.Default(), Matrix: published(t),
		Build: Build{Version: "v", GitSHA: "abc", GoVersion: "go", Platform: "os/arch"}, Commands: []string{"run"},
	})
	var classes []string
	for _, c := range d.Classes {
		classes = append(classes, c.Claim)
	}
	if !slices.Equal(classes, claimed.Classes()) {
		t.Errorf("a run allows %q, internal/claimed/classes.txt has %q", classes, claimed.Classes())
	}
}

func TestTheReadmeStatesTheClaimedClasses(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "Claimed: " + strings.Join(claimed.Classes(), ", ") + "."; !strings.Contains(string(text), want) {
		t.Errorf("README.md does not say %q", want)
	}
}
