// Package mcpstdio runs MCP servers as child processes and exchanges messages over their
// standard streams, one JSON-RPC message a line.
//
// Messages pass octet for octet in both directions, with one exception: a raw carriage
// return or line feed between tokens, which would end the line, becomes a space.
//
// Only the configuration decides program, arguments and environment. Children get a process
// group of their own, a cleared environment, and no shell; none survives Close of the
// Server.
//
// A server of the legacy era gets one child for each session. Children of the stateless era
// are shared: a request goes to a child without a request in flight whose id or progress
// token the server could confuse with the new one, and without a task of another caller if
// there is such a child.
//
// Specification: MCP mapping §3 (stdio), ABUSE GW-01 to GW-04.
package mcpstdio

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// maxBackoff is the longest pause before a child that keeps failing is started
// again; the first is one second, each next one twice as long.
const maxBackoff = time.Minute

// longestWait is the longest pause that a request waits for; during a longer one
// it fails at once.
const longestWait = 5 * time.Second

// Server is one configured MCP server. It implements mcpmap.Server and is safe
// for concurrent use.
type Server struct {
	cfg     Config
	program *proc.Program
	stats   counters
	work    sync.WaitGroup // children

	mu       sync.Mutex
	closed   bool
	retiring bool        // it closes once nothing uses it
	children fair.Shares // processes, starting and stopping ones included; of the identities of sessions, and of "" for all
	shared   *pool
	pools    map[*pool]struct{} // shared, and one for each session
	era      era
	probe    *probe // while the era is being learned
	failures int    // starts in a row that came to nothing
	resume   time.Time
	retry    *time.Timer
	idle     chan struct{} // closed when closed and nothing is in flight
	flights  int
	tasks    int // under way in children
}

type counters struct {
	noise, dropped, replaced, unlogged atomic.Uint64
}

// Stats are the counters and gauges of a Server.
type Stats struct {
	Children int // processes
	InFlight int // requests, waiting ones included
	Waiting  int // of them, those without a child

	Noise    uint64 // lines of standard output that are not messages
	Dropped  uint64 // messages that belonged to nothing
	Replaced uint64 // raw carriage returns and line feeds that became spaces
	Unlogged uint64 // lines of standard error above the rate
}

// New returns the server of a configuration. No process is started yet, but the
// command is looked up: a program that cannot be run is an error here.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	program, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, program: program, children: fair.NewShares(cfg.MaxChildren), pools: make(map[*pool]struct{}), idle: make(chan struct{}),
	}
	s.shared = s.newPool(nil, cfg.MaxShared)
	return s, nil
}

// Name returns the target by which peers ask for the server.
func (s *Server) Name() string { return s.cfg.Name }

// Path returns the absolute path of the command.
func (s *Server) Path() string { return s.program.Path() }

// Stats returns the present figures.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := 0
	for p := range s.pools {
		waiting += p.waiting.Len()
	}
	return Stats{
		Children: s.children.Used(), InFlight: s.flights, Waiting: waiting,
		Noise: s.stats.noise.Load(), Dropped: s.stats.dropped.Load(),
		Replaced: s.stats.replaced.Load(), Unlogged: s.stats.unlogged.Load(),
	}
}

// Pool returns who uses the processes; "" stands for the ones that serve all.
func (s *Server) Pool() fair.Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.children.Pool("processes of " + s.cfg.Name)
}

// Timeout implements mcpmap.Timed.
func (s *Server) Timeout(m *mcpmap.Message) time.Duration { return s.cfg.Timeouts.Timeout(m) }

// Do implements mcpmap.Server.
func (s *Server) Do(x *mcpmap.Exchange) { s.shared.do(x, nil) }

// Connect implements mcpmap.Server. If there is no process for the session, it gets the place
// of one that yields.
func (s *Server) Connect(client mcpmap.Counterpart) (mcpmap.Conversation, error) {
	conv := &conversation{client: client}
	yields, err := s.connect(conv)
	if err != nil {
		return nil, err
	}
	if yields != nil {
		yields.client.Ended()
	}
	return conv, nil
}

var errChildren = profiles.Busy("mcp_children", "too many sessions of this server")

// connect enters a session. It returns another session that ends for it, or nil.
func (s *Server) connect(conv *conversation) (yields *conversation, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, profiles.Busy("draining", "this endpoint is shutting down")
	case time.Until(s.resume) > 0:
		return nil, s.pausing()
	}
	who := conv.client.Peer().Identity
	answer := s.children.Ask(who, 1)
	if answer == fair.Full {
		yields = s.yielding(func(p *pool) bool { return s.children.Yields(p.who, who) })
	}
	if answer != fair.Taken && yields == nil {
		yields = s.yielding(func(p *pool) bool { return p.who == who && !p.conv.client.Attended() })
	}
	if answer != fair.Taken && yields == nil {
		return nil, answer.Refuse(errChildren)
	}
	conv.pool = s.newPool(conv, 1)
	if yields == nil {
		s.spawn(conv.pool)
	} else {
		yields.pool.yielded, yields.pool.heir = true, conv.pool
		conv.pool.due = true // until the process of the other has ended
	}
	conv.quiet = time.AfterFunc(s.cfg.SessionIdle, conv.expire)
	return yields, nil
}

