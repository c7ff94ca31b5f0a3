package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
)

// ReadReport reads what Report.Write wrote and checks it. Fields that it does
// not know are passed over: later versions of the schema may add some.
func ReadReport(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("conformance: %s: %w", path, err)
	}
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("%w, in %s", err, path)
	}
	return &r, nil
}

var errInvariant = errors.New("conformance: report does not add up")

// Check returns the violated invariant of the summary, or nil. In addition to those of the
// specification, each vector_id may occur once.
//
// Specification: docs/spec-vector-runner-output.md.
func (r *Report) Check() error {
	if r.SchemaVersion != 1 {
		return fmt.Errorf("conformance: schema_version %d, want 1", r.SchemaVersion)
	}
	seen := make(map[string]bool)
	var passed, fallback int
	for _, one := range r.Results {
		if seen[one.VectorID] {
			return fmt.Errorf("%w: vector_id %q is there twice", errInvariant, one.VectorID)
		}
		seen[one.VectorID] = true
		if one.Pass {
			passed++
		}
		if one.UsedFallback {
			fallback++
		}
	}
	for _, n := range []struct {
		field     string
		has, want int
	}{
		{"total", r.Total, len(r.Results)},
		{"passed", r.Passed, passed},
		{"failed", r.Failed, len(r.Results) - passed},
		{"fallback_count", r.FallbackCount, fallback},
	} {
		if n.has != n.want {
			return fmt.Errorf("%w: %s is %d, want %d", errInvariant, n.field, n.has, n.want)
		}
	}
	if r.Failures != nil && len(r.Failures) != r.Failed {
		return fmt.Errorf("%w: %d failures, want %d", errInvariant, len(r.Failures), r.Failed)
	}
	for _, f := range r.Failures {
		if f.Pass || !slices.Contains(r.Results, f) {
			return fmt.Errorf("%w: failure %q is none of the results", errInvariant, f.VectorID)
		}
	}
	return nil
}
