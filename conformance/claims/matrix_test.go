package claims

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport/endpoint"
)

// published is the matrix of docs/versioning-compatibility.md.
func published(t *testing.T) Matrix {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "versioning-compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadMatrix(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSupportMatrixListsWhatIsServed(t *testing.T) {
	m := published(t)
	if err := m.check(); err != nil {
		t.Error(err)
	}
	set, err := all.New(all.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	for _, p := range set.Registry.All() {
		found := false
		for _, v := range m {
			name, _, _ := strings.Cut(v.What, ":")
			found = found || v.Domain == "profile "+strconv.FormatUint(p.ID, 10) && name == p.Name
		}
		if !found {
			t.Errorf("docs/versioning-compatibility.md §6 has no row for profile %d, %s", p.ID, p.Name)
		}
	}
	if m.version("profile "+strconv.Itoa(endpoint.ErrorProfile)) == "" {
		t.Error("no row for the error path")
	}
}

func TestMatrixThatContradictsTheCodeIsRefused(t *testing.T) {
	const head = "\n| domain | what | version |\n|---|---|---|\n"
	const core, s1 = "| Core | envelope | 1 |\n", "| binding | S1 over `swp/1` | 1 |\n"
	for text, want := range map[string]string{
		"nothing":                 "no table",
		head + "| Core | | 1 |\n": "incomplete",
		head + "| profile 1 | a | 1 |\n| profile 1 | b | 2 |\n": "there twice",
		head + s1:                           `Core "", the code "1"`,
		head + "| Core | x | 2 |\n" + s1:    `Core "2", the code "1"`,
		head + core:                         "no binding",
		head + core + "| binding | h | 1 |": "does not name ALPN swp/1",
		head + core + s1:                    "",
	} {
		m, err := ReadMatrix(text)
		if err == nil {
			err = m.check()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	in := perfect(t)
	in.Matrix = nil
	if _, err := Make(in); err == nil {
		t.Error("made without a matrix")
	}
}
