package worker

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// CommandOptions configure a Command. Program is required.
type CommandOptions struct {
	// Program is what is run for each task.
	Program proc.Config

	// MaxLine bounds a line of standard output, in octets. Default 8 MiB.
	MaxLine int

	// Grace is how long a process has between SIGTERM and SIGKILL. Default 2 s.
	Grace time.Duration

	// Observe gets the events of processes. It is called from many goroutines
	// at once and must not block. It may be nil.
	Observe func(Event)
}

// Event is something that happened to the process of a task, for the log.
type Event struct {
	Task *a2a.Task
	PID  int
	Node string // where the process runs; empty: here
	What What
	Line string // Stderr: the line, masked
	Err  error  // Failed: why. Exited: why the task failed; nil if it did not, or was stopped

	Output []string // Exited with Err: the last lines of standard error, masked
}

// What says what an Event is about.
type What string

// The events of a process.
const (
	Started What = "started"
	Exited  What = "exited"
	Failed  What = "failed" // could not be started
	Stderr  What = "stderr" // a line of standard error, at most 8 KiB of it
)

// Command is an a2a.Worker that runs a program for each task. It is safe for
// concurrent use.
type Command struct {
	program *proc.Program
	opts    CommandOptions
}

// NewCommand returns the worker. The program is looked up, but not run: a
// program that cannot be run is an error here.
func NewCommand(opts CommandOptions) (*Command, error) {
	if opts.MaxLine < 0 || opts.Grace < 0 {
		return nil, errors.New("worker: a bound is negative")
	}
	orDefault(&opts.MaxLine, maxLine)
	orDefault(&opts.Grace, 2*time.Second)
	if opts.Observe == nil {
		opts.Observe = func(Event) {}
	}
	program, err := proc.Resolve(opts.Program)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	return &Command{program: program, opts: opts}, nil
}

// Path returns the absolute path of the program.
func (c *Command) Path() string { return c.program.Path() }

// Run implements a2a.Worker. When it returns nothing is left of the process and
// its group. How many run at once is up to the caller.
func (c *Command) Run(ctx context.Context, t *a2a.Task, event func(message string, payload []byte) error) ([]byte, error) {
	p, err := c.program.Start(environment(ctx, t)...)
	if err != nil {
		c.opts.Observe(Event{Task: t, What: Failed, Err: err})
		return nil, &a2a.Failure{Reason: "the worker could not be started"}
	}
	r := &run{c: c, t: t, p: p, stop: make(chan struct{})}
	defer p.Close()
	c.opts.Observe(Event{Task: t, PID: p.PID(), Node: p.Node, What: Started})
	output, err := r.do(ctx, event)
	ended := Event{Task: t, PID: p.PID(), Node: p.Node, What: Exited}
	if err != nil && ctx.Err() == nil {
		ended.Err, ended.Output = err, r.said.Last()
	}
	c.opts.Observe(ended)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return output, err
}

// Variables are the names in the environment that describe a task.
var Variables = []string{"SWP_TASK_ID", "SWP_TASK_KIND", "SWP_PEER", "SWP_FOR", "TRACEPARENT", "TRACESTATE", "SWP_POLICY", "SWP_DELEGATION"}

// environment describes a task to its process. The names are fixed by Variables; no
// peer adds one.
func environment(ctx context.Context, t *a2a.Task) []string {
	env := []string{
		"SWP_TASK_ID=" + hex.EncodeToString(t.ID),
		"SWP_TASK_KIND=" + t.Kind,
		"SWP_PEER=" + profiles.Link(t.Peer),
	}
	if caller := profiles.For(t.Peer); caller != "" {
		env = append(env, "SWP_FOR="+caller)
	}
	if trace := profiles.TraceOf(ctx); trace.Parent != "" {
		env = append(env, "TRACEPARENT="+trace.Parent)
		if trace.State != "" {
			env = append(env, "TRACESTATE="+trace.State)
		}
	}
	if hints := profiles.HintsOf(ctx, t.Kind); len(hints) > 0 {
		env = append(env, "SWP_POLICY="+profiles.FormatHints(hints))
	}
	if d := profiles.DelegationOf(ctx); d != nil {
		env = append(env, "SWP_DELEGATION="+profiles.FormatDelegation(d))
	}
	return env
}

// run is one process at its task.
type run struct {
	c *Command
	t *a2a.Task
	p *proc.Process

	stop chan struct{}
	once sync.Once
	hard atomic.Bool // end it without SIGTERM

	said proc.Errors
}

func (r *run) end() { r.once.Do(func() { close(r.stop) }) }

func (r *run) grace() time.Duration {
	if r.hard.Load() {
		return 0
	}
	return r.c.opts.Grace
}

// do feeds the process and reads it until it has ended. err is why the task failed.
func (r *run) do(ctx context.Context, event func(string, []byte) error) (output []byte, err error) {
	defer context.AfterFunc(ctx, r.end)()
	var work sync.WaitGroup
	var status error // how the process ended
	work.Go(r.feed)
	work.Go(r.readErrors)
	work.Go(func() { status = r.p.Wait(r.stop, r.grace) })

	a := answer{event: event}
	lines := proc.Lines{R: proc.NewTail(r.p.Stdout), Limit: r.c.opts.MaxLine}
	for err == nil {
		var line []byte
		if line, err = lines.Next(); err == nil {
			err = a.take(line)
		}
	}
	if errors.Is(err, proc.ErrLineTooLong) {
		err = lineTooLong(lines.Limit)
	}
	ended := errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed)
	if !ended {
		r.hard.Store(errors.As(err, new(*a2a.Failure)))
		r.end()
	}
	work.Wait()
	switch {
	case !ended:
		return nil, err
	case status != nil:
		return nil, r.failure(status, a.output)
	}
	// Only a process that ended well has meant to write a last line without an
	// end.
	if err := a.take(bytes.TrimSuffix(lines.Rest(), []byte{'\r'})); err != nil {
		return nil, err
	}
	return a.output, nil
}

// feed writes the input. A process need not read it.
func (r *run) feed() {
	_, _ = r.p.Stdin.Write(r.t.Input)
	_ = r.p.Stdin.Close()
}

func (r *run) readErrors() {
	r.said.Line = func(line string) {
		r.c.opts.Observe(Event{Task: r.t, PID: r.p.PID(), Node: r.p.Node, What: Stderr, Line: line})
	}
	r.said.Drain(r.p.Stderr)
}

// failure is why a process failed, in its own words if it left any.
func (r *run) failure(status error, output []byte) error {
	text := ""
	if last := r.said.Last(); len(last) > 0 {
		text = reason([]byte(last[len(last)-1]))
	}
	if text == "" {
		text = "the worker ended with " + status.Error()
	}
	return &a2a.Failure{Reason: text, Output: output}
}
