package endpoint

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// Session is one authenticated connection. It does not matter which end dialled. It is safe
// for concurrent use and implements profiles.Session.
type Session struct {
	ep     *Endpoint
	opts   *Options // of the Endpoint when the session began; nothing changes them
	conn   transport.Conn
	peer   profiles.Peer
	id     uint64
	ctx    context.Context
	cancel context.CancelCauseFunc

	prefix  [8]byte // first half of every msg_id of this session
	counter atomic.Uint64
	limiter limiter
	touched atomic.Int64 // when an exchange last ended, or on QUIC octets moved; Unix microseconds
	calling atomic.Int32 // len(calls), for the read loop
	spared  atomic.Bool  // a stream uses the one free window
	waits   atomic.Bool  // a stream of a multiplexed connection waits for room
	excused atomic.Bool  // a stream has the one free queue
	writing atomic.Int32 // streams whose output is being written
	queued  atomic.Int64 // octets in their output queues
	words   atomic.Int64 // octets of terminal answers among them

	// recorded counts exchanges with a record. Nothing is written before the records are that
	// were there then: an answer may be about a message without one, as that of swp.sync is.
	recorded atomic.Uint64

	streams *streams // nil if they have no bound
	callers callers
	name    atomic.Pointer[string]                                // of SetName; may be nil
	asserts atomic.Pointer[func(identity string) ([]byte, error)] // of Assert; may be nil

	known  profiles.Known
	asking chan struct{} // held while the peer is asked for its profiles
	asked  bool          // of Options.Ask; guarded by asking

	deferred  atomic.Int64  // octets of messages whose commit is under way
	allowance allowance     // of octets in flight: grown buffers and held requests
	share     *memory.Share // of its identity, in the budget of the endpoint

	mu        sync.Mutex
	shared    map[uint64]*lane   // the one stream, under 0; on a multiplexed connection the streams of Send by profile
	lanes     map[*lane]struct{} // streams that are read
	lastLane  uint64
	inflight  map[string]*exchange // requests of the peer that have no terminal answer yet
	long      fair.Shares          // of them, those without an expected end, by caller
	short     fair.Shares          // of them, the others
	waiting   commits              // deferred messages of the only stream, by caller
	lingers   int                  // of Linger
	exchanges int                  // those that have not ended
	calls     map[uint64]*call     // requests of ours, by the second half of msg_id
	givenUp   givenUp              // of them, those that were closed early
	replay    *replay              // nil unless there is a replay window
	leaving   bool                 // drained, and about to close
	answered  bool                 // the peer has answered some call
	kept      int                  // number of Keep calls without a release
	left      notice               // the peer takes no further requests on the session, or it has ended
	drains    notice               // this side drains the session

	expiry   *time.Timer // of the certificate of the peer; nil without one
	closed   sync.Once
	draining atomic.Bool
	lapsed   atomic.Bool   // the certificate has expired
	said     atomic.Uint64 // the code with which the peer closes the connection, as it has said; 0: none
	heard    atomic.Bool   // the peer of the only stream has half-closed it
	arrived  atomic.Bool   // see Arrived

	awaits   atomic.Bool  // of AwaitRoom
	awaiting atomic.Int64 // until when the peer may wait for room, as Unix microseconds; 0: it does not
	larges   atomic.Int64 // frames sent for which the peer may wait
	without  atomic.Bool  // the only stream waits for room here
}

func newSession(e *Endpoint, conn transport.Conn, id uint64, payer string) *Session {
	s := &Session{ep: e, opts: e.opts.Load(), conn: conn, peer: profiles.Peer(*conn.Peer()), id: id}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.allowance.limit = s.opts.Bounds.InFlightBytesPerConn
	s.share = e.memory.Share(payer)
	s.streams = newStreams(conn)
	s.long, s.short = fair.NewOwn(0), fair.NewOwn(0) // register bounds them
	s.waiting = newCommits(&s.opts.Bounds)
	if s.opts.Ask != nil {
		s.asking = make(chan struct{}, 1)
	}
	_, _ = rand.Read(s.prefix[:]) // never fails
	return s
}

// Idle returns Bounds.Idle of the connection.
func (s *Session) Idle() time.Duration { return s.opts.Bounds.Idle }