// yielding returns a session to end in favour of another: of the sessions without a request or a task
// the quietest one, if may allows it. The caller holds mu.
func (s *Server) yielding(may func(*pool) bool) (quietest *conversation) {
	var since time.Time
	for p := range s.pools {
		if p.conv == nil || p.due || p.yielded || p.waiting.Len() > 0 || !may(p) {
			continue
		}
		for _, c := range p.children {
			if c.free() && (quietest == nil || c.used.Before(since)) {
				quietest, since = p.conv, c.used
			}
		}
	}
	return quietest
}

// Close refuses new requests, waits until those in flight have ended or ctx
// does, stops all children and waits for them. The error is that of ctx if it
// ended first.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.closeIfIdle()
	s.mu.Unlock()
	s.serveWaiting()
	var err error
	select {
	case <-s.idle:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	if s.retry != nil {
		s.retry.Stop()
	}
	if s.probe != nil {
		s.probe.child.terminate()
	}
	var end []func()
	for p := range s.pools {
		end = append(end, p.shut(s.upstream("is shutting down", nil)))
	}
	s.mu.Unlock()
	for _, f := range end {
		f()
	}
	s.work.Wait()
	return err
}

// Retire waits until no request is in flight, no session is open and no task is under way, or ctx ends, and
// then closes the server like Close. New requests are still served. The error is that
// of ctx if it ended first.
func (s *Server) Retire(ctx context.Context) error {
	s.mu.Lock()
	s.retiring = true
	s.closeIfIdle()
	s.mu.Unlock()
	select {
	case <-s.idle:
	case <-ctx.Done():
	}
	return s.Close(ctx)
}

// closeIfIdle closes idle when nothing is in flight. The caller holds mu.
func (s *Server) closeIfIdle() {
	unused := s.closed || s.retiring && s.tasks == 0 && len(s.pools) == 1 // which is the shared one
	if s.flights > 0 || !unused {
		return
	}
	s.closed = true
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

var errClosed = &profiles.Error{
	Code: profiles.RateLimitExceeded, Detail: "draining", Text: "this endpoint is shutting down", Retryable: true,
}

// pausing is the error of a request that comes while the server is not to be
// started again yet. The caller holds mu.
func (s *Server) pausing() *profiles.Error {
	e := s.upstream("keeps failing and is started again later", nil)
	e.Retryable = true
	return e
}

// spawn starts a child for a pool. The caller holds mu.
func (s *Server) spawn(p *pool) {
	c := newChild(s, p)
	p.children = append(p.children, c)
	c.rest()
	if !p.placed {
		s.children.Force(p.who, 1)
	}
	p.due, p.placed = false, false
	s.launch(c, func() { s.vacate(p) })
}

// launch runs a child; vacate gives its place among the processes to another. The caller holds mu.
func (s *Server) launch(c *child, vacate func()) {
	s.work.Go(func() {
		c.run()
		s.mu.Lock()
		vacate()
		s.mu.Unlock()
		s.serveWaiting()
	})
}

// vacate gives back the place of a process of a pool, or passes it to the session for which the session of
// the pool has ended: no other may take it first, and no share is asked again. The caller holds mu.
func (s *Server) vacate(p *pool) {
	next := p.heir
	if next == nil || next.shutting {
		s.children.Give(p.who, 1)
		return
	}
	p.heir, next.placed = nil, true
	s.children.Pass(p.who, next.who)
}

// exited keeps account of a child that ended on its own. The caller holds mu.
//
// A child that has answered did start, so the next may follow after the first
// pause; only children that never answer lengthen it. A session's child that
// had answered makes nobody wait: one client could otherwise hold up the
// others.
func (s *Server) exited(c *child, session bool) {
	if c.spoke.Load() > 0 {
		s.failures = 0
		if session {
			return
		}
	}
	pause := backoff.Exponential{First: s.cfg.minBackoff, Longest: maxBackoff}.After(s.failures)
	s.failures++
	s.resume = time.Now().Add(pause)
	if s.retry != nil {
		s.retry.Stop()
	}
	s.retry = time.AfterFunc(pause, s.serveWaiting)
}

// serveWaiting places what waits for a child, after anything changed that it
// may have waited for.
func (s *Server) serveWaiting() {
	s.mu.Lock()
	var end []func()
	for p := range s.pools {
		end = append(end, p.retry()...)
	}
	s.mu.Unlock()
	for _, f := range end {
		f()
	}
}

// begun and finished count requests in flight. The caller holds mu.
func (s *Server) begun() { s.flights++ }

func (s *Server) finished() {
	s.flights--
	s.closeIfIdle()
}

var errProbe = errors.New("mcpstdio: the server answered neither server/discover nor initialize")
