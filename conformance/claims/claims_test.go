package claims

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/conformance"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/all"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// perfect is what two runs of a complete and correct implementation report.
func perfect(t *testing.T) Input {
	t.Helper()
	report := func(strict bool) *conformance.Report {
		var results []conformance.Result
		for _, ns := range conformance.Namespaces() {
			for i := range ns.Vectors {
				results = append(results, conformance.Result{
					VectorID: fmt.Sprintf("%s_%04d_case", ns.Name, i+1), Pass: true, Expected: "reject", Observed: "reject",
					ExpectedCode: "NOT_FOUND", ObservedCode: "NOT_FOUND", ExpectedErrorCode: "ERR_NOT_FOUND", ObservedErrorCode: "ERR_NOT_FOUND",
				})
			}
		}
		return conformance.NewReport(conformance.RunInfo{NoFallback: strict, RunnerGitSHA: "abc", TimestampUTC: "2026-11-21T00:00:00Z"}, results)
	}
	return Input{
		Default: report(false), Strict: report(true), Config: config.Default(), Matrix: published(t),
		Build: Build{Version: "v", GitSHA: "abc", GoVersion: "go", Platform: "os/arch"}, Commands: []string{"run"},
	}
}

// change edits one result of a report and sums it up again.
func change(r *conformance.Report, id string, edit func(*conformance.Result)) *conformance.Report {
	results := slices.Clone(r.Results)
	i := slices.IndexFunc(results, func(one conformance.Result) bool { return strings.HasPrefix(one.VectorID, id) })
	edit(&results[i])
	return conformance.NewReport(r.Run, results)
}

func without(r *conformance.Report, id string) *conformance.Report {
	return conformance.NewReport(r.Run, slices.DeleteFunc(slices.Clone(r.Results), func(one conformance.Result) bool {
		return strings.HasPrefix(one.VectorID, id)
	}))
}

func made(t *testing.T, in Input) *Document {
	t.Helper()
	d, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// claimed are the names of everything that a document claims.
func (d *Document) claimed() (names []string) {
	for _, c := range slices.Concat(d.Classes, d.Others) {
		names = append(names, c.Claim)
	}
	for _, p := range d.Profiles {
		if len(p.Evidence) == 0 {
			names = append(names, "without evidence:")
		}
		names = append(names, "profile "+p.Name)
	}
	return names
}

// why returns the reasons for which something is refused.
func (d *Document) why(claim string) string {
	for _, r := range d.Refused {
		if r.Claim == claim {
			return strings.Join(r.Reasons, "\n")
		}
	}
	return ""
}

// unserved are the namespaces of profiles that this implementation lacks.
func unserved(t *testing.T) (names []string) {
	t.Helper()
	set, err := all.New(all.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	for _, ns := range conformance.Namespaces()[len(foundation):] {
		served := false
		for _, p := range set.Registry.All() {
			served = served || p.Name == ns.Name
		}
		if !served {
			names = append(names, ns.Name)
		}
	}
	return names
}

// With everything shown, what is served is claimed, and nothing else is missing:
// not a version, and not a value that has to be documented.
func TestWhatIsShownIsClaimed(t *testing.T) {
	d := made(t, perfect(t))
	want := []string{"Core", "S1", "P1-based", "Federation-ready"}
	lacking := unserved(t)
	for _, c := range conformance.Classes() {
		if !slices.ContainsFunc(c.Namespaces, func(ns string) bool { return slices.Contains(lacking, ns) }) {
			want = append(want, "SWP "+c.Name)
		}
	}
	for _, ns := range conformance.Namespaces()[len(foundation):] {
		if !slices.Contains(lacking, ns.Name) {
			want = append(want, "profile "+ns.Name)
		}
	}
	got := d.claimed()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("claimed %q\nwant %q\nrefused %+v", got, want, d.Refused)
	}
	if len(lacking) == 0 && len(d.Refused) != 0 {
		t.Errorf("refused %+v", d.Refused)
	}
	for _, c := range d.Classes {
		if c.Claim == "SWP C3" && c.Vectors != 65 {
			t.Errorf("C3 with %d vectors", c.Vectors)
		}
	}
}

// One fault in one vector, and neither its namespace nor any class above is
// claimed.
func TestClaimsAreRefusedWithTheirReason(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Input)
		reason string
	}{
		"failed in both": {func(in *Input) {
			fail := func(r *conformance.Result) { r.Pass, r.Observed, r.Detail = false, "accept", "outcome mismatch" }
			in.Default, in.Strict = change(in.Default, "a2a_0003", fail), change(in.Strict, "a2a_0003", fail)
		}, "a2a_0003_case: failed in the strict run: outcome mismatch"},
		"failed in default": {func(in *Input) {
			in.Default = change(in.Default, "a2a_0003", func(r *conformance.Result) { r.Pass, r.Detail = false, "not run: x" })
		}, "a2a_0003_case: failed in the default run: not run: x"},
		"missing in both": {func(in *Input) {
			in.Default, in.Strict = without(in.Default, "a2a_0003"), without(in.Strict, "a2a_0003")
		}, "a2a: 14 vectors in the strict run, the catalogue has 15"},
		"missing in strict": {func(in *Input) { in.Strict = without(in.Strict, "a2a_0003") }, "a2a_0003_case: only in the default run"},
		"in strict only":    {func(in *Input) { in.Default = without(in.Default, "a2a_0003") }, "a2a_0003_case: only in the strict run"},
		"one too many": {func(in *Input) {
			more := func(r *conformance.Report) *conformance.Report {
				return conformance.NewReport(r.Run, append(slices.Clone(r.Results), conformance.Result{VectorID: "a2a_0016_new", Pass: true}))
			}
			in.Default, in.Strict = more(in.Default), more(in.Strict)
		}, "a2a: 16 vectors in the default run, the catalogue has 15"},
		"fallback": {func(in *Input) {
			in.Default = change(in.Default, "a2a_0003", func(r *conformance.Result) { r.UsedFallback = true })
		}, "a2a_0003_case: passed by fallback in the default run"},
		"the runs disagree": {func(in *Input) {
			in.Strict = change(in.Strict, "a2a_0003", func(r *conformance.Result) { r.ObservedCode = "OK" })
		}, "a2a_0003_case: default and strict disagree"},
		"no published version": {func(in *Input) {
			in.Matrix = slices.DeleteFunc(slices.Clone(in.Matrix), func(v Version) bool { return v.Domain == "profile 2" })
		}, "a2a: profile 2 is not in the support matrix"},
	} {
		t.Run(name, func(t *testing.T) {
			in := perfect(t)
			tt.change(&in)
			d := made(t, in)
			for _, claim := range []string{"SWP C2", "profile a2a"} {
				if got := d.why(claim); !strings.Contains(got, tt.reason) {
					t.Errorf("%s: %q, want %q", claim, got, tt.reason)
				}
			}
			for _, claim := range []string{"SWP C3", "SWP C4", "SWP C5"} {
				if got := d.why(claim); !strings.Contains(got, "SWP C2, a lower class, is not claimed") {
					t.Errorf("%s: %q", claim, got)
				}
			}
			got := d.claimed()
			for _, claim := range []string{"SWP C0", "SWP C1", "profile rpc", "Core", "S1", "Federation-ready"} {
				if !slices.Contains(got, claim) {
					t.Errorf("%s is not claimed: %s", claim, d.why(claim))
				}
			}
			if text := string(d.Markdown()); !strings.Contains(text, "Not claimed") || !strings.Contains(text, tt.reason) {
				t.Error(text)
			}
		})
	}
}

