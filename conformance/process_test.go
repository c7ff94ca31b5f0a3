package conformance_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/conformance"
)

const (
	reviewed = "core_0033_extensibility_backward_compatibility"
	policy   = "docs/versioning-compatibility.md"
)

func TestEvidenceMustSayWhoWhenAndWhat(t *testing.T) {
	for _, c := range []struct{ old, with, want string }{
		{"- Reviewer: SlimWire maintainers\n", "", `no "Reviewer"`},
		{"- Reviewer: SlimWire maintainers\n", "- Reviewer:\n", `no "Reviewer"`},
		{"- Reviewer: SlimWire maintainers\n", "- Reviewer: TODO\n", "unfinished"},
		{"- Date: 2026-11-26\n", "", `no "Date"`},
		{"- Date: 2026-11-26\n", "- Date: soon\n", `date "soon"`},
		{"- Date: 2026-11-26\n", "- Date: 2999-01-01\n", "still to come"},
		{"- Date: 2026-11-26\n", "- Date: 2026-11-26\n- Date: 2026-11-22\n", `"Date" twice`},
		{"- SHA-256: ", "- Digest: ", `no "SHA-256"`},
		{"- Decision: pass\n", "", `no "Decision"`},
		{"- Decision: pass\n", "- Decision: fail\n", `decides "fail"`},
		{"- Decision: pass\n", "- Decision: maybe\n", `decides "maybe"`},
		{"- Rationale:", "- Thoughts:", `no "Rationale"`},
		{"- Evidence type: process\n", "- Evidence type: runtime\n", `type "runtime"`},
		{"- Vector ID: " + reviewed, "- Vector ID: core_0032_another", `for vector "core_0032_another"`},
		{"- Document reviewed: " + policy, "- Document reviewed: docs/another.md", "not of"},
		{"## What was checked", "TODO: attach concrete process evidence for this vector.", "unfinished"},
		{"## What was checked", "Placeholder", "unfinished"},
	} {
		m := newModule(t, reviewed)
		file := filepath.Join(m.dir, reviewed+".evidence.md")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), c.old) {
			t.Fatalf("the evidence does not say %q", c.old)
		}
		m.write(t, file, []byte(strings.Replace(string(text), c.old, c.with, 1)))
		wantFailure(t, m, c.with, c.want)
	}
}

func TestEvidenceNeedsItsDocument(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, m module)
		want  string
	}{
		"missing document": {func(t *testing.T, m module) { remove(t, filepath.Join(m.root, policy)) }, policy},
		"empty document":   {func(t *testing.T, m module) { m.write(t, filepath.Join(m.root, policy), []byte(" \n")) }, "is empty"},
		"changed document": {func(t *testing.T, m module) {
			m.write(t, filepath.Join(m.root, policy), []byte("# A policy that nobody has reviewed\n"))
		}, "was changed after its review"},
		"missing evidence": {func(t *testing.T, m module) { remove(t, filepath.Join(m.dir, reviewed+".evidence.md")) }, "evidence.md"},
		"empty evidence":   {func(t *testing.T, m module) { m.write(t, filepath.Join(m.dir, reviewed+".evidence.md"), nil) }, "is empty"},
		"no artifact": {func(t *testing.T, m module) {
			d := parsed(t, m.path(reviewed))
			delete(object(object(d["expected"])["assertions"]), "artifact")
			m.put(t, reviewed, d)
		}, "nothing was reviewed"},
		"no repository": {func(t *testing.T, m module) { remove(t, filepath.Join(m.root, "go.mod")) }, policy},
	} {
		m := newModule(t, reviewed)
		c.spoil(t, m)
		wantFailure(t, m, name, c.want)
	}
}

// The kit's evidence file is a template that nobody filled in.
func TestTemplateIsNoEvidence(t *testing.T) {
	m := newModule(t, reviewed)
	m.write(t, filepath.Join(m.dir, reviewed+".evidence.md"), []byte(`# `+reviewed+` Process Evidence

- Vector ID: `+reviewed+`
- Evidence type: process
- Required artifacts:
  - policy/document review evidence
  - reviewer/date
  - pass/fail decision with rationale
`))
	wantFailure(t, m, "template", `no "Document reviewed"`)
}

func TestDocumentMustStateWhatTheVectorReliesOn(t *testing.T) {
	const id = "s1_0006_timestamp_freshness_disabled_documented"
	m := newModule(t, id)
	m.write(t, filepath.Join(m.root, "docs", "conformance.md"), []byte("Timestamp freshness is on.\n"))
	v, err := conformance.Load(m.path(id))
	if err != nil {
		t.Fatal(err)
	}
	if r := v.Play(t.Context(), conformance.Local{}); r.Pass || !strings.Contains(r.Detail, "does not state") {
		t.Error(r)
	}
}

func wantFailure(t *testing.T, m module, name, want string) {
	t.Helper()
	v, err := conformance.Load(m.path(reviewed))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	r := v.Play(t.Context(), conformance.Local{})
	if r.Pass || r.Observed == "process_check" || !strings.Contains(r.Detail, want) {
		t.Errorf("%s: %s, want %q", name, r, want)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
