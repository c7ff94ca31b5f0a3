package clitest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// While a program runs in the process of the tests, the environment is that of its script.
func TestAScriptThatBeginsMeanwhileHasThePathOfTheTests(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "one.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	begun := false
	p := testscript.Params{
		Dir: dir, Cmds: make(map[string]func(*testscript.TestScript, bool, []string)),
		Setup: func(*testscript.Env) error { begun = true; return nil },
	}
	Add(t, &p, nil)
	want := os.Getenv("PATH")
	t.Setenv("PATH", "/of/a/program")
	e := &testscript.Env{Vars: []string{"PATH=/of/a/program"}}
	if err := p.Setup(e); err != nil || !begun {
		t.Fatalf("%v, its own Setup was called: %v", err, begun)
	}
	if got := e.Getenv("PATH"); got != want {
		t.Errorf("PATH %q, want %q", got, want)
	}
}
