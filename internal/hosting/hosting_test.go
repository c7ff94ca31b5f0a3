package hosting_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/internal/hosting"
	"github.com/slimwire/swp/internal/passing"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/transporttest"
)

// patience limits the wait for an expected event.
const patience = time.Minute

// rig is two processes of an endpoint: programs of one run at the other.
type rig struct {
	t      *testing.T
	taker  *passing.Taker
	passer *passing.Passer
	at     passing.Place
	lose   func() // ends at.Until
	host   *hosting.Host
	offers sync.Map    // *hosting.Offer, by entry
	placed func(error) // of a start
}

func newRig(t *testing.T) *rig {
	t.Helper()
	transporttest.NoLeaks(t)
	r := &rig{t: t}
	r.host = &hosting.Host{OnStart: func(string, int) {}, Offer: func(entry string) (*hosting.Offer, error) {
		if o, ok := r.offers.Load(entry); ok {
			return o.(*hosting.Offer), nil
		}
		return nil, fmt.Errorf("no entry %q", entry)
	}}
	own, err := passing.NewKey("a")
	must(t, err)
	other, err := passing.NewKey("b")
	must(t, err)
	r.taker, err = passing.Listen(passing.TakerOptions{
		Address: "127.0.0.1:0", Own: other, Policy: transporttest.NewCA(t).Policy(t, "swp://endpoint.example"), OnSecurity: func(transport.SecurityEvent) {},
		Work: r.host.Serve,
	})
	must(t, err)
	r.taker.Trust(own.Certificate)
	t.Cleanup(func() { _ = r.taker.Close() })
	r.passer = &passing.Passer{Own: own}
	r.at = passing.Place{Name: "b", Address: r.taker.Addr().String(), Certificate: other.Certificate[0]}
	r.at.Until, r.lose = context.WithCancel(context.Background())
	t.Cleanup(r.lose)
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func shell(script string) proc.Config {
	return proc.Config{Command: "sh", Args: []string{"-c", script}, Path: os.Getenv("PATH"), Env: []string{"KEY=value"}}
}

// program returns a program that runs at the other process, which offers it as an entry.
func (r *rig) program(entry string, c proc.Config) *proc.Program {
	r.t.Helper()
	r.offers.Store(entry, &hosting.Offer{Program: c, Most: 2, Env: []string{"TASK"}, Grace: patience})
	return r.asking(entry, c)
}

func (r *rig) asking(entry string, c proc.Config) *proc.Program {
	r.t.Helper()
	own := c
	c.Place = func(env []string) (*proc.Link, func()) {
		link, err := hosting.Start(r.t.Context(), r.passer, r.at, entry, &own, env)
		if r.placed != nil {
			r.placed(err)
		} else if err != nil {
			r.t.Error(err)
		}
		if link != nil {
			link.Leaving = r.t.Context()
		}
		return link, nil
	}
	p, err := proc.Resolve(c)
	must(r.t, err)
	return p
}

// running is a process, and what it wrote.
type running struct {
	*proc.Process
	stop      context.CancelFunc
	grace     time.Duration
	status    chan error
	out, errs chan []byte
}

func (r *rig) start(p *proc.Program, env ...string) *running {
	r.t.Helper()
	started, err := p.Start(env...)
	must(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	one := &running{started, cancel, patience, make(chan error, 1), make(chan []byte, 1), make(chan []byte, 1)}
	go func() { one.status <- one.Wait(ctx.Done(), func() time.Duration { return one.grace }) }()
	read := func(f *os.File, to chan []byte) {
		text, _ := io.ReadAll(proc.NewTail(f))
		to <- text
	}
	go read(one.Stdout, one.out)
	go read(one.Stderr, one.errs)
	r.t.Cleanup(func() { cancel(); one.Close() })
	return one
}

func got[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatal("no " + what)
	}
	return v
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	for late := time.Now().Add(patience); syscall.Kill(pid, 0) == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("process %d runs", pid)
		}
	}
}

