package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// runIn runs the program from the root of the repository.
func runIn(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Chdir(filepath.Join("..", ".."))
	var out, errs bytes.Buffer
	code = run(args, &out, &errs)
	return code, out.String(), errs.String()
}

// The command that the draft prints.
func TestCommandOfTheDraftRunsAsPrinted(t *testing.T) {
	report := filepath.Join(t.TempDir(), "artifacts", "conformance", "core.strict.json")
	code, stdout, stderr := runIn(t, "-no-fallback", "-pattern", "conformance/vectors/core_*.json", "-json-out", report)
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if len(lines) != 34 || lines[0] != "PASS core_0001_valid_min_frame" || lines[33] != "summary: passed=33 failed=0 total=33 fallback=0" {
		t.Errorf("%d lines:\n%s", len(lines), stdout)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Version int `json:"schema_version"`
		Run     struct {
			Pattern    string `json:"pattern"`
			NoFallback bool   `json:"no_fallback"`
			Time       string `json:"timestamp_utc"`
			SHA        string `json:"runner_git_sha"`
		} `json:"run"`
		Total, Passed, Failed int
		Results               []struct {
			Path string `json:"path"`
		}
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.Version != 1 || r.Total != 33 || r.Passed != 33 || r.Failed != 0 || len(r.Results) != 33 || !r.Run.NoFallback ||
		r.Run.Pattern != "conformance/vectors/core_*.json" || r.Results[0].Path != "conformance/vectors/core_0001_valid_min_frame.json" {
		t.Errorf("%+v", r)
	}
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`).MatchString(r.Run.Time) || !regexp.MustCompile(`^([0-9a-f]{40}|nogit)$`).MatchString(r.Run.SHA) {
		t.Errorf("%+v", r.Run)
	}
}

func TestDefaultPatternIsTheOfficialNamespaces(t *testing.T) {
	code, stdout, _ := runIn(t)
	all, err := filepath.Glob("vectors/*.json")
	if err != nil {
		t.Fatal(err)
	}
	official := len(slices.DeleteFunc(all, func(file string) bool {
		return slices.ContainsFunc([]string{"poc_", "sdl_", "slip_"}, func(other string) bool { return strings.HasPrefix(filepath.Base(file), other) })
	}))
	if official < 95 { // classes C0 to C3
		t.Errorf("%d official vectors", official)
	}
	summary := fmt.Sprintf("summary: passed=%d failed=0 total=%d fallback=0\n", official, official)
	if code != 0 || !strings.HasSuffix(stdout, summary) || strings.Contains(stdout, "poc_") || strings.Contains(stdout, "slip_") {
		t.Errorf("exit %d\n%s", code, stdout)
	}
	globs := split("")
	if len(globs) != 15 || globs[0] != "conformance/vectors/core_*.json" || globs[14] != "conformance/vectors/relay_*.json" {
		t.Errorf("%q", globs)
	}
}

// Each s1 vector whose channel fails has the reason of its security event in the samples.
func TestSamplesHaveTheSecurityEvents(t *testing.T) {
	file := filepath.Join(t.TempDir(), "samples.jsonl")
	code, stdout, stderr := runIn(t, "-no-fallback", "-pattern", "conformance/vectors/s1_*.json", "-samples", file)
	text, err := os.ReadFile(file)
	if err != nil || code != 0 {
		t.Fatalf("exit %d: %v\n%s%s", code, err, stdout, stderr)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 6 {
		t.Errorf("%d lines, want one for each vector", len(lines))
	}
	for _, id := range []string{"s1_0001", "s1_0002", "s1_0003", "s1_0004"} {
		if !regexp.MustCompile(`(?m)^\{"vector_id":"` + id + `.*"pass":true.*"security_events":\["[a-z_ ]+"`).Match(text) {
			t.Errorf("%s has no security event:\n%s", id, text)
		}
	}
	if !strings.Contains(string(text), `{"err_code":"OK"`) || !strings.Contains(string(text), `"err_code":"ERR_SECURITY_POLICY"`) {
		t.Errorf("no verdicts:\n%s", text)
	}
}

