package endpoint

import (
	"errors"
	"os"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

const (
	// linger is the silence after which a stream releases its buffers. An idle stream owns
	// one octet.
	linger = 100 * time.Millisecond

	// bodyRate is the slowest pace at which a peer may deliver a frame, in
	// octets per second, after Bounds.Body.
	bodyRate = 64 << 10
)

// input is the source of a lane's frame.Reader: the stream, with a flush and a deadline
// before each read that may block.
type input lane

// Read flushes the gathered answers, sets the deadline for the state of the stream, and
// reads.
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
		// Moving the deadline is more expensive than a deadline that is slightly late.
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
	large := have > 0 && l.grown > 0
	if large && l.room.Yielded() { // checked after the deadline is set, see memory.Wait
		return 0, errYielded
	}
	if !l.s.conn.Multiplexed() && l.s.drained() { // checked after the deadline is set, see checkDrained
		return 0, errDrained
	}
	rests := have == 0 && l.grown > 0
	if rests { // set after the deadline, see recall
		l.resting.Store(true)
	}
	l.waits.Store(true)
	n, err := l.stream.Read(p)
	l.waits.Store(false)
	if rests {
		l.resting.Store(false)
	}
	l.now = l.s.opts.Now()
	l.received += int64(n)
	if n > 0 && l.s.conn.Multiplexed() {
		l.s.touch(time.Now())
	}
	if large && n > 0 {
		l.s.arrived.Store(true)
		if _, whole := l.rd.Partial(); whole > firstWindow {
			l.room.Progress(whole - have - n)
		}
	}
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		l.deadline = time.Time{} // checkDrained or recall may have replaced it
	}
	return n, err
}

// idleDeadline is when a silent stream is checked again.
func (l *lane) idleDeadline(now time.Time) time.Time {
	if l.idleFrom.IsZero() {
		l.idleFrom = now
	}
	b := &l.s.opts.Bounds
	idle := min(b.Idle, b.LongIdle)
	if at := l.quietSince().Add(idle); at.After(now) {
		return at
	}
	return now.Add(min(idle, time.Minute)) // something is in flight
}

// errLate refuses a frame that takes too long, and errStalled fails the calls on its stream:
// a connection that is slow or lost is no wrong answer.
var (
	errLate    = &profiles.Error{Code: profiles.InvalidFrame, Detail: "slow", Text: "frame took too long"}
	errStalled = errors.New("endpoint: the stream stalled in the middle of a frame")
)

// errYielded refuses a frame that stalls while others wait for its room.
var errYielded = profiles.Busy("in_flight_bytes", "a large frame arrived too slowly while others waited for room")

