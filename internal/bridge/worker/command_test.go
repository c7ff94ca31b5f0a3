package worker_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/internal/bridge/worker"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// scriptEnv makes this test binary the program of a worker.
const scriptEnv = "WORKER_SCRIPT"

func TestMain(m *testing.M) {
	if script, ok := scripts[os.Getenv(scriptEnv)]; ok {
		os.Exit(script())
	}
	goleak.VerifyTestMain(m)
}

// shell are programs for which the shell of this machine does.
var shell = map[string]string{
	"say":     `exec cat`,
	"fail":    `echo '{"output":{"left":1}}'; cat >&2; exit 3`,
	"crash":   `kill -KILL $$`,
	"deaf":    `echo '{"output":true}'`,
	"endless": `exec tr '\\0' x </dev/zero`,
}

// scripts are what this test binary may do as a program.
var scripts = map[string]func() int{
	// env writes the environment and the working directory.
	"env": func() int {
		for _, kv := range os.Environ() {
			fmt.Println(kv)
		}
		dir, err := os.Getwd()
		fmt.Println("in", dir)
		return status(err)
	},
	// count writes a number a line up to its input.
	"count": func() int {
		n, err := strconv.Atoi(strings.TrimSpace(string(input())))
		for i := range n {
			fmt.Println(i + 1)
		}
		return status(err)
	},
	// wait says its process id, then waits for SIGTERM and leaves a file.
	"wait": func() int {
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		file := string(input())
		fmt.Println(os.Getpid())
		<-terminated
		return status(os.WriteFile(file, []byte("terminated"), 0o600))
	},
	// stubborn has a child, says both process ids and ignores SIGTERM.
	"stubborn": func() int {
		signal.Ignore(syscall.SIGTERM)
		child := exec.Command("sleep", "1000")
		if err := child.Start(); err != nil {
			return status(err)
		}
		fmt.Println(os.Getpid())
		fmt.Println(child.Process.Pid)
		select {}
	},
	// escape leaves a process of another group that holds its output open. It is
	// told the file to write that process's id to.
	"escape": func() int {
		child := exec.Command("sleep", "1000")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			return status(err)
		}
		fmt.Println(`{"output":"left"}`)
		return status(os.WriteFile(string(input()), []byte(strconv.Itoa(child.Process.Pid)), 0o600))
	},
	// parent runs a worker whose process says its id, and never ends.
	"parent": func() int {
		self, err := os.Executable()
		if err != nil {
			return status(err)
		}
		c, err := worker.NewCommand(worker.CommandOptions{Program: proc.Config{
			Command: self, Env: []string{scriptEnv + "=wait"}, Path: os.Getenv("PATH"),
		}})
		if err != nil {
			return status(err)
		}
		_, err = c.Run(context.Background(), task("/dev/null"), func(message string, _ []byte) error {
			fmt.Println(message)
			return nil
		})
		return status(err)
	},
	// noisy writes 16 MiB to standard error.
	"noisy": func() int {
		line := append(bytes.Repeat([]byte{'x'}, 16<<10), '\n')
		for range 1 << 10 {
			if _, err := os.Stderr.Write(line); err != nil {
				return 1
			}
		}
		fmt.Println(`{"output":1}`)
		return 0
	},
}

