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
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// lane is one stream: its read loop and its outbound queue. It implements profiles.Lane.
//
// input, responder and exchanger are other types with the same underlying struct. A
// conversion to them allocates nothing. input reads; responder and exchanger belong to the
// message being served.
//
// A lane is reference-counted: the read loop, every exchange and call on it, and the caller
// that opened it hold one reference each.
type lane struct {
	s      *Session
	stream transport.Stream
	id     uint64
	refs   atomic.Int32
	ours   bool          // opened here, not by the peer
	own    atomic.Bool   // ours, and its opener has not released it
	placed bool          // ours, with a place of streams
	payer  string        // whose place that is
	late   atomic.Bool   // a handler outlived its exchange: never used again
	deaf   error         // why no answer can arrive any more; guarded by the session's mu
	read   func()        // of CloseThen; guarded by the session's mu
	gone   chan struct{} // closed with the last reference, unless multiplexed
	ctx    context.Context

	rd        frame.Reader
	out       output
	scratch   []byte
	deferrals deferrals
	reserve   func(from, to int) error // grow, bound once
	window    int                      // octets taken from the budgets for the first window of the buffer
	grown     int                      // octets taken from the budgets for its growth: room
	room      memory.Room              // of a large frame
	answerTo  [16]byte                 // msg_id of an answer whose buffer its call has
	received  int64                    // octets of the stream
	resting   atomic.Bool              // between two frames, with a buffer that grew, see recall
	spared    bool                     // this lane has the session's one free window
	waits     atomic.Bool              // for octets of the peer, with nothing to serve, see closeDrained

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
	carries bool            // the Tracer has made another context than that of the lane
	traced  func(Verdict)   // to be called with its verdict, see Tracer; may be nil
	taken   *exchange       // set by Detach, Hold and Defer
	ended   bool            // Finish was called
	stopped bool            // the loop must end
}

// newLane makes the lane of a stream. A stream opened here has a second reference, for its
// opener.
func (s *Session) newLane(stream transport.Stream, own bool) *lane {
	l := s.ep.lanes.Get().(*lane) //nolint:errcheck // the pool holds nothing else
	s.mu.Lock()
	s.lastLane++
	l.id, l.deaf, l.read = s.lastLane, nil, nil
	s.mu.Unlock()
	l.s, l.stream, l.ours, l.placed = s, stream, own, false
	l.ctx = s.ctx
	l.now, l.deadline, l.since, l.idleFrom = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	l.seq, l.received, l.stopped = 0, 0, false
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
	l.rd.Reset((*input)(l), frame.Options{Limit: s.opts.FrameLimit, Pool: &s.ep.pool, Reserve: l.reserve})
	l.out.reset(l)
	return l
}

// hold takes a reference. It fails if the last one was released, which can happen only to
// callers that hold none.
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

