package swp_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// messagesFile explains the texts of refusals, in tables whose first column is the text.
const messagesFile = "docs/messages.md"

// Every text with which an endpoint refuses a request, by its access rules, for want of room or
// with an HTTP status, and every reason of a handshake is explained there, and nothing that no code has.
func TestEveryTextOfARefusalIsExplained(t *testing.T) {
	explained := make(map[string]bool)
	text, err := os.ReadFile(messagesFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			message, _, _ := strings.Cut(cell, "` |")
			if explained[message] {
				t.Errorf("%s explains %q twice", messagesFile, message)
			}
			explained[message] = true
		}
	}
	found := refusals(t)
	maps.Copy(found, handshakes(t))
	for message, at := range found {
		if !explained[message] {
			t.Errorf("%s: %q is not explained in %s", at, message, messagesFile)
		}
	}
	for message := range explained {
		if found[message] == "" {
			t.Errorf("%s explains %q, which no code says", messagesFile, message)
		}
	}
	if len(found) < 60 {
		t.Errorf("only %d texts are found", len(found))
	}
}

// refusals returns the texts of refusals in the code, and the place of each. A text is a literal
// with a space, in an expression that also has an HTTP status, or the code for access rules and
// credentials or for room. What varies is an ellipsis.
func refusals(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, dir := range []string{"daemon", "internal", "profiles", "transport"} {
		err := filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				if err == nil && strings.HasSuffix(e.Name(), "test") {
					return fs.SkipDir
				}
				return err
			}
			if path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
				return nil
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if parts := partsOf(n); slices.ContainsFunc(parts, refuses) {
					for _, message := range literals(parts) {
						if message = normal(message, path.Base(path.Dir(file))); message != "" {
							found[message] = file
						}
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// handshakes returns the reasons of refused and broken handshakes: the constants Reason… of transport.
func handshakes(t *testing.T) map[string]string {
	t.Helper()
	const file = "transport/transport.go"
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found[reason] = file
		return true
	})
	if len(found) < 10 {
		t.Errorf("only %d reasons are found", len(found))
	}
	return found
}

// partsOf returns the expressions that belong together in a call, a composite literal or a return.
func partsOf(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		if called(n.Fun) == "Busy" {
			return append([]ast.Expr{&ast.Ident{Name: "RateLimitExceeded"}}, n.Args...)
		}
		return n.Args
	case *ast.ReturnStmt:
		return n.Results
	case *ast.CompositeLit:
		var parts []ast.Expr
		for _, e := range n.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok {
				e = pair.Value
			}
			parts = append(parts, e)
		}
		return parts
	}
	return nil
}

func called(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// refuses reports whether an expression is a code or status of a refusal, or its alias.
func refuses(e ast.Expr) bool {
	if call, ok := e.(*ast.CallExpr); ok {
		if alias, ok := call.Fun.(*ast.SelectorExpr); ok && alias.Sel.Name == "Alias" {
			e = alias.X
		}
	}
	name := called(e)
	return name == "RateLimitExceeded" || name == "SecurityPolicy" ||
		strings.HasPrefix(name, "Status") && len(name) > 6 && name != "StatusOK" && name != "StatusText"
}

// literals returns the texts in expressions, with an ellipsis for every part that is no literal.
func literals(parts []ast.Expr) (list []string) {
	for _, part := range parts {
		switch part := part.(type) {
		case *ast.BasicLit, *ast.BinaryExpr:
			list = append(list, written(part))
		case *ast.CallExpr:
			list = append(list, literals(part.Args)...)
		case *ast.CompositeLit:
			list = append(list, literals(partsOf(part))...)
		}
	}
	return list
}

func written(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			if err != nil {
				return ""
			}
			return text
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return written(e.X) + written(e.Y)
		}
	}
	return "…"
}

var (
	verb  = regexp.MustCompile(`%[-+#0-9.\[\]]*[a-zA-Z]`)
	words = regexp.MustCompile(`\pL+ \pL+`)
)

// normal returns a text as users see it: without the name of its package, and with an ellipsis for
// each verb. A text without two words is none.
func normal(message, pkg string) string {
	message = strings.TrimPrefix(verb.ReplaceAllString(message, "…"), pkg+": ")
	if !words.MatchString(message) {
		return ""
	}
	return strings.Join(strings.Fields(message), " ")
}