func status(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func input() []byte {
	b, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	return b
}

// said is an Event.
type said struct{ Message, Payload string }

// outcome is what became of a task.
type outcome struct {
	events []said
	output string
	err    error
}

func command(t *testing.T, script string, opts worker.CommandOptions) *worker.Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	opts.Program.Command, opts.Program.Path = self, os.Getenv("PATH")
	opts.Program.Env = append(opts.Program.Env, scriptEnv+"="+script)
	if text, ok := shell[script]; ok {
		opts.Program.Command, opts.Program.Args = "sh", []string{"-c", text}
	}
	c, err := worker.NewCommand(opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func task(input string) *a2a.Task {
	return &a2a.Task{ID: []byte{0xca, 0xfe}, Kind: "summarize", Peer: "spiffe://example.org/a", Input: []byte(input)}
}

// do carries out one task and returns what the initiator would see.
func do(ctx context.Context, w a2a.Worker, t *a2a.Task) (o outcome) {
	var output []byte
	output, o.err = w.Run(ctx, t, func(message string, payload []byte) error {
		o.events = append(o.events, said{message, string(payload)})
		return nil
	})
	o.output = string(output)
	return o
}

func wantFailure(t *testing.T, err error, reason string) *a2a.Failure {
	t.Helper()
	var f *a2a.Failure
	if !errors.As(err, &f) || !strings.Contains(f.Reason, reason) {
		t.Fatalf("error %v, want a failure that says %q", err, reason)
	}
	return f
}

// lineRules are what workers write and what comes of it, for both kinds of
// worker.
var lineRules = []struct {
	name, lines string
	events      []said
	output      string
	reason      string // of a failure
}{
	{name: "text", lines: "reading\n 50 % \n{\"output\":1}\n", events: []said{{"reading", ""}, {" 50 % ", ""}}, output: "1"},
	{name: "an object is a payload, octet for octet", lines: " {\"b\": 1.50,\"a\":{\"output\":2}} \n{\"output\":null}\n", events: []said{{"", " {\"b\": 1.50,\"a\":{\"output\":2}} "}}, output: "null"},
	{name: "JSON that is no object is text", lines: "[{\"output\":1}]\n\"output\"\n{\"output\":0}\n", events: []said{{"[{\"output\":1}]", ""}, {"\"output\"", ""}}, output: "0"},
	{name: "broken JSON is text", lines: "{\"output\":1\n{\"output\":1}x\n{\"output\":{}}\n", events: []said{{"{\"output\":1", ""}, {"{\"output\":1}x", ""}}, output: "{}"},
	{name: "names are exact", lines: "{\"Output\":1}\n{\"outpu\\u0074\":2}\n", events: []said{{"", "{\"Output\":1}"}}, output: "2"},
	{name: "the value keeps its octets", lines: "{\"x\":0, \"output\" : { \"n\": 1.0e+2,\"n\":[ ] } }\n", output: "{ \"n\": 1.0e+2,\"n\":[ ] }"},
	{name: "a string keeps its quotes", lines: "{\"output\":\"a\\u0062\"}\n", output: "\"a\\u0062\""},
	{name: "blank lines and carriage returns", lines: "\n \t\r\none\r\n{\"output\":1}\r\n", events: []said{{"one", ""}}, output: "1"},
	{name: "octets that are no text", lines: "\xff\xfe\n{\"output\":1}\n", events: []said{{"", "\xff\xfe"}}, output: "1"},
	{name: "two outputs", lines: "{\"output\":1}\n{\"output\":1}\n", reason: "two outputs"},
	{name: "two outputs in a line", lines: "{\"output\":1,\"output\":1}\n", reason: "two outputs"},
}

func TestCommandLinesBecomeEventsAndTheOutput(t *testing.T) {
	for _, test := range lineRules {
		t.Run(test.name, func(t *testing.T) {
			o := do(t.Context(), command(t, "say", worker.CommandOptions{}), task(test.lines))
			if test.reason != "" {
				wantFailure(t, o.err, test.reason)
				return
			}
			if o.err != nil {
				t.Fatal(o.err)
			}
			if diff := cmp.Diff(test.events, o.events); diff != "" {
				t.Error(diff)
			}
			if o.output != test.output {
				t.Errorf("output %q, want %q", o.output, test.output)
			}
		})
	}
}

func TestCommandOutputIsOptionalAndMayComeBeforeEvents(t *testing.T) {
	for lines, want := range map[string]outcome{
		"":                       {},
		"done\n":                 {events: []said{{"done", ""}}},
		"done":                   {events: []said{{"done", ""}}},
		"{\"output\":1}\nlate\n": {events: []said{{"late", ""}}, output: "1"},
		"{\"output\":1}":         {output: "1"},
	} {
		o := do(t.Context(), command(t, "say", worker.CommandOptions{}), task(lines))
		if o.err != nil || o.output != want.output || !cmp.Equal(o.events, want.events, cmp.AllowUnexported(said{})) {
			t.Errorf("%q: %+v, want %+v", lines, o, want)
		}
	}
}

func TestCommandThatFailsSaysWhyInItsLastErrorLine(t *testing.T) {
	c := command(t, "fail", worker.CommandOptions{})
	for said, want := range map[string]string{
		"warning\nno such file\n\n":     "no such file",
		"bad \x1b[31mthing\xff":         "bad  [31mthing\uFFFD",
		strings.Repeat("é", 2000):       strings.Repeat("é", 512),
		"":                              "the worker ended with exit status 3",
		"x" + strings.Repeat("é", 2000): "x" + strings.Repeat("é", 511),
		strings.Repeat("long", 1<<20) + "\nshort": "short",
	} {
		f := wantFailure(t, do(t.Context(), c, task(said)).err, "")
		if f.Reason != want {
			t.Errorf("%.40q: reason %q, want %q", said, f.Reason, want)
		}
		if got := string(f.Output); got != `{"left":1}` {
			t.Errorf("%.40q: output %q of the failure", said, got)
		}
	}
	wantFailure(t, do(t.Context(), command(t, "crash", worker.CommandOptions{}), task("")).err, "the worker ended with signal: killed")
}

// hints are those of a task: the second is for another kind.
var hints = []profiles.Hint{
	{Key: "note", Value: "a\r\nb", Mode: profiles.May, Scope: "task:cafe"},
	{Key: "no_pii", Value: "true", Mode: profiles.Should, Scope: "target:translate"},
	{Key: "region", Value: "eu", Mode: profiles.Must, Scope: profiles.ScopeConnection},
}

func TestCommandLearnsOfItsTaskFromTheEnvironmentAlone(t *testing.T) {
	ctx := profiles.WithTrace(t.Context(), profiles.Trace{Parent: "00-1-2-01", State: "a=b"})
	ctx = profiles.WithHints(ctx, hints)
	dir := t.TempDir()
	c := command(t, "env", worker.CommandOptions{Program: proc.Config{Dir: dir, Env: []string{"KEY=value", "SWP_PEER=forged"}}})
	o := do(ctx, c, task(""))
	if o.err != nil {
		t.Fatal(o.err)
	}
	var got []string
	for _, e := range o.events {
		got = append(got, e.Message)
	}
	want := map[string]bool{
		"PATH=" + os.Getenv("PATH"): true, scriptEnv + "=env": true, "KEY=value": true, "in " + dir: true,
		"SWP_TASK_ID=cafe": true, "SWP_TASK_KIND=summarize": true, "SWP_PEER=spiffe://example.org/a": true,
		"TRACEPARENT=00-1-2-01": true, "TRACESTATE=a=b": true, "SWP_POLICY=region=eu;MUST, note=a%0D%0Ab;MAY": true,
	}
	for _, line := range got {
		if !want[line] {
			t.Errorf("unexpected %q", line)
		}
		delete(want, line)
	}
	for line := range want {
		t.Errorf("no %q", line)
	}
}

// Another process accepts no other names.
func TestTheNamesInTheEnvironmentAreKnown(t *testing.T) {
	ctx := profiles.WithTrace(t.Context(), profiles.Trace{Parent: "00-1-2-01", State: "a=b"})
	ctx = profiles.WithDelegation(profiles.WithHints(ctx, hints), new(profiles.Delegation))
	var names []string
	c := command(t, "env", worker.CommandOptions{Program: proc.Config{Place: func(more []string) (*proc.Link, func()) {
		for _, entry := range more {
			name, _, _ := strings.Cut(entry, "=")
			names = append(names, name)
		}
		return nil, nil
	}}})
	one := task("")
	one.Peer = profiles.OnBehalf(one.Peer, "a caller")
	if o := do(ctx, c, one); o.err != nil {
		t.Fatal(o.err)
	}
	slices.Sort(names)
	if known := slices.Sorted(slices.Values(worker.Variables)); !slices.Equal(names, known) {
		t.Errorf("%q, and known are %q", names, known)
	}
}

func TestGW01NothingOfATaskIsReadAsACommand(t *testing.T) {
	c := command(t, "say", worker.CommandOptions{})
	odd := task("; touch /x\n$(id)\n")
	odd.Kind = "k\nLD_PRELOAD=/x; $(id)"
	if o := do(t.Context(), c, odd); o.err != nil || len(o.events) != 2 {
		t.Errorf("%+v", o)
	}
	odd.Kind = "k\x00LD_PRELOAD=/x"
	wantFailure(t, do(t.Context(), c, odd).err, "could not be started")

	for name, cfg := range map[string]proc.Config{
		"relative path": {Command: "bin/worker", Path: "/bin"},
		"not in PATH":   {Command: "no-such-program", Path: os.Getenv("PATH")},
		"relative PATH": {Command: "sh", Path: "bin:."},
		"PATH":          {Command: "/bin/sh", Env: []string{"PATH=/x"}},
		"no command":    {},
	} {
		if _, err := worker.NewCommand(worker.CommandOptions{Program: cfg}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestGW02InputThatIsNotReadHoldsUpNothing(t *testing.T) {
	o := do(t.Context(), command(t, "deaf", worker.CommandOptions{}), task(strings.Repeat("x", 4<<20)))
	if o.err != nil || o.output != "true" {
		t.Errorf("%+v", o)
	}
}

func TestGW03LineAboveTheLimitEndsTheCommand(t *testing.T) {
	limit := 1000
	c := command(t, "say", worker.CommandOptions{MaxLine: limit})
	if o := do(t.Context(), c, task(strings.Repeat("x", limit)+"\n")); o.err != nil || len(o.events) != 1 {
		t.Errorf("a line of %d octets: %+v", limit, o)
	}
	wantFailure(t, do(t.Context(), c, task(strings.Repeat("x", limit+1)+"\n")).err, "more than 1000 octets")
	wantFailure(t, do(t.Context(), command(t, "endless", worker.CommandOptions{}), task("")).err, "more than 8388608 octets")
}

func TestGW03StandardErrorIsDrainedAndBounded(t *testing.T) {
	var mu sync.Mutex
	lines, longest := 0, 0
	c := command(t, "noisy", worker.CommandOptions{Observe: func(e worker.Event) {
		if e.What == worker.Stderr {
			mu.Lock()
			defer mu.Unlock()
			lines++
			longest = max(longest, len(e.Line))
		}
	}})
	if o := do(t.Context(), c, task("")); o.err != nil || o.output != "1" {
		t.Errorf("%+v", o)
	}
	if longest != proc.MaxErrorLine {
		t.Errorf("longest line %d octets, want %d", longest, proc.MaxErrorLine)
	}
	if lines >= 1<<10 {
		t.Errorf("all of %d lines were reported", lines)
	}
}

// running starts a task and returns the process ids that its first n Events name.
func running(ctx context.Context, t *testing.T, c *worker.Command, in string, n int) (pids []int, done <-chan outcome) {
	t.Helper()
	events, ended := make(chan string, n), make(chan outcome, 1)
	go func() {
		output, err := c.Run(ctx, task(in), func(message string, _ []byte) error {
			events <- message
			return nil
		})
		ended <- outcome{output: string(output), err: err}
	}()
	for range n {
		select {
		case message := <-events:
			pid, err := strconv.Atoi(message)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		case o := <-ended:
			t.Fatalf("ended with %v", o.err)
		}
	}
	return pids, ended
}

// gone reports whether no process has the id, or only one that waits to be
// collected by init.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") Z "))
}

// awaitGone waits until a process that was killed is gone: it is not collected here.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !gone(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d is there", pid)
		}
	}
}

func TestCommandIsTerminatedWithItsContext(t *testing.T) {
	why := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	file := filepath.Join(t.TempDir(), "left")
	pids, done := running(ctx, t, command(t, "wait", worker.CommandOptions{}), file, 1)
	cancel(why)
	if o := <-done; !errors.Is(o.err, why) {
		t.Errorf("error %v, want %v", o.err, why)
	}
	if b, err := os.ReadFile(file); string(b) != "terminated" {
		t.Errorf("the process left %q, %v", b, err)
	}
	if !gone(pids[0]) {
		t.Error("the process is there")
	}
}

func TestStubbornCommandIsKilledWithItsGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	pids, done := running(ctx, t, command(t, "stubborn", worker.CommandOptions{Grace: 50 * time.Millisecond}), "", 2)
	cancel()
	if o := <-done; !errors.Is(o.err, context.Canceled) {
		t.Errorf("error %v", o.err)
	}
	for _, pid := range pids {
		awaitGone(t, pid)
	}
}

func TestOutputHeldOpenByAnEscapedProcessIsNotWaitedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	o := do(t.Context(), command(t, "escape", worker.CommandOptions{}), task(file))
	if o.err != nil || o.output != `"left"` {
		t.Errorf("%+v", o)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestEventThatIsNotTakenEndsTheCommand(t *testing.T) {
	over := errors.New("the task is over")
	c := command(t, "count", worker.CommandOptions{})
	n := 0
	_, err := c.Run(t.Context(), task("100000"), func(string, []byte) error {
		if n++; n == 3 {
			return over
		}
		return nil
	})
	if !errors.Is(err, over) || n != 3 {
		t.Errorf("%d events, error %v", n, err)
	}
}

// TestDeathOfTheParentEndsTheCommand runs a worker in another process and kills
// that one.
func TestDeathOfTheParentEndsTheCommand(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), scriptEnv+"=parent")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	awaitGone(t, pid)
}