func TestOctetsPassUnchangedInBothDirections(t *testing.T) {
	r := newRig(t)
	input := make([]byte, 0, 5<<20)
	for sum := sha256.Sum256(nil); len(input) < 5<<20; sum = sha256.Sum256(sum[:]) {
		input = append(input, sum[:]...)
	}
	p := r.start(r.program("mcp/cat", shell("cat; printf 'an error\n' >&2; printf 'no end' >&2")))
	if p.Node != "b" || p.PID() <= 1 || p.PID() == os.Getpid() {
		t.Errorf("process %d at %q", p.PID(), p.Node)
	}
	go func() { _, _ = p.Stdin.Write(input); _ = p.Stdin.Close() }()
	if out := got(t, "output", p.out); !bytes.Equal(out, input) {
		t.Errorf("%d octets, want %d", len(out), len(input))
	}
	if errs := got(t, "errors", p.errs); string(errs) != "an error\nno end" {
		t.Errorf("errors %q", errs)
	}
	if err := got(t, "status", p.status); err != nil {
		t.Error(err)
	}
	gone(t, p.PID())
}

func TestTheStatusIsThatOfTheProgram(t *testing.T) {
	r := newRig(t)
	for script, want := range map[string]string{"exit 3": "exit status 3", "kill -9 $$": "signal: killed"} {
		p := r.start(r.program("mcp/one", shell(script)))
		if err := got(t, "status", p.status); err == nil || err.Error() != want {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestTheEnvironmentIsThatOfTheHost(t *testing.T) {
	r := newRig(t)
	p := r.start(r.program("a2a/one", shell(`echo $KEY $TASK`)), "TASK=a b")
	if out := got(t, "output", p.out); string(out) != "value a b\n" {
		t.Errorf("%q", out)
	}
	got(t, "status", p.status)
}

// A program may end before anybody reads what it wrote.
func TestWhatAnEndedProgramWroteIsNotLost(t *testing.T) {
	r := newRig(t)
	program := r.program("mcp/much", shell("head -c 300000 /dev/zero; head -c 60000 /dev/zero >&2"))
	p, err := program.Start()
	must(t, err)
	defer p.Close()
	status := make(chan error, 1)
	go func() { status <- p.Wait(nil, nil) }()
	gone(t, p.PID())
	errs, err := io.ReadAll(p.Stderr)
	must(t, err)
	out, err := io.ReadAll(p.Stdout)
	must(t, err)
	if len(out) != 300000 || len(errs) != 60000 {
		t.Errorf("%d and %d octets", len(out), len(errs))
	}
	must(t, got(t, "status", status))
}

func TestAProgramIsStoppedWithGrace(t *testing.T) {
	r := newRig(t)
	const deaf = `trap "" TERM; echo ready; while :; do sleep 600; done`
	for name, tt := range map[string]struct {
		script string
		grace  time.Duration
		want   string
	}{
		"that heeds SIGTERM":    {`trap "echo bye; exit 5" TERM; echo ready; while :; do sleep 0.02; done`, patience, "exit status 5"},
		"that ignores it":       {deaf, time.Millisecond, "signal: killed"},
		"without grace":         {`trap "exit 5" TERM; echo ready; while :; do sleep 600; done`, 0, "signal: killed"},
		"at the end of input":   {`trap "" TERM; echo ready; cat; exit 6`, patience, "exit status 6"},
		"that nobody reads":     {`echo ready; trap "" PIPE; yes; exit 0`, 0, "signal: killed"},
		"whose child is silent": {`echo ready; sleep 600 & wait`, patience, "signal: terminated"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := r.program("mcp/one", shell(tt.script)).Start()
			must(t, err)
			defer p.Close()
			line := make([]byte, 6)
			_, err = io.ReadFull(p.Stdout, line)
			must(t, err)
			stop := make(chan struct{})
			close(stop)
			if err := p.Wait(stop, func() time.Duration { return tt.grace }); err == nil || err.Error() != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
			gone(t, p.PID())
		})
	}
}

// A loss of the link is the end of the process for one side, and the other side ends it.
func TestAProgramEndsWithItsLink(t *testing.T) {
	for name, lose := range map[string]func(r *rig){
		"because the node is given up": func(r *rig) { r.lose() },
		"because the node ends":        func(r *rig) { go func() { _ = r.taker.Close() }() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := r.start(r.program("mcp/one", shell("sleep 600 & echo $!; wait")))
			lose(r)
			err := got(t, "status", p.status)
			if err == nil || name == "because the node is given up" && !strings.Contains(err.Error(), "the link to node b is lost") {
				t.Error(err)
			}
			gone(t, p.PID())
		})
	}
}

func TestAHostRunsOnlyItsOwnPrograms(t *testing.T) {
	r := newRig(t)
	known := shell("echo ran")
	other := shell("echo other")
	var refusal error
	r.placed = func(err error) { refusal = err }
	r.program("a2a/known", known)
	for name, tt := range map[string]struct {
		entry string
		c     proc.Config
		env   string
		want  string
	}{
		"an unknown entry":    {"mcp/unknown", known, "", `no entry "mcp/unknown"`},
		"another program":     {"a2a/known", other, "", "another program here"},
		"another environment": {"a2a/known", proc.Config{Command: known.Command, Args: known.Args, Path: known.Path, Env: []string{"KEY=x"}}, "", "another program here"},
		"a variable":          {"a2a/known", known, "LD_PRELOAD=/x", `"LD_PRELOAD" is no variable of a2a/known`},
		"a name without end":  {"a2a/known", known, "TASKS", `"TASKS" is no variable`},
		"an octet of 0":       {"a2a/known", known, "TASK=\x00", "is no variable"},
		"no value":            {"a2a/known", known, "TASK", "is no variable"},
		"the path":            {"a2a/known", known, "PATH=/x", `"PATH" is no variable`},
	} {
		t.Run(name, func(t *testing.T) {
			var env []string
			if tt.env != "" && !strings.Contains(tt.env, "\x00") {
				env = append(env, tt.env)
			} else if tt.env != "" {
				_, refusal = hosting.Start(t.Context(), r.passer, r.at, tt.entry, &tt.c, []string{tt.env})
			}
			if tt.env == "" || env != nil {
				p := r.start(r.asking(tt.entry, tt.c), env...)
				if got(t, "status", p.status); p.Node != "" {
					t.Error("it ran at the other process")
				}
			}
			if !errors.Is(refusal, passing.ErrRefused) || !strings.Contains(refusal.Error(), tt.want) {
				t.Error(refusal)
			}
		})
	}
	missing := proc.Config{Command: filepath.Join(t.TempDir(), "missing"), Path: known.Path}
	r.offers.Store("mcp/missing", &hosting.Offer{Program: missing, Most: 1})
	if _, err := hosting.Start(t.Context(), r.passer, r.at, "mcp/missing", &missing, nil); !errors.Is(err, passing.ErrRefused) || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
	r.placed = nil
	p := r.start(r.asking("a2a/known", known))
	if got(t, "status", p.status); p.Node != "b" {
		t.Error("what it knows does not run there any more")
	}
}

func TestAHostRunsAtMostAsManyProcessesAsTheEntryMayHave(t *testing.T) {
	r := newRig(t)
	program := r.program("mcp/one", shell("cat"))
	var refusal error
	r.placed = func(err error) { refusal = err }
	var list []*running
	for i, node := range []string{"b", "b", ""} { // Most is 2
		p := r.start(program)
		if list = append(list, p); p.Node != node {
			t.Errorf("process %d runs at %q", i+1, p.Node)
		}
	}
	if !errors.Is(refusal, passing.ErrRefused) || !strings.Contains(refusal.Error(), "2 processes of mcp/one run here") {
		t.Error(refusal)
	}
	if r.host.Links() != 2 {
		t.Errorf("%d links", r.host.Links())
	}
	_ = list[0].Stdin.Close()
	must(t, got(t, "status", list[0].status))
	if p := r.start(program); p.Node != "b" {
		t.Error("the place of a process that ended is not free")
	} else {
		list = append(list, p)
	}
	for _, p := range slices.Backward(list) {
		_ = p.Stdin.Close()
	}
	for _, p := range list[1:] {
		must(t, got(t, "status", p.status))
	}
	for late := time.Now().Add(patience); r.host.Links() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%d links", r.host.Links())
		}
	}
}
