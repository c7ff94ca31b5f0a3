// Package endpoint joins the layers: it reads frames from a transport, decodes their
// envelopes, applies the rules of SWP Core §5, passes them to their profile and writes the
// answers.
//
// An Endpoint serves any number of connections, accepted or dialled. Each is a Session.
// Sessions are symmetric: after the handshake either end may initiate.
//
// Three rules shape the code. The read loop never waits: handlers run in order of arrival,
// and detach work that has to wait. Writing is batched: answers collect in one buffer per
// stream until there is nothing more to read. Every resource that a peer can use has a bound
// (Bounds).
//
// # Constants
//
// The owners of the freshness policy are [FreshnessOff], [FreshnessCore] and
// [FreshnessS1]. The effects of a refusal on a stream or connection are [Kept], [Reset] and
// [Closed].
package endpoint

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// ErrShutdown is the cause of sessions ended by Shutdown or Close.
var ErrShutdown = errors.New("endpoint: shutting down")

// Endpoint serves connections. It is safe for concurrent use.
type Endpoint struct {
	opts      atomic.Pointer[Options] // of sessions that come from now on; changes under mu
	exchanges ExchangeObserver        // the Observer, if it is one; else nil
	recorder  Recorder                // nil: nobody keeps records
	asked     CallRecorder            // recorder, if it keeps records of calls too
	pool      frame.Pool
	memory    *memory.Budget
	lanes     sync.Pool // of *lane, for streams of multiplexed connections
	calls     sync.Pool // of *call
	handlers  handlers
	without   atomic.Uint64 // messages sent without end-to-end extensions, see sizeOf
	unread    atomic.Uint64 // of Stats.Unreceived
	deferred  atomic.Int64  // octets of messages whose commit is under way
	reviews   atomic.Uint64 // calls of Review

	mu         sync.Mutex
	sessions   map[*Session]struct{}
	identities map[string]int
	listeners  map[transport.Listener]struct{}
	lastID     uint64
	draining   bool
	empty      chan struct{} // closed when draining and no session is left
}

// New returns an Endpoint. It fails if the options are contradictory.
func New(opts Options) (*Endpoint, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	e := &Endpoint{
		sessions:   make(map[*Session]struct{}),
		identities: make(map[string]int),
		listeners:  make(map[transport.Listener]struct{}),
		empty:      make(chan struct{}),
	}
	e.exchanges, _ = opts.Observer.(ExchangeObserver)
	e.recorder = opts.Recorder
	e.asked, _ = opts.Recorder.(CallRecorder)
	e.opts.Store(&opts)
	e.memory = opts.Memory
	if e.memory == nil {
		e.memory = memory.New(opts.Bounds.InFlightBytes)
	} else {
		e.pool.Large = e.memory // whoever made it sees to it that it forgets buffers
	}
	e.lanes.New = func() any { return new(lane) }
	e.calls.New = func() any { return newCall() }
	return e, nil
}

// SetLimits changes the limits for new connections: FrameLimit, Envelope, Freshness, Rate,
// Window, ReplayWindow and Bounds of o; other fields are ignored. Open connections keep
// their limits. The bounds for the whole endpoint (Connections, ConnectionsPerIdentity,
// Handlers, InFlightBytes) apply at once, but no peer is disconnected because of them.
// Bounds.Handler applies to later requests of all connections. If
// New would refuse o, SetLimits fails and changes nothing.
func (e *Endpoint) SetLimits(o Options) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := *e.opts.Load()
	next.FrameLimit, next.Envelope, next.Freshness = o.FrameLimit, o.Envelope, o.Freshness
	next.Rate, next.Window, next.ReplayWindow, next.Bounds = o.Rate, o.Window, o.ReplayWindow, o.Bounds
	next = next.withDefaults()
	if err := next.validate(); err != nil {
		return err
	}
	e.opts.Store(&next)
	e.memory.Bound(next.Bounds.InFlightBytes)
	return nil
}

// Serve accepts connections and serves them until ctx ends, the listener is closed or the
// endpoint shuts down; then it closes the listener and returns nil. Sessions continue.
// Several listeners may be served at once.
func (e *Endpoint) Serve(ctx context.Context, ln transport.Listener) error {
	if !e.addListener(ln) {
		_ = ln.Close()
		return ErrShutdown
	}
	defer e.removeListener(ln)
	for {
		conn, err := ln.Accept(ctx)
		switch {
		case err == nil:
			if s := e.admit(conn, conn.Peer().Identity); s != nil {
				// A new goroutine, because the stack after a handshake is twice as large as
				// a session needs.
				go s.run()
			}
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil
		default:
			return err
		}
	}
}

// Attach serves a connection that was dialled, or one end of a pipe, in the background. The
// session counts against the bounds like any other. If it is refused, the returned session
// is closed.
func (e *Endpoint) Attach(conn transport.Conn) *Session {
	return e.AttachFor(conn, conn.Peer().Identity)
}

