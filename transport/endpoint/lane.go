package endpoint

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

const (
	// linger is the silence after which a stream gives its buffers back. Idle,
	// a stream owns one octet.
	linger = 100 * time.Millisecond

	// direct is the payload size from which octets are written from where they
	// lie instead of being gathered first.
	direct = 32 << 10
)

// lane is one stream: its read loop and its outbound queue. It implements
// profiles.Lane.
//
// Its other faces are defined types over the same memory, so that none of them
// costs an allocation: input reads, responder and exchanger serve the message
// at hand.
//
// It lives until nobody needs it: the read loop, every exchange and call on
// it, and whoever opened it hold one reference each.
type lane struct {
	s      *Session
	stream transport.Stream
	id     uint64
	refs   atomic.Int32
	ours   bool          // opened here, not by the peer
	own    atomic.Bool   // ours, and whoever opened it has not given it up
	late   atomic.Bool   // a handler outlived its exchange: never used again
	deaf   error         // why no answer can come any more; guarded by the session's mu
	gone   chan struct{} // closed with the last reference, unless multiplexed
	ctx    context.Context

	rd        frame.Reader
	out       output
	scratch   []byte
	deferrals deferrals
	reserve   func(from, to int) error // grow, bound once
	window    int                      // of the buffer's first window, what was taken from the budgets
	grown     int                      // of what it grew to, likewise
	resting   atomic.Bool              // between two frames, with a buffer that grew, see recall
	spared    bool                     // the session's one window that costs nothing is this one

	// The state of the read loop.
	now      time.Time // wall clock, read once per batch
	deadline time.Time // read deadline in force
	since    time.Time // when the incomplete frame in the buffer began
	idleFrom time.Time // when the buffers were given back
	seq      uint64

	// The message being served.
	req     profiles.Request
	typ     profiles.Type
	account account
	size    int
	reqCtx  context.Context // its handler's, see Tracer
	traced  func(Verdict)   // to be called with its verdict, see Tracer; may be nil
	taken   *exchange       // set by Detach, Hold and Defer
	ended   bool            // Finish was called
	stopped bool            // the loop must end
}

// newLane takes over a stream. Besides the loop's reference an own lane has
// one for whoever opened it.
func (s *Session) newLane(stream transport.Stream, own bool) *lane {
	l := s.ep.lanes.Get().(*lane) //nolint:errcheck // the pool holds nothing else
	s.mu.Lock()
	s.lastLane++
	l.id, l.deaf = s.lastLane, nil
	s.mu.Unlock()
	l.s, l.stream, l.ours = s, stream, own
	l.ctx = s.ctx
	l.now, l.deadline, l.since, l.idleFrom = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	l.seq, l.stopped = 0, false
	if s.conn.Multiplexed() {
		l.ctx = stream.Context()
	} else {
		l.gone = make(chan struct{})
	}
	l.reqCtx = l.ctx
	l.own.Store(own)
	l.refs.Store(1)
	if own {
		l.refs.Add(1)
	}
	if l.reserve == nil {
		l.reserve = l.grow
	}
	l.rd.Reset((*input)(l), frame.Options{Limit: s.ep.opts.FrameLimit, Pool: &s.ep.pool, Reserve: l.reserve})
	l.out.reset(l)
	return l
}

