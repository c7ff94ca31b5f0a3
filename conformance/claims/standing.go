package claims

import (
	"fmt"
	"slices"

	"github.com/slimwire/swp/conformance"
)

// Standing is what the two runs say of a namespace.
type Standing struct {
	Namespace string   `json:"namespace"`
	Vectors   int      `json:"vectors"` // of the catalogue
	Default   int      `json:"passed_default"`
	Strict    int      `json:"passed_strict"`
	Codes     []string `json:"reject_codes,omitempty"` // canonical, of the vectors that end in one

	reasons []string // why nothing that asks for the namespace can be claimed
}

// runs are the two runs that claims rest on.
type runs struct {
	reasons    []string // why nothing at all can be claimed
	namespaces []*Standing
}

// examine holds two runs against the catalogue and against each other.
func examine(def, strict *conformance.Report) runs {
	var r runs
	switch {
	case def.Run.NoFallback:
		r.reasons = append(r.reasons, "the default run was strict")
	case !strict.Run.NoFallback:
		r.reasons = append(r.reasons, "the strict run was not strict, or did not take place")
	case def.Run.RunnerGitSHA != strict.Run.RunnerGitSHA:
		r.reasons = append(r.reasons, fmt.Sprintf("the runs are of two commits, %s and %s", def.Run.RunnerGitSHA, strict.Run.RunnerGitSHA))
	}
	for _, ns := range conformance.Namespaces() {
		s := &Standing{Namespace: ns.Name, Vectors: ns.Vectors}
		d, st := of(ns.Name, def), of(ns.Name, strict)
		s.Default, s.Strict = s.count("default", d), s.count("strict", st)
		s.compare(d, st)
		for _, one := range st {
			if code := one.ObservedErrorCode; code != "" && !slices.Contains(s.Codes, code) {
				s.Codes = append(s.Codes, code)
			}
		}
		slices.Sort(s.Codes)
		r.namespaces = append(r.namespaces, s)
	}
	return r
}

// of returns the results of a namespace.
func of(namespace string, r *conformance.Report) (list []conformance.Result) {
	for _, one := range r.Results {
		if conformance.NamespaceOf(one.VectorID) == namespace {
			list = append(list, one)
		}
	}
	return list
}

// count notes what is wrong with the results of one run, and returns how many
// passed.
func (s *Standing) count(mode string, results []conformance.Result) (passed int) {
	if len(results) != s.Vectors {
		s.refuse("%s: %d vectors in the %s run, the catalogue has %d", s.Namespace, len(results), mode, s.Vectors)
	}
	for _, one := range results {
		switch {
		case !one.Pass:
			s.refuse("%s: failed in the %s run: %s", one.VectorID, mode, one.Detail)
		case one.UsedFallback:
			s.refuse("%s: passed by fallback in the %s run", one.VectorID, mode)
		default:
			passed++
		}
	}
	return passed
}

// compare notes where the two runs saw different things.
func (s *Standing) compare(def, strict []conformance.Result) {
	for _, d := range def {
		i := slices.IndexFunc(strict, func(st conformance.Result) bool { return st.VectorID == d.VectorID })
		if i < 0 {
			s.refuse("%s: only in the default run", d.VectorID)
			continue
		}
		st := strict[i]
		if d.Pass != st.Pass || d.Observed != st.Observed || d.ObservedCode != st.ObservedCode || d.ObservedErrorCode != st.ObservedErrorCode {
			s.refuse("%s: default and strict disagree: %s, %s", d.VectorID, saw(d), saw(st))
		}
	}
	for _, st := range strict {
		if !slices.ContainsFunc(def, func(d conformance.Result) bool { return d.VectorID == st.VectorID }) {
			s.refuse("%s: only in the strict run", st.VectorID)
		}
	}
}

func saw(r conformance.Result) string {
	if r.Observed == "" {
		return "nothing"
	}
	return fmt.Sprintf("%s %s %s", r.Observed, r.ObservedCode, map[bool]string{true: "passed", false: "failed"}[r.Pass])
}

func (s *Standing) refuse(format string, args ...any) {
	s.reasons = append(s.reasons, fmt.Sprintf(format, args...))
}
