// Package clitest runs programs in the process of their testscripts. To start a process
// takes longer than most commands do; exec remains for scripts that need one: pipes,
// signals, background programs.
package clitest

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Programs are the main functions of programs, by name: they return the exit code.
type Programs map[string]func(args []string, stdin io.Reader, stdout, stderr io.Writer) int

// Add adds to the commands of the scripts in the directory p.Dir:
//
//	run PROGRAM ARG...         run a program, which must succeed; with !, fail
//	exits CODE PROGRAM ARG...  run a program, which must end with that exit code
//
// The working directory and the environment of a program are those of the script. They
// belong to the whole process, and so one program runs at a time; standard input is empty.
func Add(t *testing.T, p *testscript.Params, programs Programs) {
	t.Helper()
	dir, err := filepath.Abs(p.Dir) // a program that runs is elsewhere
	if err != nil {
		t.Fatal(err)
	}
	p.Dir = dir
	r := &runner{programs: programs, variables: variables(t, dir)}
	// A script that begins while a program runs would take over the program's PATH.
	path, setup := os.Getenv("PATH"), p.Setup
	p.Setup = func(e *testscript.Env) error {
		e.Setenv("PATH", path)
		if setup == nil {
			return nil
		}
		return setup(e)
	}
	p.Cmds["run"] = func(ts *testscript.TestScript, neg bool, args []string) {
		if len(args) == 0 {
			ts.Fatalf("usage: run PROGRAM ARG...")
		}
		if code := r.run(ts, args[0], args[1:]); (code != 0) != neg {
			ts.Fatalf("%s: exit code %d", args[0], code)
		}
	}
	p.Cmds["exits"] = func(ts *testscript.TestScript, neg bool, args []string) {
		if len(args) < 2 || neg {
			ts.Fatalf("usage: exits CODE PROGRAM ARG...")
		}
		if code := r.run(ts, args[1], args[2:]); strconv.Itoa(code) != args[0] {
			ts.Fatalf("%s: exit code %d, want %s", args[1], code, args[0])
		}
	}
}

// always are variables that every script may have.
var always = []string{"HOME", "PATH", "TMPDIR", "XDG_DATA_HOME", "XDG_STATE_HOME"}

// variables lists the environment variables that the scripts of a directory set.
func variables(t *testing.T, dir string) []string {
	t.Helper()
	names := slices.Clone(always)
	scripts, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("scripts in %s: %v, error %v", dir, scripts, err)
	}
	set := regexp.MustCompile(`(?m)^env (.*)$`)
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range set.FindAllStringSubmatch(string(text), -1) {
			for word := range strings.FieldsSeq(line[1]) {
				if name, _, ok := strings.Cut(word, "="); ok {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

type runner struct {
	programs  Programs
	variables []string
	process   sync.Mutex // held while a program uses the working directory and the environment
}

// run runs a program and returns its exit code.
func (r *runner) run(ts *testscript.TestScript, name string, args []string) int {
	program := r.programs[name]
	if program == nil {
		ts.Fatalf("there is no program %q to run", name)
	}
	stdout, stderr := ts.Stdout(), ts.Stderr()
	r.process.Lock()
	defer r.process.Unlock()
	dir, err := os.Getwd()
	ts.Check(err)
	environ := os.Environ()
	defer func() {
		become(ts, dir, environ)
	}()
	var own []string
	for _, name := range r.variables {
		if value := ts.Getenv(name); value != "" {
			own = append(own, name+"="+value)
		}
	}
	become(ts, ts.MkAbs("."), own)
	return program(args, strings.NewReader(""), stdout, stderr)
}

// become changes the working directory and the environment of this process.
func become(ts *testscript.TestScript, dir string, environ []string) {
	os.Clearenv()
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		ts.Check(os.Setenv(name, value))
	}
	ts.Check(os.Chdir(dir))
}
