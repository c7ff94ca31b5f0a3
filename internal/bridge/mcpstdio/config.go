package mcpstdio

import (
	"fmt"
	"strings"
	"time"

	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// Config describes one server. It comes from the operator; nothing that a peer
// sends reaches it. Name and Command are required, zero elsewhere means the
// default that is named.
type Config struct {
	// Name is the target by which peers ask for the server. It has no '/'.
	Name string

	// Command is an absolute path, or a bare name that New looks up in Path,
	// once. No shell is involved.
	Command string
	Args    []string

	// Env is the environment of the children, as "KEY=value", beside PATH.
	// Nothing is inherited.
	Env []string

	// Path is the PATH in which Command is looked up and which the children get.
	// Only its absolute entries count.
	Path string

	// Dir is the working directory, default "/".
	Dir string

	// Groups keeps the process groups of the children while they run; it may be nil.
	Groups *proc.Groups

	// Place decides where each child runs; nil: here. See proc.Config.
	Place func(more []string) (there *proc.Link, ended func())

	// MaxChildren bounds the processes at once, sessions and shared ones
	// together. Default 64.
	MaxChildren int

	// MaxShared bounds the processes that serve the stateless era. Default 8.
	MaxShared int

	// MaxWaiting bounds the requests that wait for a child. Default 256.
	MaxWaiting int

	Idle        time.Duration // of a shared child without a request until it is stopped, default 10 min
	SessionIdle time.Duration // of a session without a message until it is ended, default 24 h
	Lifetime    time.Duration // after which a child gets nothing new and is stopped when idle, default none
	Grace       time.Duration // between SIGTERM and SIGKILL, default 5 s
	ProbeTime   time.Duration // to learn the era of the server, default profiles.ProbeWait

	Timeouts mcpmap.Timeouts // of calls

	// MaxLine bounds a message of a child, in octets. Default 8 MiB.
	MaxLine int

	// Memory is the budget for long messages of the children, and for those that wait for
	// them to read, in which the server is a separate identity. Nil: one of 256 MiB.
	Memory *memory.Budget

	// Observe gets the events of children. It is called from many goroutines at
	// once and must not block. It may be nil.
	Observe func(Event)

	// Answered is called for each response of a child, from many goroutines at once. It must not block, and may be nil.
	Answered func()

	minBackoff time.Duration // 1 s; tests are less patient
	discover   time.Duration // how long the probe waits for an answer before it also tries initialize

	// abandoned is how long the id of a cancelled request stays taken: a child may answer it, or not. That of a
	// subscription is free as soon as the child has answered a question that it got after the cancellation.
	abandoned time.Duration
	silent    time.Duration // how long a child may say nothing after a question of this side
}

// Event is something that happened to a child, for the log.
type Event struct {
	Server string
	PID    int
	Node   string // where the child runs; empty: here
	What   What
	Line   string // Stderr: the line, masked
	Octets int    // Noise: how long the line was
	Err    error  // Exited, Failed, Silent, Noise: why; nil for a child that was not needed any more

	Output []string // Exited with Err: the last lines of standard error, masked
}

// What says what an Event is about.
type What string

// The events of a child.
const (
	Started What = "started"
	Exited  What = "exited" // by itself or because it was stopped
	Failed  What = "failed" // could not be started
	Silent  What = "silent" // a call had its whole time without a message
	Stderr  What = "stderr" // a line of standard error, at most 8 KiB of it
	Noise   What = "noise"  // a line of standard output that is not a message
)

func (c Config) withDefaults() Config {
	orDefault(&c.MaxChildren, 64)
	orDefault(&c.MaxShared, 8)
	orDefault(&c.MaxWaiting, 256)
	orDefault(&c.Idle, 10*time.Minute)
	orDefault(&c.SessionIdle, 24*time.Hour)
	orDefault(&c.Grace, 5*time.Second)
	orDefault(&c.ProbeTime, profiles.ProbeWait)
	orDefault(&c.MaxLine, 8<<20)
	if c.Memory == nil {
		c.Memory = memory.New(256 << 20)
	}
	orDefault(&c.minBackoff, time.Second)
	orDefault(&c.discover, profiles.DiscoverWait)
	orDefault(&c.abandoned, time.Minute)
	orDefault(&c.silent, time.Minute)
	if c.Observe == nil {
		c.Observe = func(Event) {}
	}
	if c.Answered == nil {
		c.Answered = func() {}
	}
	return c
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (c *Config) validate() error {
	switch {
	case c.Name == "" || strings.Contains(c.Name, "/"):
		return fmt.Errorf("mcpstdio: name %q, want one without a slash", c.Name)
	case c.MaxChildren < 1 || c.MaxShared < 1 || c.MaxWaiting < 0 || c.MaxLine < 1:
		return fmt.Errorf("mcpstdio: %s: a bound is negative", c.Name)
	case c.Idle < 0 || c.SessionIdle < 0 || c.Lifetime < 0 || c.Grace < 0 || c.ProbeTime < 0:
		return fmt.Errorf("mcpstdio: %s: a duration is negative", c.Name)
	}
	return nil
}

// resolve finds the program.
func (c *Config) resolve() (*proc.Program, error) {
	program, err := proc.Resolve(proc.Config{Command: c.Command, Args: c.Args, Env: c.Env, Path: c.Path, Dir: c.Dir, Groups: c.Groups, Place: c.Place})
	if err != nil {
		return nil, fmt.Errorf("mcpstdio: %s: %w", c.Name, err)
	}
	return program, nil
}
