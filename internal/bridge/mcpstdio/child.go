package mcpstdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

const (
	// Bounds of the input queued for a child.
	maxQueuedLines  = 1024
	maxQueuedOctets = 16 << 20

	// roomTime is how long a message of a child waits for room.
	roomTime = 5 * time.Second

	// maxAhead bounds the requests queued for a shared child: others wait in its pool, where
	// identities take turns.
	maxAhead = 16

	// stuckTime is how long a child may leave a line unread before it counts as
	// stuck and is stopped.
	stuckTime = time.Minute

	// A peer for which a shared child has waited for profiles.SharedWait gets no such time for
	// hastyTime.
	hastyTime = time.Minute
)

// child is one process. It reads messages from it and writes lines to it; its
// owner interprets them.
type child struct {
	s       *Server
	share   *memory.Share // of the server
	started time.Time
	done    chan struct{} // closed when the process and its goroutines are gone

	reading context.Context              // of the reader of its messages; it ends when the child is stopped
	process atomic.Pointer[proc.Process] // nil: not started yet
	spoke   atomic.Int64                 // age of the child at its last message; 0: it has written none
	hard    atomic.Bool                  // stop it without SIGTERM
	left    atomic.Bool                  // it ended by itself
	broken  atomic.Pointer[profiles.Error]
	said    proc.Errors // its standard error

	mu       sync.Mutex
	queue    []queued
	octets   int
	full     bool          // something was refused since the queue was last empty
	wake     chan struct{} // one slot
	stopping bool
	stop     chan struct{} // closed when stopping

	// The rest is guarded by the Server's mu.
	owner   owner
	flights map[string]*flight // by the key of the id
	tokens  map[string]*flight // by the key of the progress token
	held    map[string]int     // tasks under way in its memory, by the identity of their callers
	life    life
	used    time.Time // when it was last busy
	idle    *time.Timer

	// dismissed children were stopped by this side; their end does not count as a failure.
	dismissed bool

	departing bool // its node is about to end
}

// queued is a line for a child.
type queued struct {
	line []byte
	paid bool // its octets are in the budget
}

// owner is who a child works for.
type owner interface {
	// message gets each message of the child, in order, valid until it returns.
	// It is called without locks.
	message(c *child, m *mcpmap.Message)

	// malformed gets the outline of JSON that is not a message.
	malformed(c *child, m *mcpmap.Message)

	// ended is called once, after the last message, without locks.
	ended(c *child, why *profiles.Error)
}

func newChild(s *Server, o owner) *child {
	return &child{
		s: s, owner: o, share: s.cfg.Memory.Share("server " + s.cfg.Name), started: time.Now(), used: time.Now(),
		done: make(chan struct{}), wake: make(chan struct{}, 1), stop: make(chan struct{}),
		flights: make(map[string]*flight), tokens: make(map[string]*flight), held: make(map[string]int),
	}
}

// hasRoom says whether the child keeps up well enough to be given a line of n
// octets, with fewer than some lines before it.
func (c *child) hasRoom(n, lines int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.room(n, lines)
}

// room is hasRoom with mu held.
func (c *child) room(n, lines int) bool {
	if c.stopping || len(c.queue) >= lines || len(c.queue) > 0 && c.octets+n > maxQueuedOctets {
		c.full = true
		return false
	}
	return true
}

// write queues a line; it fails if the child does not keep up.
func (c *child) write(line []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.room(len(line), maxQueuedLines) {
		return false
	}
	paid := c.share.Try(len(line), memory.Of(len(line)))
	if !paid && len(c.queue) > 0 {
		c.full = true
		return false
	}
	c.queue = append(c.queue, queued{line, paid}) // a single one is written in any case
	c.octets += len(line)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return true
}

// terminate has the child stopped. It does not wait.
func (c *child) terminate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopping {
		c.stopping = true
		close(c.stop)
	}
}

// leave is terminate for a child that has ended, or its output, before it was
// asked to.
func (c *child) leave() {
	if !c.isStopping() {
		c.left.Store(true)
	}
	c.terminate()
}

// fail is terminate with the reason that requests in flight will hear.
func (c *child) fail(why *profiles.Error) {
	c.broken.CompareAndSwap(nil, why)
	c.terminate()
}

func (c *child) isStopping() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopping
}

// run is the life of a child: start, read until it has no more to say, clean
// up. It returns when nothing is left of it.
func (c *child) run() {
	defer close(c.done)
	why := c.live()
	if broken := c.broken.Load(); broken != nil {
		why = broken
	}
	c.terminate()
	c.mu.Lock()
	for _, q := range c.queue {
		c.written(q)
	}
	c.queue = nil
	c.mu.Unlock()
	c.share.Close()
	c.owned().ended(c, why)
}

// written gives back the octets of a line.
func (c *child) written(q queued) {
	if q.paid {
		c.share.Give(len(q.line), memory.Of(len(q.line)))
	}
}

func (c *child) owned() owner {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.owner
}