// Limits returns the limits of messages that this endpoint accepts on the connection.
func (s *Session) Limits() profiles.Limits {
	o := s.opts
	return profiles.Limits{Frame: o.FrameLimit, Payload: o.Envelope.MaxPayload, Extensions: o.Envelope.MaxExtensions}
}

// ID returns the number of the session in its Endpoint, from 1.
func (s *Session) ID() uint64 { return s.id }

// Peer describes the other end. It never changes.
func (s *Session) Peer() *profiles.Peer { return &s.peer }

// Context ends with the connection; context.Cause returns the reason.
func (s *Session) Context() context.Context { return s.ctx }

// Answered reports whether the peer has answered any call, which shows that it has admitted
// this side.
func (s *Session) Answered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}

// Close ends the session at once. If the transport carries a code, the peer sees it. Calls
// fail, and the contexts of detached handlers end.
func (s *Session) Close(code profiles.Code) {
	s.close(code, &transport.CloseError{Code: uint64(code)})
}

// close ends the session at once. The code and cause of the first call stay.
func (s *Session) close(code profiles.Code, cause error) {
	s.closed.Do(func() {
		s.cancel(s.ending(cause))
		_ = s.conn.Close(uint64(code))
	})
}

// addLane and removeLane record the streams that are being read.
func (s *Session) addLane(l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lanes == nil {
		s.lanes = make(map[*lane]struct{})
	}
	s.lanes[l] = struct{}{}
}

func (s *Session) removeLane(l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lanes, l)
}

// run serves the connection until it is gone.
func (s *Session) run() {
	defer s.ep.forget(s)
	if s.conn.Multiplexed() {
		s.runStreams()
	} else {
		s.runOnly()
	}
	s.close(profiles.OK, ErrEnded)
	s.failCalls(context.Cause(s.ctx))
}

// ErrEnded is the cause of the end of sessions that the peer closed in order.
var ErrEnded = errors.New("endpoint: the peer closed the connection")

// runOnly serves a connection that is its only stream, on this goroutine.
func (s *Session) runOnly() {
	l, err := s.onlyLane(s.ctx)
	if err != nil {
		s.cancel(err)
		return
	}
	l.run()
	s.heard.Store(true)
	s.checkDrained()
	s.awaitAnswers(l)
}

// runStreams serves every stream that the peer opens on a separate goroutine.
func (s *Session) runStreams() {
	s.touch(time.Now())
	var streams sync.WaitGroup
	defer streams.Wait()
	streams.Go(s.watchIdle)
	for {
		stream, err := s.conn.Accept(s.ctx)
		if err != nil {
			s.close(profiles.OK, err)
			return
		}
		l := s.newLane(stream, false)
		streams.Go(l.run)
	}
}

// watchIdle closes a multiplexed connection after Bounds.Idle without a request in flight
// and without an octet. It returns at the end of the session.
func (s *Session) watchIdle() {
	idle := s.opts.Bounds.Idle
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		}
		s.mu.Lock()
		quiet := s.idle() && s.kept == 0
		s.mu.Unlock()
		left := idle
		if quiet { // read before touched, because the end of an exchange calls touch first
			left -= time.Since(time.UnixMicro(s.touched.Load()))
		}
		if left <= 0 {
			s.close(profiles.OK, ErrIdle)
			return
		}
		timer.Reset(left)
	}
}

// Arrived reports whether a message, or a part of a large one, has arrived since its last call.
func (s *Session) Arrived() bool { return s.arrived.Swap(false) }

// ErrIdle is the cause of the end of sessions that this endpoint closed after Bounds.Idle
// with nothing in flight.
var ErrIdle = errors.New("endpoint: idle too long")

// Keep suspends the idle timeout until release is called: a peer such as an agent that
// waits for work may send nothing for hours. The transport detects whether the peer is
// still there.
func (s *Session) Keep() (release func()) {
	s.keep(1)
	return sync.OnceFunc(func() {
		s.touch(time.Now()) // idle begins here
		s.keep(-1)
	})
}

func (s *Session) keep(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept += n
}

func (s *Session) touch(now time.Time) { s.touched.Store(now.UnixMicro()) }

// onlyLane returns the only stream of a connection.
func (s *Session) onlyLane(ctx context.Context) (*lane, error) { return s.sharedLane(ctx, 0) }

