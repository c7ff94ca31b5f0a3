package main

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/slimwire/swp/cmd/internal/cli/clitest"
	"github.com/slimwire/swp/cmd/swpd/internal/command"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"swpd": func() { os.Exit(swpd(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

func swpd(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	return command.Main("v1.2.3", args, stdout, stderr)
}

func TestScripts(t *testing.T) {
	p := testscript.Params{
		Dir:      "testdata",
		Deadline: time.Now().Add(8 * time.Minute),
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_DATA_HOME", e.WorkDir+"/xdg")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": await,
		},
	}
	clitest.Add(t, &p, clitest.Programs{"swpd": swpd})
	testscript.Run(t, p)
}

// await FILE waits until another program has written FILE.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	name := ts.MkAbs(args[0])
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond) // it is another process: there is nothing to wait on
	}
	ts.Fatalf("%s was not written", args[0])
}
