package swp_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWhatTheRaceDetectorLeavesOutIsRunWithoutIt holds the tests that do less under the
// race detector against the list of the Makefile, by which they are run without it.
func TestWhatTheRaceDetectorLeavesOutIsRunWithoutIt(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^UNWATCHED := ((?:.*\\\n)*.*)$`).FindSubmatch(makefile)
	if list == nil {
		t.Fatal("the Makefile has no UNWATCHED")
	}
	unwatched := regexp.MustCompile(regexp.MustCompile(`\$\\\n\s*`).ReplaceAllString(string(list[1]), ""))
	found := 0
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !doesLess(f) {
				continue
			}
			found++
			if !unwatched.MatchString(f.Name.Name) {
				t.Errorf("%s: %s does less under the race detector, and UNWATCHED in the Makefile does not name it", path, f.Name.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 10 {
		t.Errorf("%d tests found that do less under the race detector, want 10 at least", found)
	}
}

// doesLess reports whether a function calls Rounds or Unwatched, or reads Watched, of
// package profiletest.
func doesLess(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			of, isName := s.X.(*ast.Ident)
			found = found || isName && of.Name == "profiletest" && (s.Sel.Name == "Rounds" || s.Sel.Name == "Unwatched" || s.Sel.Name == "Watched")
		}
		return !found
	})
	return found
}