// hold takes a reference. It fails if the last one was given up, which only
// who has none of his own must expect.
func (l *lane) hold() bool {
	for {
		n := l.refs.Load()
		if n == 0 {
			return false
		}
		if l.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release gives up one reference. With the last one the stream is finished,
// and on a multiplexed connection the lane is used again for another.
func (l *lane) release() {
	if l.refs.Add(-1) > 0 {
		return
	}
	s, stream := l.s, l.stream
	l.out.closeWrite()
	l.rd.Close()
	l.closeWindow()
	if r, ok := stream.(interface{ Release() }); ok {
		r.Release()
	}
	if !s.conn.Multiplexed() {
		close(l.gone)
		return
	}
	if l.out.drop() && !l.late.Load() {
		s.ep.pool.Put(l.scratch)
		l.scratch = nil
		s.ep.lanes.Put(l)
	}
}

// run reads and serves until the stream ends, then gives up its reference.
func (l *lane) run() {
	l.s.enter(l)
	for !l.stopped {
		body, err := l.rd.Next()
		switch {
		case err == nil:
			l.seq++
			l.since = time.Time{}
			l.receive(body)
			l.awaitDeferred()
		case errors.Is(err, os.ErrDeadlineExceeded):
			l.silent()
		default:
			l.end(err)
		}
	}
	l.out.flush()
	l.s.failCallsOf(l, ErrNoAnswer)
	s := l.s
	if s.conn.Multiplexed() {
		s.replaceOnly(l)
	}
	s.exit(l)
	l.release()
	s.settle()
}

// ErrNoAnswer is why a call fails whose peer ended the stream, in order, and had
// not answered. On TCP that is how a peer hangs up.
var ErrNoAnswer = errors.New("endpoint: the peer finished the stream without an answer")

// silent handles a read deadline: a frame that took too long, a pause after
// which buffers are given back, or a peer that has been idle too long.
func (l *lane) silent() {
	have, _ := l.rd.Partial()
	now := time.Now()
	switch {
	case have > 0:
		if !now.Before(l.frameDeadline()) {
			l.refuseFrame(&profiles.Error{Code: profiles.InvalidFrame, Detail: "slow", Text: "frame took too long"})
		}
	case l.isIdle(now):
		l.stopped = true
		if !l.s.conn.Multiplexed() {
			l.s.close(profiles.OK, ErrIdle)
			return
		}
		l.stream.Reset(uint64(profiles.OK))
	case l.rd.Release():
		l.closeWindow()
		if l.idleFrom.IsZero() {
			l.idleFrom = now
		}
		l.s.ep.pool.Put(l.scratch)
		l.scratch = nil
		l.out.drop()
	}
}

// isIdle reports whether the stream has been silent for too long.
func (l *lane) isIdle(now time.Time) bool {
	if l.idleFrom.IsZero() {
		return false
	}
	limit := l.idleTime() // looked at before quietSince: what ends an exchange touches first
	return now.Sub(l.quietSince()) >= limit
}

// quietSince is when the stream last carried anything, in either direction: a
// subscriber that only listens is not idle. Where a stream is the connection,
// what ended on it counts, too.
func (l *lane) quietSince() time.Time {
	since := l.idleFrom
	if last := l.out.lastWrite(); last.After(since) {
		since = last
	}
	if l.s.conn.Multiplexed() {
		return since
	}
	if ended := time.UnixMicro(l.s.touched.Load()); ended.After(since) {
		since = ended
	}
	return since
}

// idleTime is how long the stream may stay silent from now on: while anything
// is in flight the peer has nothing to say.
func (l *lane) idleTime() time.Duration {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.long > 0 {
		return l.s.ep.opts.Bounds.LongIdle
	}
	if !l.s.idle() {
		return 1<<63 - 1
	}
	return l.s.ep.opts.Bounds.Idle
}

func (l *lane) frameDeadline() time.Time {
	_, whole := l.rd.Partial()
	whole = min(whole, l.s.ep.opts.FrameLimit+frame.HeaderSize)
	return l.since.Add(l.s.ep.opts.Bounds.Body + time.Duration(whole)*time.Second/bodyRate)
}

// grow lets the read buffer grow within the budgets, see frame.Options.
func (l *lane) grow(from, to int) error {
	if to > from && l.since.IsZero() {
		l.since = time.Now() // the frame filled the buffer with its first octets
	}
	if l.s.grow(to-from, l.frameDeadline()) {
		l.grown += to - from
		return nil
	}
	return profiles.Busy("in_flight_bytes", "too many octets in flight")
}

// firstWindow is the size of the buffer that a frame.Reader takes before it
// asks to grow.
const firstWindow = 64 << 10

// openWindow is called when a frame has arrived in part. The buffer that holds
// it may stay for as long as the frame may take, and a multiplexed connection
// may have 128: so all but one of them come out of the budgets.
func (l *lane) openWindow() error {
	if l.spared || l.window > 0 || !l.s.conn.Multiplexed() {
		return nil
	}
	if l.s.spared.CompareAndSwap(false, true) {
		l.spared = true
		return nil
	}
	if !l.s.grow(firstWindow, l.frameDeadline()) {
		return profiles.Busy("in_flight_bytes", "too many octets in flight")
	}
	l.window = firstWindow
	return nil
}

func (l *lane) closeWindow() {
	if l.spared {
		l.spared = false
		l.s.spared.Store(false)
	}
	if l.window > 0 {
		l.s.hold(-l.window)
		l.window = 0
	}
}

// end handles the end of the stream.
func (l *lane) end(err error) {
	l.stopped = true
	var fault *profiles.Error
	have, _ := l.rd.Partial()
	why := transport.ConnectionError(err)
	switch {
	case l.s.ctx.Err() != nil:
		// Closed here; nobody is to blame.
	case why != nil && l.s.conn.Multiplexed():
		// Also inside a frame, and before the connection says so itself: whoever waits
		// for an answer is to see that the session is over, and no refusal.
		l.s.close(profiles.OK, why)
	case err == errDrained:
		l.depart()
	case errors.As(err, &fault), CodeOf(err).Code != profiles.Internal, have > 0:
		// What the frame reader found, or a stream cut inside a frame.
		l.refuseFrame(err)
	case err == io.EOF:
		// The peer has said all it has to say; it still gets its answers.
	default:
		l.lost(err)
	}
}

// errDrained ends the read loop of a session that is shutting down and has
// nothing in flight any more.
var errDrained = errors.New("endpoint: drained")

// depart ends the stream of a drained session: what is queued is written, the
// peer is told that nothing more will come, and on a connection that is its
// only stream it gets a moment to hang up itself, so that nothing written is
// lost to a reset.
func (l *lane) depart() {
	if l.s.conn.Multiplexed() {
		l.out.finish()
		return
	}
	l.hangUp()
	l.s.close(profiles.OK, ErrShutdown)
}

// lost ends what depends on a stream that was reset or a connection that
// broke between two frames.
func (l *lane) lost(err error) {
	if !l.s.conn.Multiplexed() {
		l.s.close(profiles.OK, err)
		return
	}
	if l.refs.Load() > 1 && !l.ours && l.s.pace.charge(&l.s.ep.opts.Bounds, true) {
		// Requests that are reset before their answer cost work all the same.
		l.s.close(profiles.RateLimitExceeded, err)
		return
	}
	l.s.failCallsOf(l, err)
	l.stream.Reset(uint64(profiles.OK))
}

// Call implements profiles.Lane.
func (l *lane) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	c, err := l.call(ctx, env, false)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Send implements profiles.Lane.
func (l *lane) Send(ctx context.Context, env e1.Envelope) error {
	if err := l.s.err(); err != nil {
		return err
	}
	var id [16]byte
	if len(env.MsgID) == 0 {
		l.s.nextID(&id)
		env.MsgID = id[:]
	}
	l.complete(&env, l.s.ep.opts.Now())
	return l.out.send(ctx, &env, waits)
}

// Close implements profiles.Lane.
func (l *lane) Close() error {
	if l.s.conn.Multiplexed() && l.own.CompareAndSwap(true, false) {
		l.out.closeWrite()
		l.release()
	}
	return nil
}

// Reset gives up an own lane and what is in flight on it.
func (l *lane) Reset() {
	if l.s.conn.Multiplexed() && l.own.CompareAndSwap(true, false) {
		l.stream.Reset(uint64(profiles.OK))
		l.release()
	}
}

// complete fills in what the sender of an envelope may leave out.
func (l *lane) complete(env *e1.Envelope, now time.Time) {
	if env.Version == 0 {
		env.Version = e1.Version
	}
	if env.Timestamp == 0 {
		env.Timestamp = uint64(now.UnixMilli())
	}
}

// input is what a lane's frame.Reader reads from: the stream, with a flush and
// a deadline before each read that may block.
type input lane

// Read flushes the answers gathered so far, sets the deadline that fits what
// is being waited for, and reads.
func (in *input) Read(p []byte) (int, error) {
	l := (*lane)(in)
	l.out.flush()
	now := time.Now()
	have, _ := l.rd.Partial()
	var deadline time.Time
	switch {
	case have > 0:
		if l.since.IsZero() {
			l.since = now
		}
		if err := l.openWindow(); err != nil {
			return 0, err
		}
		deadline = l.frameDeadline()
	case len(p) > 1:
		// Moving the deadline costs more than being coarse about it.
		if left := l.deadline.Sub(now); left > linger && left <= 2*linger {
			deadline = l.deadline
		} else {
			deadline = now.Add(2 * linger)
		}
		l.idleFrom = time.Time{}
	default:
		deadline = l.idleDeadline(now)
	}
	if deadline != l.deadline {
		l.deadline = deadline
		if err := l.stream.SetReadDeadline(deadline); err != nil {
			return 0, err
		}
	}
	if l.s.drained() { // looked at after the deadline is set, see settle
		return 0, errDrained
	}
	rests := have == 0 && l.grown > 0
	if rests { // said after the deadline is set, see recall
		l.resting.Store(true)
	}
	n, err := l.stream.Read(p)
	if rests {
		l.resting.Store(false)
	}
	l.now = l.s.ep.opts.Now()
	if n > 0 && l.s.conn.Multiplexed() {
		l.s.touch(time.Now())
	}
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		l.deadline = time.Time{} // it may have been another one's, see settle and recall
	}
	return n, err
}

// idleDeadline is when a silent stream is looked at again.
func (l *lane) idleDeadline(now time.Time) time.Time {
	if l.idleFrom.IsZero() {
		l.idleFrom = now
	}
	b := &l.s.ep.opts.Bounds
	idle := min(b.Idle, b.LongIdle)
	if at := l.quietSince().Add(idle); at.After(now) {
		return at
	}
	return now.Add(min(idle, time.Minute)) // something is in flight
}