func (c *child) live() *profiles.Error {
	p, err := c.s.program.Start()
	if err != nil {
		c.s.cfg.Observe(Event{Server: c.s.cfg.Name, What: Failed, Err: err})
		return c.s.upstream("could not be started", err)
	}
	c.process.Store(p)
	c.observe(Event{What: Started})
	defer context.AfterFunc(p.Leaving, c.depart)()

	var work sync.WaitGroup
	exited := make(chan error, 1)
	work.Go(func() { c.readErrors(p.Stderr) })
	work.Go(func() { c.writeLines(p.Stdin) })
	work.Go(func() {
		err := p.Wait(c.stop, c.grace)
		c.leave()
		exited <- err
	})

	err = c.readLines(p.Stdout)
	why := c.s.upstream("ended in the middle of the call", nil)
	if errors.Is(err, proc.ErrLineTooLong) {
		why = &profiles.Error{
			Code: profiles.InvalidMCPPayload, Detail: "mcp_line", Cause: err,
			Text: fmt.Sprintf("server %q wrote a message of more than %d octets", c.s.cfg.Name, c.s.cfg.MaxLine),
		}
		c.hard.Store(true)
	}
	if errors.Is(err, memory.ErrFull) {
		why = &profiles.Error{
			Code: profiles.RateLimitExceeded, Detail: "in_flight_bytes", Cause: err, Pace: true,
			Text: fmt.Sprintf("there is no room for a message of server %q", c.s.cfg.Name),
		}
		c.hard.Store(true)
	}
	c.leave() // its output is at an end, so it is of no more use
	err = <-exited
	work.Wait()
	p.Close()
	switch {
	case !c.left.Load():
		err = nil // however it took the signal
	case err == nil && c.owes():
		err = errOwing
	}
	if broken := c.broken.Load(); broken != nil && broken.Cause != nil {
		err = broken.Cause
	} else if why.Cause != nil {
		err = why.Cause
	}
	ended := Event{What: Exited, Err: err}
	if err != nil {
		ended.Output = c.said.Last()
	}
	c.observe(ended)
	why.Cause = err
	return why
}

// errOwing is why a child failed that ended with exit status 0.
var errOwing = errors.New("mcpstdio: exit status 0 before it had answered")

// owes reports whether somebody waits for an answer of the child.
func (c *child) owes() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if p, probing := c.owner.(*probe); probing {
		return !p.done
	}
	for _, f := range c.flights {
		if f.abandoned == nil && !f.endless {
			return true
		}
	}
	return false
}

// observe completes an event of the child, which has a process.
func (c *child) observe(e Event) {
	p := c.process.Load()
	e.Server, e.PID, e.Node = c.s.cfg.Name, p.PID(), p.Node
	c.s.cfg.Observe(e)
}

// grace is how long the child has between SIGTERM and SIGKILL.
func (c *child) grace() time.Duration {
	if c.hard.Load() {
		return 0
	}
	return c.s.cfg.Grace
}

// readErrors drains standard error. Lines above the pace are only counted.
func (c *child) readErrors(r io.Reader) {
	c.said.Line = func(line string) { c.observe(Event{What: Stderr, Line: line}) }
	c.said.Over = func() { c.s.stats.unlogged.Add(1) }
	c.said.Drain(r)
}

// readLines passes on messages until the end of the stream. Other lines are counted and
// skipped.
func (c *child) readLines(r io.Reader) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.reading = ctx
	go func() {
		select {
		case <-c.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	lines := proc.Lines{R: r, Limit: c.s.cfg.MaxLine, Buffers: c.s.cfg.Memory, Pay: func(n int) error {
		switch {
		case n < 0:
			c.share.Give(-n, memory.Of(-n))
		case !c.share.Grow(ctx, n, memory.Of(n), time.Now().Add(roomTime)):
			return memory.ErrFull
		}
		return nil
	}}
	defer lines.Close()
	var m mcpmap.Message
	var noise proc.Pace
	for {
		line, err := lines.Next()
		if err != nil {
			return err
		}
		err = m.Scan(line)
		if err == nil {
			err = m.Check(m.Kind())
		}
		if err != nil {
			c.s.stats.noise.Add(1)
			if noise.Allows() {
				c.observe(Event{What: Noise, Octets: len(line), Err: err})
			}
			c.owned().malformed(c, &m)
			continue
		}
		c.spoke.Store(int64(max(1, c.age())))
		if m.Kind() == mcpmap.Response {
			c.s.cfg.Answered()
		}
		c.owned().message(c, &m)
	}
}

// writeLines writes what is queued until the child is stopped.
func (c *child) writeLines(w *os.File) {
	for {
		c.mu.Lock()
		var next queued
		if len(c.queue) > 0 {
			next = c.queue[0]
			c.queue[0] = queued{}
			c.queue = c.queue[1:]
			c.octets -= len(next.line)
		}
		again := len(c.queue) == 0 && c.full
		if again {
			c.full = false
		}
		c.mu.Unlock()
		if again {
			c.s.serveWaiting()
		}
		if next.line == nil {
			select {
			case <-c.wake:
				continue
			case <-c.stop:
				return
			}
		}
		_ = w.SetWriteDeadline(time.Now().Add(stuckTime))
		_, err := w.Write(next.line)
		c.written(next)
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				c.fail(c.s.upstream("does not read its input", err))
			}
			return
		}
	}
}

// upstream returns the error of a call that failed because of the server. A request that
// may have been executed is not marked as retryable.
func (s *Server) upstream(what string, cause error) *profiles.Error {
	return &profiles.Error{
		Code: profiles.Internal, Detail: "mcp_child", Cause: cause,
		Text: fmt.Sprintf("server %q %s", s.cfg.Name, what),
	}
}