// release gives up one reference. With the last one the stream ends, and on a multiplexed
// connection the lane is reused.
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
	if l.placed {
		s.streams.places.Give(l.payer)
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

// run reads and serves until the stream ends, then releases its reference.
func (l *lane) run() {
	s := l.s
	s.addLane(l)
	for !l.stopped {
		body, err := l.rd.Next()
		switch {
		case err == nil:
			l.seq++
			l.since = time.Time{}
			l.receive(body)
			if l.grown > 0 && l.room.Wanted() {
				l.rd.Release()
			}
			l.awaitDeferred()
		case errors.Is(err, os.ErrDeadlineExceeded):
			l.silent()
		default:
			l.end(err)
		}
	}
	l.out.flush()
	s.failCallsOf(l, ErrNoAnswer)
	s.mu.Lock()
	read := l.read
	l.read = nil
	s.mu.Unlock()
	if read != nil {
		read()
	}
	if s.conn.Multiplexed() {
		s.unshare(l)
	}
	s.removeLane(l)
	l.release()
	s.checkDrained()
}

// ErrNoAnswer fails a call whose peer half-closed the stream without an answer. On TCP this
// is also how a peer closes the connection.
var ErrNoAnswer = errors.New("endpoint: the peer finished the stream without an answer")

// end handles the end of the stream.
func (l *lane) end(err error) {
	l.stopped = true
	var fault *profiles.Error
	have, _ := l.rd.Partial()
	why := transport.ConnectionError(err)
	switch {
	case l.s.ctx.Err() != nil:
		// This side closed the stream.
	case why != nil && l.s.conn.Multiplexed():
		// This also applies inside a frame, and before the connection reports its end:
		// callers must see that the session is over, not a refusal.
		l.s.close(profiles.OK, why)
	case err == errDrained:
		l.endDrained()
	case l.ours && wasReset(err):
		l.lost(err) // also inside a frame: the peer has given up its answer, which is no refusal
	case errors.As(err, &fault), CodeOf(err).Code != profiles.Internal, have > 0:
		// An error of the frame reader, or a stream that ended inside a frame.
		l.refuseFrame(err)
	case err == io.EOF:
		// The peer has half-closed the stream. It still gets its answers.
	default:
		l.lost(err)
	}
}

// wasReset reports whether the peer has reset the stream.
func wasReset(err error) bool {
	closed, ok := errors.AsType[*transport.CloseError](err)
	return ok && closed.Stream
}

// lost ends the exchanges and calls of a stream that was reset, or of a connection that
// broke between two frames.
func (l *lane) lost(err error) {
	if !l.s.conn.Multiplexed() {
		l.s.close(profiles.OK, err)
		return
	}
	if l.refs.Load() > 1 && !l.ours && l.s.charge(l.caller(), true) {
		// A request that is reset before its answer still costs work, so resets are
		// charged.
		l.s.close(profiles.RateLimitExceeded, err)
		return
	}
	l.s.failCallsOf(l, err)
	l.stream.Reset(uint64(profiles.OK))
}

// caller returns the caller of an exchange that is open on the stream, nil if it has none.
func (l *lane) caller() *profiles.Peer {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for _, e := range l.s.inflight {
		if e.l == l {
			return e.req.Caller
		}
	}
	return nil
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
	given := len(env.MsgID) > 0
	if !given {
		l.s.nextID(&id)
		env.MsgID = id[:]
	}
	env.Extensions = profiles.AppendChain(ctx, env.Extensions)
	l.complete(&env, l.s.opts.Now())
	if err := l.s.tell(ctx, &env); err != nil {
		return err
	}
	if ahead := profiles.AheadOf(ctx); ahead != nil && l.s.begins(&env) {
		if err := ahead(profiles.WithAhead(ctx, nil), l, &env); err != nil {
			return err
		}
	}
	var k *callRecord
	if l.s.ep.asked != nil && l.s.opens(&env, given) {
		k = l.s.records(ctx, &env)
	}
	err := l.out.send(ctx, &env, waits)
	if k != nil {
		if err == nil {
			l.s.ep.asked.RecordCall(k.report(l.s, env.MsgID))
		}
		k.record.free()
	}
	return err
}

// envelopeRoom is an upper bound of the octets of an envelope besides its extensions and its
// payload.
const envelopeRoom = 128

// Room implements profiles.Room.
func (l *lane) Room(extensions int) int {
	most := l.s.limits()
	return min(most.Payload, most.Frame-extensions-envelopeRoom)
}

// Close implements profiles.Lane.
func (l *lane) Close() error {
	if l.s.conn.Multiplexed() && l.own.CompareAndSwap(true, false) {
		l.out.closeWrite()
		l.release()
	}
	return nil
}

// CloseThen implements profiles.CloseThen. The peer ends its side of a stream when it has read ours.
func (l *lane) CloseThen(read func()) {
	if !l.s.conn.Multiplexed() || !l.own.CompareAndSwap(true, false) {
		read()
		return
	}
	l.s.mu.Lock()
	over := l.deaf != nil
	if !over {
		l.read = read
	}
	l.s.mu.Unlock()
	l.out.closeWrite()
	l.release()
	if over {
		read()
	}
}

// Reset resets a stream that was opened here and ends everything in flight on it.
func (l *lane) Reset() {
	if l.s.conn.Multiplexed() && l.own.CompareAndSwap(true, false) {
		l.stream.Reset(uint64(profiles.OK))
		l.release()
	}
}

// complete fills in the optional fields of an outgoing envelope.
func (l *lane) complete(env *e1.Envelope, now time.Time) {
	if env.Version == 0 {
		env.Version = e1.Version
	}
	if env.Timestamp == 0 {
		env.Timestamp = uint64(now.UnixMilli())
	}
}
