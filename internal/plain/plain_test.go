package plain

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestNamesOfPackagesAreLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"relay":                       "relay",
		"relay: ":                     "",
		"relay: no room":              "no room",
		"a2a: client: no room":        "no room",
		"edge: relay: no room":        "edge: no room",
		"edge: tls: relay: no room":   "edge: no room",
		"lost (endpoint: no answer)":  "lost (no answer)",
		"one\nrelay: two; rpc: three": "one\ntwo; three",
		"the relay: no room":          "the relay: no room", // a word, no name
		"relayed: no room":            "relayed: no room",
		"open /relay: no such file":   "open /relay: no such file",
		"a:relay: b":                  "a:relay: b",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

type said struct{ text string }

func (s said) Error() string    { return "client: " + s.text + " (relay: no)" }
func (s said) Verbatim() string { return s.text }

func TestTextOfOthersIsNotChanged(t *testing.T) {
	if got, want := Error(fmt.Errorf("rpc: it says: %w", said{"relay: broken"})), "it says: relay: broken (no)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Error(said{""}), " (no)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Error(errors.New("rpc: relay: no")), "no"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// others are folders whose errors never begin with the name of a package (swpd, the
// programs), or are for developers alone.
var others = []string{
	"daemon", "cmd", "conformance", "vectors", "test", "tools", "examples", "bin", "datatest", "profiletest", "transporttest",
}

// TestNamesAreThoseOfTheSources reads the sources for texts that begin with the name of
// their package.
func TestNamesAreThoseOfTheSources(t *testing.T) {
	const root = "../.."
	want := []string{"tls", "x509"}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (slices.Contains(others, e.Name()) || path != root && strings.HasPrefix(e.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name := file.Name.Name
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && strings.HasPrefix(text, name+": ") {
					want = append(want, name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	want = slices.Compact(want)
	if got := slices.Sorted(slices.Values(names)); !slices.Equal(got, want) {
		t.Errorf("names are\n%q\nwant\n%q", got, want)
	}
}

func TestErrorsOfTheDaemonBeginWithNoPackageName(t *testing.T) {
	err := filepath.WalkDir("../../daemon", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.HasPrefix(lit.Value, `"daemon: `) {
				t.Errorf("%s: %s", path, lit.Value)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
