package swp_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	code       = regexp.MustCompile("`([^`\n]+)`")
	identifier = regexp.MustCompile(`^[a-z]\w*\.\w+(\.\w+)?$`)
	pathLike   = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*/?$`)
)

// declared returns what the packages of this repository declare: package.Name,
// package.Type.Method and package.Type.Field, and the packages themselves.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for file, text := range sources(t, ".go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		pkg := parsed.Name.Name
		names[pkg] = true
		members := func(of string, fields *ast.FieldList) {
			for _, field := range fields.List {
				for _, name := range field.Names {
					names[pkg+"."+of+"."+name.Name] = true
				}
			}
		}
		for _, decl := range parsed.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				name := decl.Name.Name
				if decl.Recv != nil {
					of := decl.Recv.List[0].Type
					if star, ok := of.(*ast.StarExpr); ok {
						of = star.X
					}
					if receiver, ok := of.(*ast.Ident); ok {
						name = receiver.Name + "." + name
					}
				}
				names[pkg+"."+name] = true
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						names[pkg+"."+spec.Name.Name] = true
						switch of := spec.Type.(type) {
						case *ast.StructType:
							members(spec.Name.Name, of.Fields)
						case *ast.InterfaceType:
							members(spec.Name.Name, of.Methods)
						}
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							names[pkg+"."+name.Name] = true
						}
					}
				}
			}
		}
	}
	return names
}

// unknown returns the names in a document that are of no file, folder or identifier.
func unknown(text string, names map[string]bool) []string {
	var wrong []string
	for _, m := range code.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
		name := m[1]
		pkg, _, _ := strings.Cut(name, ".")
		top, _, slashed := strings.Cut(name, "/")
		switch {
		case strings.HasSuffix(name, ".go") || pathLike.MatchString(name) && slashed && isFolder(top):
			if _, err := os.Stat(filepath.FromSlash(name)); err != nil && !isData(name) {
				wrong = append(wrong, name)
			}
		case identifier.MatchString(name) && names[pkg] && !names[name]:
			wrong = append(wrong, name)
		}
	}
	return wrong
}

// isFolder reports whether a folder of the repository has the name. bin and artifacts are what
// make writes, and there on some machines only.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir() && name != "bin" && name != "artifacts"
}

// isData reports whether a name is that of a folder in the data directory of swpd.
func isData(name string) bool { return path.Clean(name) == "pki" }

// The documents for engineers name files and identifiers that there are.
func TestNamesInDocumentsExist(t *testing.T) {
	docs, names := documents(t), declared(t)
	for _, document := range []string{"docs/architecture.md", "docs/buffers.md", "docs/durability.md", "docs/wire.md", "docs/languages.md"} {
		for _, name := range unknown(docs[document], names) {
			t.Errorf("%s: there is no %s", document, name)
		}
	}
}

// oneProcess is what a comment says of code that would be wrong with a second process at
// the same store.
var oneProcess = regexp.MustCompile(`assumes(?:\s|//)+one(?:\s|//)+process\b`)

// listedAndMarked returns the files that the paragraph of a document about one process
// names and the files with such a comment, each in order.
func listedAndMarked(document string, files map[string]string) (listed, marked []string) {
	_, paragraph, _ := strings.Cut(document, "\n**One process.** ")
	paragraph, _, _ = strings.Cut(paragraph, "\n\n")
	for _, m := range code.FindAllStringSubmatch(paragraph, -1) {
		if strings.HasSuffix(m[1], ".go") {
			listed = append(listed, m[1])
		}
	}
	for file, text := range files {
		if oneProcess.MatchString(text) && !strings.HasSuffix(file, "_test.go") {
			marked = append(marked, file)
		}
	}
	slices.Sort(listed)
	slices.Sort(marked)
	return listed, marked
}

// An engineer who adds a store learns from the list which code assumes one process.
func TestArchitectureListsTheCodeThatAssumesOneProcess(t *testing.T) {
	listed, marked := listedAndMarked(documents(t)["docs/architecture.md"], sources(t, ".go"))
	if len(marked) == 0 || !slices.Equal(listed, marked) {
		t.Errorf("docs/architecture.md lists under \"One process\"\n%s\ncomments with \"assumes one process\" are in\n%s", strings.Join(listed, " "), strings.Join(marked, " "))
	}
}

func TestCodeThatAssumesOneProcessIsFound(t *testing.T) {
	listed, marked := listedAndMarked("# A\n\n**One process.** In `a/a.go`, by\n`b.go` (`store.ErrLocked`).\n\n`c.go`\n", map[string]string{
		"a/a.go": "// It assumes one process.", "d.go": "\t// This assumes\n\t// one process.", "e.go": "// It assumes one processor", "f_test.go": "// assumes one process",
	})
	if l, m := strings.Join(listed, " "), strings.Join(marked, " "); l != "a/a.go b.go" || m != "a/a.go d.go" {
		t.Errorf("listed %s, marked %s", l, m)
	}
}

func TestUnknownNamesAreFound(t *testing.T) {
	names := declared(t)
	for text, want := range map[string]string{
		"`frame.Reader.Next`, `endpoint.lane.receive`, `endpoint.Options.Bounds`, `profiles.Call.Recv`": "",
		"`frame/reader.go`, `store/sqlstore`, `server/tool`, `swp.ping`, `limits.idle`":                 "",
		"`frame.Raeder`":          "frame.Raeder",
		"`frame.Reader.Previous`": "frame.Reader.Previous",
		"`frame/raeder.go`":       "frame/raeder.go",
		"`store/nosql`":           "store/nosql",
		"`nowhere/reader.go`":     "nowhere/reader.go",
	} {
		if got := strings.Join(unknown(text, names), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// detail is how the details of errors are spelled, in logs and metrics: in lower case, or as
// a code of the specification.
var detail = regexp.MustCompile(`^(?:[a-z][a-z0-9_]*|[A-Z][A-Z0-9_]*)?$`)

// detailsOf returns the details that the errors of a file have: the literals, and the
// constants of the file.
func detailsOf(t *testing.T, file, text string) (details []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	constants := make(map[string]ast.Expr)
	var values []ast.Expr
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, name := range n.Names[:len(n.Values)] {
				constants[name.Name] = n.Values[i]
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Detail" {
				values = append(values, n.Value)
			}
		}
		return true
	})
	for _, value := range values {
		if name, ok := value.(*ast.Ident); ok {
			value = constants[name.Name]
		}
		if literal, ok := value.(*ast.BasicLit); ok {
			said, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			details = append(details, said)
		}
	}
	return details
}

func TestDetailsOfErrorsAreInLowerCase(t *testing.T) {
	found := 0
	for file, text := range sources(t, ".go") {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "vectors/") || strings.HasPrefix(file, "conformance/") {
			continue
		}
		for _, said := range detailsOf(t, file, text) {
			found++
			if !detail.MatchString(said) {
				t.Errorf("%s: detail %q", file, said)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d details", found)
	}
	got := detailsOf(t, "x.go", "package x\nconst bad = `Too Large`\nvar _ = e{Detail: bad}\nvar _ = e{Detail: \"Pace\"}\n")
	if len(got) != 2 || detail.MatchString(got[0]) || detail.MatchString(got[1]) {
		t.Errorf("details in upper case are not found: %q", got)
	}
}
