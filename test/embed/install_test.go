package embed_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/slimwire/swp/internal/effort"
)

// The version that the proxy of the test has, as of a tag.
var published = module.Version{Path: "github.com/slimwire/swp", Version: "v0.99.0"}

// repository is the root of the repository.
const repository = "../.."

// file is a file of the repository for a module.
type file struct{ path string }

func (f file) Path() string                { return f.path }
func (f file) Lstat() (fs.FileInfo, error) { return os.Lstat(filepath.Join(repository, f.path)) }
func (f file) Open() (io.ReadCloser, error) {
	return os.Open(filepath.Join(repository, f.path))
}

// tree returns the files that a tag would have: those that git tracks, and new ones that it does not
// ignore.
func tree(t *testing.T) (list []zip.File) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", repository, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skipf("git does not list the files: %v", err)
	}
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(repository, path)); err == nil { // not deleted
			list = append(list, file{path})
		}
	}
	return list
}

// publish makes a proxy that has the module at one version, and returns its URL.
func publish(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	versions := filepath.Join(dir, published.Path, "@v")
	if err := os.MkdirAll(versions, 0o700); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := zip.Create(&archive, published, tree(t)); err != nil {
		t.Fatalf("the repository cannot be a module: %v", err)
	}
	mod, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"list":                      []byte(published.Version + "\n"),
		published.Version + ".info": fmt.Appendf(nil, `{"Version":%q,"Time":%q}`, published.Version, time.Now().UTC().Format(time.RFC3339)),
		published.Version + ".mod":  mod,
		published.Version + ".zip":  archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(versions, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + filepath.ToSlash(dir)
}

// elsewhere is a machine with Go that knows the repository by a module proxy alone. It has the
// dependencies from the module cache of this one and uses no network.
type elsewhere struct {
	bin string
	env []string
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cached := "file://" + filepath.ToSlash(filepath.Join(strings.TrimSpace(string(out)), "cache", "download"))
	e := &elsewhere{bin: t.TempDir()}
	cache := t.TempDir()
	e.env = append(os.Environ(), "GOPROXY="+publish(t)+","+cached, "GOMODCACHE="+cache, "GOBIN="+e.bin,
		"GOFLAGS=-mod=mod -trimpath -modcacherw", "GOWORK=off", "GOSUMDB=off", "GONOSUMDB=*", "GOTOOLCHAIN=local")
	return e
}

// run runs a program there and returns its output.
func (e *elsewhere) run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, e.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// The commands of the documents install the programs at a tag, and docs/embedding.md is a program of
// another module as it is printed.
func TestThePublishedModuleCanBeInstalledAndUsed(t *testing.T) {
	effort.Release(t)
	e := newElsewhere(t)
	for _, line := range commands(t, "docs/deployment.md", "go install ") {
		words := strings.Fields(strings.ReplaceAll(line, "@latest", "@"+published.Version))
		e.run(t, t.TempDir(), words[0], words[1:]...)
	}
	for _, name := range []string{"swpd", "swp-client", "spec-vector-runner"} {
		if _, err := os.Stat(filepath.Join(e.bin, name)); err != nil {
			t.Errorf("go install did not make %s", name)
		}
	}
	if out := e.run(t, t.TempDir(), filepath.Join(e.bin, "swpd"), "version"); !strings.Contains(out, strings.TrimPrefix(published.Version, "v")) {
		t.Errorf("swpd version prints %q, want %s", out, published.Version)
	}

	dir := t.TempDir()
	page := blocks(t, "docs/embedding.md")
	program := "package main\n\nimport (\n\t\"context\"\n\t\"strings\"\n"
	for _, name := range []string{"e1", "profiles", "transport", "transport/endpoint", "transport/tlsconn"} {
		program += fmt.Sprintf("\n\t%q", published.Path+"/"+name)
	}
	program += "\n)\n\n" + strings.Join(page[:len(page)-1], "\n") + "\nfunc main() { _, _ = serve, dial }\n"
	write(t, filepath.Join(dir, "page", "main.go"), program)
	if err := os.CopyFS(filepath.Join(dir, "greeter"), os.DirFS("testdata/module")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.mod"), "module example.org/embeds\n\ngo 1.26.6\n")
	for _, line := range regexp.MustCompile("`(go get [^`]+)`").FindAllStringSubmatch(text(t, "docs/embedding.md"), -1) {
		words := strings.Fields(line[1])
		e.run(t, dir, words[0], words[1:]...)
	}
	e.run(t, dir, "go", "build", "-o", filepath.Join(e.bin, "page"), "./page")
	e.run(t, dir, "go", "test", "-vet=off", "-count=1", "./...")
}

// go install refuses a module whose go.mod replaces or excludes others, and ignores modules in its
// folders.
func TestTheModuleCanBeADependency(t *testing.T) {
	for line := range strings.Lines(text(t, "go.mod")) {
		if word := strings.Fields(line); len(word) > 0 && (word[0] == "replace" || word[0] == "exclude") {
			t.Errorf("go.mod has %q", strings.TrimSpace(line))
		}
	}
	files := tree(t)
	checked, err := zip.CheckFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	nested := map[string]bool{}
	for _, f := range files {
		if dir, name := filepath.Split(f.Path()); name == "go.mod" && dir != "" {
			nested[strings.TrimSuffix(dir, "/")] = true
		}
	}
	for _, path := range checked.Valid {
		for dir := range nested {
			if strings.HasPrefix(path, dir+"/") {
				t.Errorf("%s of the module in %s is in this one, too", path, dir)
			}
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-C", repository, "-f", "{{.Dir}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, path := range checked.Valid {
		have[filepath.Dir(path)] = true
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	for dir := range strings.Lines(string(out)) {
		rel, err := filepath.Rel(root, strings.TrimSpace(dir))
		if err != nil || !have[rel] {
			t.Errorf("the published module has no files of %s", strings.TrimSpace(dir))
		}
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	octets, err := os.ReadFile(filepath.Join(repository, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(octets)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// commands returns the lines of a document that begin with a text, without a comment.
func commands(t *testing.T, path, begin string) (list []string) {
	t.Helper()
	for line := range strings.Lines(text(t, path)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, begin) {
			line, _, _ = strings.Cut(line, "#")
			list = append(list, line)
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s has no command %q", path, begin)
	}
	return list
}

// blocks returns the Go code of a document.
func blocks(t *testing.T, path string) (list []string) {
	t.Helper()
	for _, found := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(text(t, path), -1) {
		list = append(list, found[1])
	}
	return list
}
