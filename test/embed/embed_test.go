// Package embed_test holds this repository to what a program needs that embeds swpd: a
// profile of its own is one folder in another module.
package embed_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The module in testdata has a profile in one folder. Its test runs swpd with it, calls
// it, and asks what the rules say of it. A workspace joins the module with this one, so
// that the packages of this one are compiled once for both.
func TestAProfileOfAnotherModuleIsServed(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "greeter"), os.DirFS("testdata/module")); err != nil {
		t.Fatal(err)
	}
	const version = "go 1.26.6\n"
	for name, text := range map[string]string{
		"go.mod":  "module example.org/embeds\n\n" + version,
		"go.work": version + fmt.Sprintf("\nuse (\n\t.\n\t%q\n)\n", root),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
