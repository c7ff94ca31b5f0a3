package mcpstdio

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

const (
	// Bounds of what waits for a child to read it.
	maxQueuedLines  = 1024
	maxQueuedOctets = 16 << 20

	// stuckTime is how long a child may leave a line unread before it counts as
	// stuck and is stopped.
	stuckTime = time.Minute

	// drainTime is how long the output of a dead child is still read when
	// somebody it left behind holds the pipe open.
	drainTime = time.Second
)

// child is one process. It reads messages from it and writes lines to it; what
// they mean is its owner's business.
type child struct {
	s       *Server
	started time.Time
	done    chan struct{} // closed when the process and its goroutines are gone

	pid    atomic.Int64
	lines  atomic.Int64 // messages it has written
	hard   atomic.Bool  // stop it without SIGTERM
	left   atomic.Bool  // it ended by itself
	broken atomic.Pointer[profiles.Error]

	mu       sync.Mutex
	queue    [][]byte
	octets   int
	full     bool          // something was refused since the queue was last empty
	wake     chan struct{} // one slot
	stopping bool
	stop     chan struct{} // closed when stopping

	// The rest is guarded by the Server's mu.
	owner   owner
	flights map[string]*flight // by the key of the id
	tokens  map[string]*flight // by the key of the progress token
	used    time.Time          // when it was last busy
	idle    *time.Timer

	// dismissed children were stopped for our reasons, which is no failure.
	dismissed bool
}

// owner is who a child works for.
type owner interface {
	// message gets each message of the child, in order, valid until it returns.
	// It is called without locks.
	message(c *child, m *mcpmap.Message)

	// malformed gets the outline of what is JSON but no message.
	malformed(c *child, m *mcpmap.Message)

	// ended is called once, after the last message, without locks.
	ended(c *child, why *profiles.Error)
}

func newChild(s *Server, o owner) *child {
	return &child{
		s: s, owner: o, started: time.Now(), used: time.Now(),
		done: make(chan struct{}), wake: make(chan struct{}, 1), stop: make(chan struct{}),
		flights: make(map[string]*flight), tokens: make(map[string]*flight),
	}
}

// hasRoom says whether the child keeps up well enough to be given a line of n
// octets.
func (c *child) hasRoom(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.room(n)
}

// room is hasRoom with mu held.
func (c *child) room(n int) bool {
	if c.stopping || len(c.queue) >= maxQueuedLines || len(c.queue) > 0 && c.octets+n > maxQueuedOctets {
		c.full = true
		return false
	}
	return true
}

// write queues a line; it fails if the child does not keep up.
func (c *child) write(line []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.room(len(line)) {
		return false
	}
	c.queue = append(c.queue, line)
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
	c.owned().ended(c, why)
}

func (c *child) owned() owner {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.owner
}

func (c *child) live() *profiles.Error {
	cmd, pipes, err := c.s.start()
	if err != nil {
		c.s.cfg.Observe(Event{Server: c.s.cfg.Name, What: Failed, Err: err})
		return c.s.upstream("could not be started", err)
	}
	c.pid.Store(int64(cmd.Process.Pid))
	c.observe(Started, nil, nil)

	var work sync.WaitGroup
	exited := make(chan error, 1)
	work.Go(func() { c.readErrors(pipes.stderr) })
	work.Go(func() { c.writeLines(pipes.stdin) })
	work.Go(func() { c.control(cmd, pipes, exited) })

	err = c.readLines(pipes.stdout)
	why := c.s.upstream("ended in the middle of the call", nil)
	if errors.Is(err, errLineTooLong) {
		why = &profiles.Error{
			Code: profiles.InvalidMCPPayload, Detail: "mcp_line", Cause: err,
			Text: fmt.Sprintf("server %q wrote a message of more than %d octets", c.s.cfg.Name, c.s.cfg.MaxLine),
		}
		c.hard.Store(true)
	}
	c.leave() // its output is at an end, so it is of no more use
	err = <-exited
	work.Wait()
	pipes.close()
	if !c.left.Load() {
		err = nil // however it took the signal
	}
	if broken := c.broken.Load(); broken != nil && broken.Cause != nil {
		err = broken.Cause
	} else if why.Cause != nil {
		err = why.Cause
	}
	c.observe(Exited, nil, err)
	why.Cause = err
	return why
}