// silent handles a read deadline. Either a frame took too long, or it is time to release
// the buffers of a silent stream, or the peer has been idle too long.
func (l *lane) silent() {
	have, _ := l.rd.Partial()
	now := time.Now()
	switch {
	case have > 0:
		switch {
		case l.grown > 0 && l.room.Yielded():
			l.refuseFrame(errYielded)
		case !now.Before(l.frameDeadline()):
			l.refuseFrame(errLate)
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
	limit := l.idleTime() // read before quietSince, because the end of an exchange calls touch first
	return now.Sub(l.quietSince()) >= limit
}

// quietSince is when the stream last carried an octet in either direction: a subscriber
// that only receives is not idle. If the stream is the connection, the end of an exchange
// counts as well.
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

// idleTime is how long the stream may now stay silent. While a request is in flight, the
// peer need not send anything.
func (l *lane) idleTime() time.Duration {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	switch {
	case l.s.kept > 0:
		return 1<<63 - 1
	case l.s.onlyLong():
		return l.s.opts.Bounds.LongIdle
	case !l.s.idle():
		return 1<<63 - 1
	}
	return l.s.opts.Bounds.Idle
}

func (l *lane) frameDeadline() time.Time {
	_, whole := l.rd.Partial()
	whole = min(whole, l.s.opts.FrameLimit+frame.HeaderSize)
	return l.since.Add(l.s.opts.Bounds.Body + time.Duration(whole)*time.Second/bodyRate)
}

// grow is frame.Options.Reserve: it takes the room for a large frame, or gives it back. While it
// waits for room, the stream is not read, and the time for the frame does not pass.
func (l *lane) grow(from, to int) error {
	if to < from {
		n := l.grown
		l.grown = 0
		l.room.Give()
		l.s.allowance.tryTake(-n)
		return nil
	}
	if l.since.IsZero() {
		l.since = time.Now() // the frame filled the buffer with its first octets
	}
	n := to - from
	if !l.s.own(n) {
		return errFull
	}
	if err := l.takeRoom(n); err != nil {
		l.s.allowance.tryTake(-n)
		if errors.Is(err, memory.ErrFull) {
			return l.s.noRoom(n)
		}
		return err
	}
	l.grown = n
	return nil
}

// takeRoom takes room in the budget of the endpoint. Of the streams of a multiplexed connection
// one waits for it: octets that have arrived on a stream that is not read use up the window of the
// others.
func (l *lane) takeRoom(n int) error {
	s := l.s
	have, whole := l.rd.Partial()
	wait := memory.Wait{Reader: l.stream, Answer: l.answers()}
	if err := l.room.Take(s.ctx, s.share, n, whole-have, wait); err == nil {
		return nil
	}
	if s.conn.Multiplexed() {
		if !s.waits.CompareAndSwap(false, true) {
			return memory.ErrFull
		}
		defer s.waits.Store(false)
	} else {
		s.without.Store(true)
		defer s.without.Store(false)
	}
	l.out.flush()
	began := time.Now()
	wait.Most, wait.Gone = s.opts.Bounds.Room, l.lostFrame
	err := l.room.Take(s.ctx, s.share, n, whole-have, wait)
	l.since = l.since.Add(time.Since(began))
	l.deadline = time.Time{} // Probe may have set another
	return err
}

// answers reports whether the frame that arrives is for a call that is open here: its last answer,
// or another when all before it have been received. So a caller that does not receive has little
// of the room for answers.
func (l *lane) answers() bool {
	s := l.s
	if s.calling.Load() == 0 {
		return false
	}
	var env e1.Envelope
	_ = env.Decode(l.rd.Arrived(), &s.opts.Envelope) // an error: not all of it has arrived
	n, own := s.ownID(env.MsgID)
	profile, known := s.opts.Registry.Lookup(env.ProfileID)
	if !own || !known {
		return false
	}
	typ, _ := profile.Type(env.MsgType)
	if typ.Role&profiles.Answer == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[n]
	if c == nil || c.l != l || c.prof != env.ProfileID {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return typ.Role&profiles.Terminal != 0 || c.bytes == 0
}

// lostFrame returns why the frame that waits for room will not be complete, or nil if it may be.
func (l *lane) lostFrame() error {
	stream, ok := l.stream.(transport.Prober)
	if !ok {
		return nil
	}
	rest, err := stream.Probe(l.received)
	if err != nil {
		return err
	}
	if have, whole := l.rd.Partial(); rest >= 0 && rest < int64(whole-have) {
		return frame.ErrTruncated
	}
	return nil
}

// handOver is the least buffer that a message takes along instead of being copied. The first window
// in it was free, so of a smaller one too much would not be counted.
const handOver = 4 * firstWindow

// detaches reports whether a message of n octets takes the buffer of the reader along: it fills most
// of it.
func (l *lane) detaches(n int) bool {
	size := l.rd.Grown()
	return size >= handOver && n > size/2
}

// detach takes the buffer of the message being served from the reader, and its room.
// The windows into it stay valid.
func (l *lane) detach() (buf []byte, paid int) {
	l.grown = 0
	return l.rd.Detach(), l.room.Keep()
}

// firstWindow is the size of the first buffer of a frame.Reader; it takes it without
// calling Reserve.
const firstWindow = 64 << 10

// openWindow is called when part of a frame has arrived. The buffer is needed until the
// frame is complete, and a multiplexed connection may have 128 streams. One window per
// session is free; the others count against the budgets.
func (l *lane) openWindow() error {
	if l.spared || l.window > 0 || !l.s.conn.Multiplexed() {
		return nil
	}
	if l.s.spared.CompareAndSwap(false, true) {
		l.spared = true
		return nil
	}
	if err := l.s.begin(firstWindow, memory.First(l.ours), l.frameDeadline()); err != nil {
		return err
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
		l.s.giveBack(l.window, memory.First(l.ours))
		l.window = 0
	}
}