// The lines are those of the kit's runner for poc_ vectors.
func TestPoCVectorsHaveTheLinesOfTheKit(t *testing.T) {
	code, stdout, stderr := runIn(t, "-poc")
	if code != 0 || !strings.HasPrefix(stdout, "PASS poc_0001_valid_mcp_request.json\n") || !strings.HasSuffix(stdout, "\nall 6 vectors passed\n") || stderr != "" {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"poc_1.json": `{"name":"poc_1","bin":"zero.bin","expect":{"ok":true,"code":"OK"}}`,
		"zero.bin":   "\x00\x00\x00\x00",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr = runIn(t, "-poc", "-pattern", filepath.Join(dir, "*.json"))
	if want := "FAIL poc_1.json: outcome mismatch: expected=accept observed=reject\n1 vector(s) failed\n"; code != 1 || stdout != "" || !strings.HasPrefix(stderr, want) {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

func TestPatternsAreTrimmedAndPlayedOnceInOrderOfPaths(t *testing.T) {
	code, stdout, _ := runIn(t, "-pattern", " conformance/vectors/e1_0002*.json ,conformance/vectors/e1_000[1-2]*.json,, conformance/vectors/e1_0002*.json")
	want := "PASS e1_0001_valid_min_envelope\nPASS e1_0002_varint_too_long_invalid\nsummary: passed=2 failed=0 total=2 fallback=0\n"
	if code != 0 || stdout != want {
		t.Errorf("exit %d\n%s", code, stdout)
	}
}

func TestFailureIsExitOne(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a_wrong.json":  `{"vector_id":"wrong","category":"core","expected":{"outcome":"accept","code":"OK","evidence_type":"runtime","fixture":{"bin_file":"zero.bin"}}}`,
		"b_later.json":  `{"vector_id":"later","category":"unheard of","expected":{"outcome":"accept","evidence_type":"runtime","fixture":{"bin_file":"zero.bin"}}}`,
		"c_broken.json": `{}`,
		"zero.bin":      "\x00\x00\x00\x00",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, _ := runIn(t, "-pattern", filepath.Join(dir, "*.json"))
	want := "FAIL wrong: outcome mismatch: expected=accept observed=reject\n" +
		"FAIL later: not run: nothing here plays category \"unheard of\"\n" +
		"FAIL c_broken.json: missing vector_id\n" +
		"summary: passed=0 failed=3 total=3 fallback=0\n"
	if code != 1 || stdout != want {
		t.Errorf("exit %d\n%s", code, stdout)
	}
}

func TestWhatCannotRunIsExitTwo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"no vectors matched":        {"-pattern", "conformance/vectors/nothing_*.json"},
		"collect vectors failed":    {"-pattern", "conformance/vectors/[.json"},
		"unknown flag: --fallback":  {"-fallback"},
		"unexpected argument":       {"core"},
		"write JSON summary failed": {"-pattern", "conformance/vectors/core_0003*.json", "-json-out", filepath.Join(file, "x.json")},
	} {
		t.Run(want, func(t *testing.T) {
			code, _, stderr := runIn(t, args...)
			if code != 2 || !strings.Contains(stderr, want) {
				t.Errorf("exit %d, %q", code, stderr)
			}
		})
	}
}

func TestHelpIsNoError(t *testing.T) {
	for _, flag := range []string{"-h", "-help", "--help"} {
		t.Run(flag, func(t *testing.T) {
			if code, stdout, stderr := runIn(t, flag); code != 0 || stderr != "" || !strings.Contains(stdout, "-no-fallback") {
				t.Errorf("exit %d, %q", code, stderr)
			}
		})
	}
}

func TestVersionIsPrinted(t *testing.T) {
	for _, how := range []string{"version", "-version", "--version"} {
		t.Run(how, func(t *testing.T) {
			code, stdout, stderr := runIn(t, how)
			if code != 0 || !regexp.MustCompile(`^spec-vector-runner \d+\.\d+\.\d+`).MatchString(stdout) {
				t.Errorf("exit %d, %q, %q", code, stdout, stderr)
			}
		})
	}
}
