package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Result is the outcome of one vector.
type Result struct {
	VectorID          string `json:"vector_id"` // file name where the descriptor could not be loaded
	Path              string `json:"path"`
	Pass              bool   `json:"pass"`
	Expected          string `json:"expected"`
	Observed          string `json:"observed"`
	ExpectedCode      string `json:"expected_code"`
	ObservedCode      string `json:"observed_code"`
	ExpectedErrorCode string `json:"expected_error_code,omitempty"`
	ObservedErrorCode string `json:"observed_error_code,omitempty"`

	// UsedFallback is always false: nothing here takes a verdict from the
	// expectation. The field is part of the form.
	UsedFallback bool   `json:"used_fallback"`
	Detail       string `json:"detail,omitempty"`
}

// String is the line that the runner prints.
func (r Result) String() string {
	if r.Pass {
		return "PASS " + r.VectorID
	}
	return "FAIL " + r.VectorID + ": " + r.Detail
}

// Report is the JSON summary, schema version 1.
//
// Specification: docs/spec-vector-runner-output.md.
type Report struct {
	SchemaVersion int      `json:"schema_version"`
	Run           RunInfo  `json:"run"`
	Total         int      `json:"total"`
	Passed        int      `json:"passed"`
	Failed        int      `json:"failed"`
	FallbackCount int      `json:"fallback_count"`
	Results       []Result `json:"results"`
	Failures      []Result `json:"failures,omitempty"`
}

// RunInfo says how a run was started.
type RunInfo struct {
	Pattern      string `json:"pattern"` // effective globs, joined by commas
	NoFallback   bool   `json:"no_fallback"`
	TimestampUTC string `json:"timestamp_utc"`
	RunnerGitSHA string `json:"runner_git_sha"`

	// Dirty says that the working directory had files that the commit does not have. No
	// claim can rest on such a run. Extension of this project.
	Dirty bool `json:"runner_dirty,omitempty"`
}

// NewReport sums results up.
func NewReport(run RunInfo, results []Result) *Report {
	r := &Report{SchemaVersion: 1, Run: run, Total: len(results), Results: results}
	for _, one := range results {
		if one.Pass {
			r.Passed++
		} else {
			r.Failed++
			r.Failures = append(r.Failures, one)
		}
		if one.UsedFallback {
			r.FallbackCount++
		}
	}
	return r
}

// Summary is the last line that the runner prints.
func (r *Report) Summary() string {
	return fmt.Sprintf("summary: passed=%d failed=%d total=%d fallback=%d", r.Passed, r.Failed, r.Total, r.FallbackCount)
}

// Write writes the report as JSON. Missing directories are made.
func (r *Report) Write(path string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // an artifact for everybody
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644) //nolint:gosec // as the specification says
}

// Timestamp is a moment in the form of RunInfo.TimestampUTC.
func Timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// GitSHA is the commit of the working directory in the form of
// RunInfo.RunnerGitSHA, or nogit.
func GitSHA(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if sha := strings.TrimSpace(string(out)); err == nil && sha != "" {
		return sha
	}
	return "nogit"
}

// Dirty reports whether the working directory has files that are changed or are in no commit,
// except those that git ignores.
func Dirty(ctx context.Context) bool {
	out, err := exec.CommandContext(ctx, "git", "status", "--porcelain").Output()
	return err == nil && len(out) > 0
}
