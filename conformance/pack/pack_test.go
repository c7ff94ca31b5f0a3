package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/conformance"
	"github.com/slimwire/swp/conformance/bundle"
	"github.com/slimwire/swp/conformance/claims"
	"github.com/slimwire/swp/internal/effort"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// root is the repository, seen from a test that has gone there.
func toRoot(t *testing.T) {
	t.Helper()
	t.Chdir(filepath.Join("..", ".."))
}

// conformanceMake runs targets of the Makefile into a directory of the test's own, with a
// runner beside the other programs that tests build.
func conformanceMake(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not here")
	}
	args = append([]string{"--no-print-directory", "CONFORMANCE_DIR=" + dir, "BIN=bin/test"}, args...)
	cmd := exec.CommandContext(t.Context(), "make", args...)
	// What make told a make that runs these tests is not for this one.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS") || strings.HasPrefix(v, "CONFORMANCE_")
	})
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Logf("%s", stderr.Bytes())
	}
	return string(out), err
}

// few has the targets play some vectors in place of all of them.
const few = "ALL_PATTERN=conformance/vectors/e1_*.json,conformance/vectors/core_*.json"

func TestConformanceTargetsPrintTheLinesOfTheDraft(t *testing.T) {
	effort.Release(t)
	toRoot(t)
	dir := t.TempDir()
	core := func(mode string) string {
		return "CORE " + mode + ": total=33 passed=33 failed=0 fallback=0 json=" + dir + "/core." + mode + ".json\n"
	}
	every := func(mode string) string {
		return "ALL " + mode + ": total=41 passed=41 failed=0 fallback=0 json=" + dir + "/all." + mode + ".json\n"
	}
	out, err := conformanceMake(t, dir, "conformance-pack", few)
	want := core("default") + core("strict") + every("default") + every("strict") + "bundle: " + dir + "/swp-conformance-bundle.tar.gz\n"
	if err != nil || out != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
	out, err = conformanceMake(t, dir, "conformance-summary")
	want = "SWP conformance (Core vectors) @ runner_git_sha=" + conformance.GitSHA(t.Context()) + "\n" + core("default") + core("strict")
	if err != nil || out != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
	checkBundle(t, filepath.Join(dir, "swp-conformance-bundle.tar.gz"))
}

// checkBundle unpacks an archive and holds it against the index and the schema.
func checkBundle(t *testing.T, archive string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	files, err := bundle.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	content := make(map[string][]byte)
	var names []string
	for _, f := range files {
		content[f.Name] = f.Content
		names = append(names, f.Name)
	}
	if want := indexed(t, content["docs/publication-artifact-index.md"]); !slices.Equal(names, want) {
		t.Errorf("the archive holds\n%q, the index names\n%q", names, want)
	}
	dir := t.TempDir()
	for _, name := range reports {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content[inside+"/"+name+".json"], 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := conformance.ReadReport(file)
		if err != nil {
			t.Fatal(err)
		}
		if strict := strings.HasSuffix(name, "strict"); r.Run.NoFallback != strict || r.Total == 0 || r.FallbackCount != 0 {
			t.Errorf("%s: %d vectors, %d by fallback, %+v", name, r.Total, r.FallbackCount, r.Run)
		}
		log := string(content[inside+"/"+name+".log"])
		if !strings.HasPrefix(log, "$ ") || !strings.HasSuffix(log, r.Summary()+"\n") {
			t.Errorf("%s.log does not begin with the command and end with %q:\n%s", name, r.Summary(), log)
		}
	}
	var doc claims.Document
	if err := json.Unmarshal(content[inside+"/claims.json"], &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Commands) != len(reports) || doc.Build.GitSHA == "" || doc.Build.GoVersion == "" || len(doc.Deployment.Channels) == 0 || len(doc.Versions) == 0 {
		t.Errorf("%+v", doc)
	}
	// Only core and e1 were played.
	if len(doc.Classes) != 0 || len(doc.Others) != 1 || doc.Others[0].Claim != "Core" || doc.Others[0].Vectors != 41 {
		t.Errorf("claimed %+v, %+v", doc.Classes, doc.Others)
	}
	for _, broken := range dangling(content) {
		t.Error(broken)
	}
	// What the claims refer to is there.
	for _, name := range regexp.MustCompile(`docs/[\w-]+\.md`).FindAllString(string(content[inside+"/claims.md"]), -1) {
		if content[name] == nil {
			t.Errorf("the claims name %s, which is not in the archive", name)
		}
	}
}

// dangling says which documents link to others that are not with them.
func dangling(content map[string][]byte) (broken []string) {
	for name, text := range content {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, m := range regexp.MustCompile(`\]\(([^)\s#]+)[^)\s]*\)`).FindAllSubmatch(text, -1) {
			to := path.Join(path.Dir(name), string(m[1]))
			if path.Dir(to) == "docs" && path.Ext(to) == ".md" && content[to] == nil && !bytes.Contains(m[1], []byte("://")) {
				broken = append(broken, name+" refers to "+to+", which is not there")
			}
		}
	}
	return broken
}