// sharedLane returns the stream of a key of shared. It opens the stream at its first use.
func (s *Session) sharedLane(ctx context.Context, key uint64) (*lane, error) {
	s.mu.Lock()
	l := s.shared[key]
	s.mu.Unlock()
	if l != nil {
		return l, nil
	}
	var err error
	if key == controlKey {
		l, err = s.openLane(ctx, "")
	} else {
		l, err = s.openStream(ctx, "")
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if other := s.shared[key]; other != nil {
		s.mu.Unlock()
		if s.conn.Multiplexed() {
			go l.run()
			l.Reset()
		}
		return other, nil
	}
	if s.shared == nil {
		s.shared = make(map[uint64]*lane)
	}
	s.shared[key] = l
	s.mu.Unlock()
	if s.conn.Multiplexed() {
		go l.run()
	}
	return l, nil
}

// borrow is sharedLane for a message of a profile, with a reference that the caller must
// release. Without it the stream might end and its lane be reused at any time.
func (s *Session) borrow(ctx context.Context, profile uint64) (*lane, error) {
	key := profile
	if !s.conn.Multiplexed() {
		key = 0
	}
	for {
		l, err := s.sharedLane(ctx, key)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		ok := s.shared[key] == l && l.hold()
		s.mu.Unlock()
		switch {
		case ok:
			return l, nil
		case s.err() != nil, !s.conn.Multiplexed():
			return nil, s.over()
		}
	}
}

// unshare forgets a stream of Send after its end; the next Send opens another.
func (s *Session) unshare(l *lane) {
	s.mu.Lock()
	before := len(s.shared)
	maps.DeleteFunc(s.shared, func(_ uint64, other *lane) bool { return other == l })
	was := len(s.shared) < before
	s.mu.Unlock()
	if was {
		_ = l.Close()
	}
}

// Open returns a new lane: a new stream on QUIC, the only stream elsewhere. The caller
// closes it.
func (s *Session) Open(ctx context.Context) (profiles.Lane, error) {
	l, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (s *Session) open(ctx context.Context) (*lane, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	if !s.conn.Multiplexed() {
		return s.onlyLane(ctx)
	}
	l, err := s.openStream(ctx, profiles.CallerOf(ctx))
	if err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

// Call sends env under a new msg_id and returns the exchange. On QUIC it uses a new stream
// and half-closes it after the request. A caller that needs to send more, such as a
// cancellation, opens a lane instead. If the call is closed before its answers are
// complete, the stream is reset, which ends the context of the handler on the other side.
func (s *Session) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	if !s.conn.Multiplexed() {
		l, err := s.onlyLane(ctx)
		if err != nil {
			return nil, err
		}
		return l.Call(ctx, env)
	}
	l, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	c, err := l.call(ctx, env, true)
	if err != nil {
		l.Reset()
		return nil, err
	}
	return c, nil
}

// Send sends a one-way message. Those of one profile use one stream, in order. A refused
// message may end its stream: on QUIC that takes no message of another profile with it.
func (s *Session) Send(ctx context.Context, env e1.Envelope) error {
	l, err := s.borrow(ctx, env.ProfileID)
	if err != nil {
		return err
	}
	defer l.release()
	return l.Send(ctx, env)
}

// err returns why the session is over, or nil.
func (s *Session) err() error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return nil
}

// over returns why nothing more can be sent.
func (s *Session) over() error {
	if err := s.err(); err != nil {
		return err
	}
	return ErrEnded
}

// nextID writes a new msg_id to id: eight random octets of the session and a counter. The
// number finds the call of an answer, and separates late answers to closed calls from ids
// that this side never used.
func (s *Session) nextID(id *[16]byte) uint64 {
	n := s.counter.Add(1)
	copy(id[:8], s.prefix[:])
	binary.BigEndian.PutUint64(id[8:], n)
	return n
}

// ownID returns the number of a msg_id that this session issued.
func (s *Session) ownID(id []byte) (uint64, bool) {
	if len(id) != 16 || [8]byte(id) != s.prefix {
		return 0, false
	}
	n := binary.BigEndian.Uint64(id[8:])
	return n, n != 0 && n <= s.counter.Load()
}