// AttachFor is Attach for the near end of a pipe: an identity that is not the peer holds the
// octets in flight.
func (e *Endpoint) AttachFor(conn transport.Conn, identity string) *Session {
	s := e.admit(conn, identity)
	if s == nil {
		s = newSession(e, conn, 0, identity)
		s.share.Close()
		s.cancel(ErrShutdown)
		return s
	}
	go s.run()
	return s
}

// Sessions yields the sessions that are open, in no order.
func (e *Endpoint) Sessions() iter.Seq[*Session] {
	e.mu.Lock()
	list := slices.Collect(maps.Keys(e.sessions))
	e.mu.Unlock()
	return func(yield func(*Session) bool) {
		for _, s := range list {
			if !yield(s) {
				return
			}
		}
	}
}

// Stats are the resources that an Endpoint holds at one moment.
type Stats struct {
	Sessions      int // open connections
	Handlers      int // detached handlers running
	InFlightBytes int // octets in use of the budget, see Options.Memory
	DeferredBytes int // octets of messages whose commit is under way

	// Unreceived counts the answers to calls of this side that were lost because they came faster
	// than they were received, or there was no room for them. Each of these calls has failed with an
	// *profiles.Error of RateLimitExceeded.
	Unreceived uint64
}

// Stats returns the present figures.
func (e *Endpoint) Stats() Stats {
	e.mu.Lock()
	n := len(e.sessions)
	e.mu.Unlock()
	return Stats{Sessions: n, Handlers: e.handlers.running(), InFlightBytes: e.memory.Used(), DeferredBytes: int(e.deferred.Load()), Unreceived: e.unread.Load()}
}

// Curtailed returns how many messages were sent without their end-to-end extensions
// (profiles.EndToEnd), because there was no room for these within the limits.
func (e *Endpoint) Curtailed() uint64 { return e.without.Load() }

// Shutdown stops accepting, refuses new requests as retryable, lets exchanges in flight
// end, writes the queues and closes each session when it is idle. If ctx ends first, the
// remaining sessions are closed at once and the error of ctx is returned.
func (e *Endpoint) Shutdown(ctx context.Context) error {
	for s := range e.startDraining() {
		s.Drain()
	}
	select {
	case <-e.empty:
		return nil
	case <-ctx.Done():
		_ = e.Close()
		return ctx.Err()
	}
}

// Close closes listeners and sessions at once and waits until the loop of every session has
// ended. The contexts of detached handlers end.
func (e *Endpoint) Close() error {
	for s := range e.startDraining() {
		s.close(profiles.OK, ErrShutdown)
	}
	<-e.empty
	return nil
}

func (e *Endpoint) startDraining() iter.Seq[*Session] {
	e.mu.Lock()
	if !e.draining {
		e.draining = true
		if len(e.sessions) == 0 {
			close(e.empty)
		}
	}
	for ln := range e.listeners {
		_ = ln.Close()
	}
	e.mu.Unlock()
	return e.Sessions()
}

func (e *Endpoint) addListener(ln transport.Listener) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return false
	}
	e.listeners[ln] = struct{}{}
	return true
}

func (e *Endpoint) removeListener(ln transport.Listener) {
	_ = ln.Close()
	e.mu.Lock()
	delete(e.listeners, ln)
	e.mu.Unlock()
}

// admit returns a session for conn. If a bound is reached, it closes conn and returns nil.
func (e *Endpoint) admit(conn transport.Conn, payer string) *Session {
	who := conn.Peer().Identity
	admit := e.opts.Load().Admit
	refused := admit != nil && admit() != nil // it may ask for Stats
	e.mu.Lock()
	opts := e.opts.Load()
	if refused || e.draining ||
		len(e.sessions) >= opts.Bounds.Connections ||
		e.identities[who] >= opts.Bounds.ConnectionsPerIdentity {
		draining := e.draining
		e.mu.Unlock()
		opts.turnAway(conn, draining)
		opts.Observer.Refused(conn.Peer())
		return nil
	}
	e.lastID++
	s := newSession(e, conn, e.lastID, payer)
	if end := s.peer.NotAfter; !end.IsZero() {
		s.expiry = time.AfterFunc(end.Sub(opts.Now()), s.lapse)
	}
	e.sessions[s] = struct{}{}
	e.identities[who]++
	e.mu.Unlock()
	if carried, ok := conn.(transport.Departing); ok {
		stays := context.AfterFunc(carried.Departing(), s.Drain)
		context.AfterFunc(s.ctx, func() { stays() })
	}
	opts.Observer.Opened(s)
	return s
}

func (e *Endpoint) forget(s *Session) {
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.opts.Observer.Closed(s, context.Cause(s.ctx)) // before Close can return
	s.share.Close()
	e.mu.Lock()
	delete(e.sessions, s)
	if who := s.peer.Identity; e.identities[who] > 1 {
		e.identities[who]--
	} else {
		delete(e.identities, who)
	}
	last := e.draining && len(e.sessions) == 0
	e.mu.Unlock()
	if last {
		close(e.empty)
	}
}