func (c *child) observe(what What, line []byte, err error) {
	c.s.cfg.Observe(Event{Server: c.s.cfg.Name, PID: int(c.pid.Load()), What: what, Line: line, Err: err})
}

// control stops the child when asked, reaps it, and leaves nothing of its
// group behind.
func (c *child) control(cmd *exec.Cmd, pipes *pipes, exited chan<- error) {
	signal := func(sig syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, sig) }
	reaped := make(chan error, 1)
	go func() { reaped <- reap(cmd) }()
	var err error
	select {
	case err = <-reaped:
		c.leave()
	case <-c.stop:
		_ = pipes.stdin.Close()
		wait := c.s.cfg.Grace
		if c.hard.Load() {
			wait = 0
		} else {
			signal(syscall.SIGTERM)
		}
		grace := time.NewTimer(wait)
		select {
		case err = <-reaped:
		case <-grace.C:
			signal(syscall.SIGKILL)
			err = <-reaped
		}
		grace.Stop()
	}
	// Who left the group may hold the pipes open for good.
	deadline := time.Now().Add(drainTime)
	_ = pipes.stdout.SetReadDeadline(deadline)
	_ = pipes.stderr.SetReadDeadline(deadline)
	_ = pipes.stdin.Close()
	exited <- err
}

// readLines hands over messages until there are no more. What is no message is
// counted and skipped.
func (c *child) readLines(r io.Reader) error {
	lines := lineReader{r: r, limit: c.s.cfg.MaxLine}
	var m mcpmap.Message
	var noise pace
	for {
		line, err := lines.next()
		if err != nil {
			return err
		}
		err = m.Scan(line)
		if err == nil {
			err = m.Check(m.Kind())
		}
		if err != nil {
			c.s.stats.noise.Add(1)
			if noise.allows() {
				c.observe(Noise, line[:min(len(line), maxErrorLine)], err)
			}
			c.owned().malformed(c, &m)
			continue
		}
		c.lines.Add(1)
		c.owned().message(c, &m)
	}
}

// writeLines writes what is queued until the child is stopped.
func (c *child) writeLines(w *os.File) {
	for {
		c.mu.Lock()
		var line []byte
		if len(c.queue) > 0 {
			line = c.queue[0]
			c.queue[0] = nil
			c.queue = c.queue[1:]
			c.octets -= len(line)
		}
		again := len(c.queue) == 0 && c.full
		if again {
			c.full = false
		}
		c.mu.Unlock()
		if again {
			c.s.serveWaiting()
		}
		if line == nil {
			select {
			case <-c.wake:
				continue
			case <-c.stop:
				return
			}
		}
		_ = w.SetWriteDeadline(time.Now().Add(stuckTime))
		if _, err := w.Write(line); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				c.fail(c.s.upstream("does not read its input", err))
			}
			return
		}
	}
}

// pipes are our ends of a child's standard streams.
type pipes struct{ stdin, stdout, stderr *os.File }

func (p *pipes) close() {
	_ = p.stdin.Close()
	_ = p.stdout.Close()
	_ = p.stderr.Close()
}

// start starts the configured command: no shell, a process group of its own,
// nothing of our environment.
func (s *Server) start() (*exec.Cmd, *pipes, error) {
	cmd := &exec.Cmd{
		Path: s.path,
		Args: append([]string{s.cfg.Command}, s.cfg.Args...),
		Env:  append([]string{"PATH=" + s.cfg.Path}, s.cfg.Env...),
		Dir:  s.cfg.Dir,
	}
	confine(cmd)
	var ours pipes
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	stdin, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	theirs, ours.stdin = append(theirs, stdin), w
	r, stdout, err := os.Pipe()
	if err != nil {
		ours.close()
		return nil, nil, err
	}
	theirs, ours.stdout = append(theirs, stdout), r
	r, stderr, err := os.Pipe()
	if err != nil {
		ours.close()
		return nil, nil, err
	}
	theirs, ours.stderr = append(theirs, stderr), r
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	if err := cmd.Start(); err != nil {
		ours.close()
		return nil, nil, err
	}
	return cmd, &ours, nil
}

// upstream is the error of a call whose server is the one to blame. A request
// that may have been carried out is not called retryable.
func (s *Server) upstream(what string, cause error) *profiles.Error {
	return &profiles.Error{
		Code: profiles.Internal, Detail: "mcp_child", Cause: cause,
		Text: fmt.Sprintf("server %q %s", s.cfg.Name, what),
	}
}