// What is wrong with a run as a whole leaves nothing to claim.
func TestRunsThatProveNothingClaimNothing(t *testing.T) {
	for reason, change := range map[string]func(*Input){
		"the strict run was not strict": func(in *Input) { in.Strict.Run.NoFallback = false },
		"the default run was strict":    func(in *Input) { in.Default.Run.NoFallback = true },
		"the runs are of two commits":   func(in *Input) { in.Default.Run.RunnerGitSHA = "abd" },
		`the strict run is of commit "abc", the build of "abd"`: func(in *Input) {
			in.Build.GitSHA = "abd"
		},
		"a tree with changes that commit abc does not have": func(in *Input) { in.Strict.Run.Dirty = true },
		"the build are of a tree with changes":              func(in *Input) { in.Build.Dirty = true },
		// As conformance.sh writes it where a run left nothing.
		"the catalogue has 33": func(in *Input) { in.Strict = &conformance.Report{SchemaVersion: 1} },
	} {
		in := perfect(t)
		change(&in)
		d := made(t, in)
		if got := d.claimed(); len(got) != 0 || !strings.Contains(d.why("SWP C0"), reason) || d.Statement() != "no class is claimed" {
			t.Errorf("%s: claimed %q, C0 refused for %q", reason, got, d.why("SWP C0"))
		}
	}
}

// The first vectors of a profile that is not there yet.
func TestNamespaceThatIsNotThereKeepsItsClassOnly(t *testing.T) {
	in := perfect(t)
	in.Default, in.Strict = without(in.Default, "relay_"), without(in.Strict, "relay_")
	d := made(t, in)
	if got := d.why("SWP C5"); !strings.Contains(got, "relay: 0 vectors in the strict run, the catalogue has 6") {
		t.Errorf("%q", got)
	}
	if got := d.claimed(); !slices.Contains(got, "SWP C4") || slices.Contains(got, "profile relay") {
		t.Errorf("%q", got)
	}
}

func TestBrokenCoreLeavesNoFederation(t *testing.T) {
	in := perfect(t)
	fail := func(r *conformance.Result) { r.Pass = false }
	in.Default, in.Strict = change(in.Default, "core_0001", fail), change(in.Strict, "core_0001", fail)
	d := made(t, in)
	if got := d.why("Federation-ready"); got != "Core is not claimed" {
		t.Errorf("%q", got)
	}
	if len(d.Classes) != 0 || d.why("S1") != "" || !slices.Contains(d.claimed(), "profile rpc") {
		t.Errorf("%q", d.claimed())
	}
}

func TestSameInputMakesTheSameDocument(t *testing.T) {
	a, b := made(t, perfect(t)), made(t, perfect(t))
	if string(a.JSON()) != string(b.JSON()) || string(a.Markdown()) != string(b.Markdown()) {
		t.Error("two documents of one input differ")
	}
}