func TestIndexedDocumentsReferToIndexedOnes(t *testing.T) {
	toRoot(t)
	index, err := os.ReadFile("docs/publication-artifact-index.md")
	if err != nil {
		t.Fatal(err)
	}
	content := make(map[string][]byte)
	for _, name := range indexed(t, index) {
		if !strings.HasSuffix(name, ".md") || strings.HasPrefix(name, inside) {
			continue
		}
		if content[name], err = os.ReadFile(name); err != nil {
			t.Error(err)
		}
	}
	for _, broken := range dangling(content) {
		t.Error(broken)
	}
	delete(content, "docs/credentials.md")
	if len(dangling(content)) == 0 {
		t.Error("a missing document is not noticed")
	}
	all, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all { // the Makefile packs them all
		if !slices.Contains(indexed(t, index), filepath.ToSlash(name)) {
			t.Errorf("the index lacks %s", name)
		}
	}
}

// indexed are the files that the first column of the first table names.
func indexed(t *testing.T, index []byte) (names []string) {
	t.Helper()
	_, table, ok := strings.Cut(string(index), "\n| file | what it is |\n|---|---|\n")
	if !ok {
		t.Fatal("the index has no table of files")
	}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return names
}

// packed runs pack on reports of a directory.
func packed(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"-dir", dir}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// reported fills a directory with reports of nothing, as a run leaves that failed
// altogether, and their logs.
func reported(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range reports {
		r := conformance.NewReport(conformance.RunInfo{NoFallback: strings.HasSuffix(name, "strict"), RunnerGitSHA: "nogit"}, []conformance.Result{})
		if err := r.Write(filepath.Join(dir, name+".json")); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name+".log"), "$ runner\n")
	}
	write(t, filepath.Join(dir, samples), "{}\n")
	return dir
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReportsOfNothingArePackedAndClaimNothing(t *testing.T) {
	toRoot(t)
	dir := reported(t)
	out := filepath.Join(dir, "to", "bundle.tar.gz")
	if code, stdout, stderr := packed(t, dir, "-out", out, "docs/error-codes.md"); code != 0 || stdout != "bundle: "+out+"\n" {
		t.Fatalf("exit %d, %s%s", code, stdout, stderr)
	}
	first, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, _ := packed(t, dir, "-out", out, "docs/error-codes.md"); code != 0 {
		t.Fatalf("exit %d", code)
	}
	if again, err := os.ReadFile(out); err != nil || !bytes.Equal(first, again) {
		t.Errorf("packed twice, two archives, %v", err)
	}
	code, stdout, _ := packed(t, dir)
	if code != 0 || !strings.HasPrefix(stdout, "claims: no class is claimed\n") || !strings.Contains(stdout, "\nnot claimed: SWP C0: ") {
		t.Errorf("exit %d, %s", code, stdout)
	}
}

func TestWhatCannotBePackedIsAnError(t *testing.T) {
	toRoot(t)
	for want, spoil := range map[string]func(dir string) []string{
		"core.strict.log":                 func(dir string) []string { return gone(t, filepath.Join(dir, "core.strict.log")) },
		"all.default.json":                func(dir string) []string { return gone(t, filepath.Join(dir, "all.default.json")) },
		"does not begin with the command": func(dir string) []string { write(t, filepath.Join(dir, "all.strict.log"), "PASS\n"); return nil },
		"schema_version 2": func(dir string) []string {
			write(t, filepath.Join(dir, "core.default.json"), `{"schema_version": 2}`)
			return nil
		},
		"does not add up: total is 1": func(dir string) []string {
			write(t, filepath.Join(dir, "all.strict.json"), `{"schema_version": 1, "total": 1}`)
			return nil
		},
		"no such file":         func(dir string) []string { return []string{"-out", filepath.Join(dir, "x"), "docs/missing.md"} },
		"want a relative path": func(dir string) []string { return []string{"-out", filepath.Join(dir, "x"), "./docs/error-codes.md"} },
		"unknown key; known here": func(dir string) []string {
			write(t, filepath.Join(dir, "c.yaml"), "peers: []\n")
			return []string{"-config", filepath.Join(dir, "c.yaml")}
		},
	} {
		dir := reported(t)
		args := spoil(dir)
		if code, _, stderr := packed(t, dir, args...); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("exit %d, %q, want %q", code, stderr, want)
		}
	}
	if code, _, _ := packed(t, t.TempDir(), "-nonsense"); code != 2 {
		t.Errorf("exit %d", code)
	}
}

func gone(t *testing.T, file string) []string {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	return nil
}

// A default run that fails ends make; a strict run that fails is reported.
func TestFailuresAreToleratedInStrictRunsOnly(t *testing.T) {
	toRoot(t)
	dir := t.TempDir()
	runner := filepath.Join(dir, "runner")
	write(t, runner, "#!/bin/sh\necho 'FAIL x: why'\nexit 1\n")
	if err := os.Chmod(runner, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"default", "strict"} {
		report := filepath.Join(dir, "core."+mode+".json")
		out, err := exec.CommandContext(t.Context(), "mk/conformance.sh", "CORE", mode, report, dir, runner).Output()
		if want := "CORE " + mode + ": total=0 passed=0 failed=0 fallback=0 json=" + report + "\n"; string(out) != want || (err != nil) != (mode == "default") {
			t.Errorf("%s: %q, %v, want %q", mode, out, err, want)
		}
		if r, err := conformance.ReadReport(report); err != nil || r.Total != 0 {
			t.Errorf("%s: placeholder %+v, %v", mode, r, err)
		}
	}
}
