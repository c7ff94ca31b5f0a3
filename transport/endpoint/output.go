package endpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/internal/room"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// errSlow ends the session of a peer that does not read fast enough.
var errSlow = errors.New("endpoint: the peer is too slow to read")

const (
	// direct is the size from which a payload is written from its own memory instead of
	// being copied into the output buffer.
	direct = 32 << 10

	// gathered is how many octets output collects before it writes them, even if more could
	// be added.
	gathered = 48 << 10

	// stalled is how long a write may take before a full queue means that the peer does not
	// read. With a shorter write the writer may just not have been scheduled.
	stalled = time.Second

	// burst multiplies the bounds of the queue for terminal answers: the answers to many
	// requests may be ready at once, and the peer has requested each of them. Large answers
	// leave one part for small ones.
	burst = 4
)

// errWaits refuses a message that cannot wait for a peer that waits for room.
var errWaits = profiles.Busy("outbound", "the peer reads nothing now: it may wait for room for a large message")

// errTooMuch replaces an answer for which there is no room. It is not retryable, because
// the request may have been executed.
var errTooMuch = &profiles.Error{
	Code: profiles.RateLimitExceeded, Detail: "outbound", Text: "too many large answers are waiting to be read", Pace: true,
}

// patience says what a sender does if the queue is full.
type patience uint8

const (
	inline  patience = iota // on the read loop: writes the queue itself
	waits                   // on another goroutine: waits for room
	copied                  // on the read loop, for a flusher to write: waits for room
	refuses                 // must not wait: a queue that stays full ends the session
	answers                 // the same for a terminal answer, see burst
	yields                  // must not wait, may be lost: leaves a quarter to the others
)

// output is the outbound queue of a stream. Senders append frames, and many small frames
// are written at once. One goroutine writes at a time: the read loop when it has nothing
// more to read, else a flusher. A flusher is started on demand and yields once, so that
// other senders can append.
type output struct {
	l *lane

	mu      sync.Mutex
	buf     []byte    // frames waiting
	charge  charge    // the part of cap(buf) in the budget of the endpoint
	excused bool      // this output is the session's one free queue
	spare   []byte    // the buffer written last, to be used again
	frames  int       // in buf and being written
	busy    int       // octets being written
	words   int       // octets of terminal answers in buf
	large   bool      // buf has a frame for which the peer may wait for room
	writing bool      // some goroutine has the right to write
	began   time.Time // when the present write began, or zero
	last    time.Time // when the latest write began
	closing bool      // CloseWrite is due after what is queued
	closed  bool
	err     error
	wrote   bool // anything was ever written

	committed uint64 // Session.recorded at the latest commit; owned by the writing goroutine

	deadline time.Time // current write deadline; owned by the writing goroutine
	room     room.Gate // wakes waiting senders after each write
}

// charge is a number of octets in the budget, and the size of their message.
type charge struct {
	n  int
	of memory.Size
}

// reset makes o the queue of a new stream. The previous stream has released its buffers.
func (o *output) reset(l *lane) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.l, o.frames, o.closing, o.closed, o.err, o.wrote = l, 0, false, false, nil, false
	o.last, o.deadline, o.committed, o.large = time.Time{}, time.Time{}, 0, false
}

// sizeOf returns the octets of a message, or the error for one above the current limits.
// End-to-end extensions for which there is no room are removed from it.
func (o *output) sizeOf(env *e1.Envelope) (int, error) {
	size := env.Size()
	if !o.allows(env, size) {
		if curtail(env) {
			o.l.s.ep.without.Add(1)
			size = env.Size()
		}
		if !o.allows(env, size) {
			most := o.l.s.limits()
			return 0, &profiles.Error{
				Code: profiles.Internal, Detail: profiles.PayloadTooLarge.String(),
				Text: fmt.Sprintf("a message of %d octets is above the limits of the other end or of this one: %d octets, %d for the payload", size, most.Frame, most.Payload),
			}
		}
	}
	return size, nil
}

// limits returns the limits of messages to the peer: the ones of this endpoint, and the ones of the
// peer as far as it has said them.
func (s *Session) limits() profiles.Limits {
	most := profiles.Limits{Frame: s.opts.FrameLimit, Payload: s.opts.Envelope.MaxPayload, Extensions: s.opts.Envelope.MaxExtensions}
	if there := s.known.Limits(); there != (profiles.Limits{}) {
		most.Frame, most.Payload = lower(most.Frame, there.Frame), lower(most.Payload, there.Payload)
		most.Extensions = lower(most.Extensions, there.Extensions)
	}
	return most
}

// lower returns the lower of two limits, of which the other may be zero for none.
func lower(limit, other int) int {
	if other > 0 {
		return min(limit, other)
	}
	return limit
}

// allows reports whether a message of a size is within the current limits.
func (o *output) allows(env *e1.Envelope, size int) bool {
	most := o.l.s.limits()
	return size <= most.Frame && len(env.Payload)+len(env.Tail) <= most.Payload && len(env.Extensions) <= most.Extensions
}

// curtail removes the end-to-end extensions of a message, and reports whether it had any.
func curtail(env *e1.Envelope) bool {
	ext := profiles.WithoutEndToEnd(env.Extensions)
	had := len(ext) < len(env.Extensions)
	env.Extensions = ext
	return had
}

// send queues one frame. p decides what happens without room.
func (o *output) send(ctx context.Context, env *e1.Envelope, p patience) error {
	size, err := o.sizeOf(env)
	if err != nil {
		return err
	}
	return o.queue(ctx, env, size, p)
}

// queue queues one frame of a message of size octets, unless the peer is not known to serve
// its profile.
func (o *output) queue(ctx context.Context, env *e1.Envelope, size int, p patience) error {
	return o.queueFor(ctx, env, size, p, nil, nil)
}

// queueFor is queue that calls first, unless it is nil, when there is room for the frame and
// before it can be written. first must not block. The frame is the last answer to a held request,
// unless that is nil: then it may have the octets of the request.
func (o *output) queueFor(ctx context.Context, env *e1.Envelope, size int, p patience, first func(), held *exchange) error {
	if err := o.l.s.refrain(ctx, env.ProfileID, p); err != nil {
		return err
	}
	if p == inline && (o.l.s.calling.Load() > 0 || o.l.s.mayAwaitRoom()) && !o.l.s.conn.Multiplexed() {
		// The peer may do the same: write an answer and not read ours until that is done.
		// So the loop continues to read, up to a bound.
		p = copied
	}
	size += frame.HeaderSize
	whole := len(env.Payload) >= direct || len(env.Tail) >= direct
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		if err := o.admit(ctx, size, p); err != nil {
			return err
		}
		if whole && (p == inline || p == waits) {
			if first != nil {
				first()
			}
			o.count(size, p)
			return o.sendDirect(env, size)
		}
		if o.makeRoom(size, held) {
			break
		}
		switch {
		case p == refuses, p == answers, p == yields:
			return profiles.Busy("in_flight_bytes", "too many octets in flight")
		case o.writing:
			o.awaitWrite()
		case len(o.buf) > 0:
			o.write()
		default:
			p, whole = waits, true // a direct write needs no room
		}
	}
	if first != nil {
		first()
	}
	o.count(size, p)
	o.note(size)
	o.buf = env.Append(frame.AppendHeader(o.buf, size-frame.HeaderSize))
	if p == inline {
		if len(o.buf) >= gathered {
			o.write()
		}
	} else if !o.writing {
		o.beginWriting()
		go o.flusher()
	}
	return o.err
}

// note notes that a frame of a size is behind those that were written or queued before.
func (o *output) note(size int) {
	if size > memory.Small {
		o.large = true
		o.l.s.larges.Add(1)
	}
}

// count adds a frame to the queue's figures.
func (o *output) count(size int, p patience) {
	o.frames++
	o.l.s.queued.Add(int64(size))
	if p == answers {
		o.words += size
		o.l.s.words.Add(int64(size))
	}
}

// admit waits or fails while the queue is full.
func (o *output) admit(ctx context.Context, size int, p patience) error {
	b := &o.l.s.opts.Bounds
	for {
		switch {
		case o.err != nil:
			return o.err
		case o.closing:
			return profiles.ErrFinished
		case p == inline:
			if !o.writing || len(o.buf) < gathered {
				return nil
			}
		case o.frames == 0, o.fits(size, p):
			full := o.frames >= b.OutboundFrames
			if p == answers {
				full = o.frames >= burst*b.OutboundFrames
			}
			if !full || p >= refuses && (o.began.IsZero() || time.Since(o.began) < stalled) {
				return nil
			}
		}
		switch {
		case p == yields:
			return room.ErrFull
		case p == answers && size > free:
			return errTooMuch
		case p == refuses && o.l.s.mayAwaitRoom():
			return errWaits
		case p == refuses, p == answers:
			o.fail(errSlow)
			return errSlow
		}
		if err := o.room.Wait(ctx, &o.mu); err != nil {
			return err
		}
	}
}

// fits reports whether a frame of a size may be queued.
func (o *output) fits(size int, p patience) bool {
	n, most := o.l.s.queued.Load()+int64(size), int64(o.l.s.opts.Bounds.OutboundBytes)
	switch {
	case p == yields:
		return o.bounds().Yields(o.l.s.queued.Load(), size)
	case p == refuses: // terminal answers of other exchanges do not count
		n -= o.l.s.words.Load()
	case p == answers && size > free:
		most *= burst - 1
	case p == answers:
		most *= burst
	}
	return n <= most
}

// Sizes of queues that are not charged to the endpoint's budget. free is two windows of a reader,
// with the slack of their buffers. A multiplexed connection may have 128 streams: one of a session
// may queue that much, the others the smallest buffer.
const (
	free  = 132 << 10
	small = 4<<10 + 64
)

// uncharged returns how many octets may be queued without a charge if want octets are needed. The
// caller holds mu.
func (o *output) uncharged(want int) int {
	if s := o.l.s; s.conn.Multiplexed() && !o.excused {
		if want <= small || !s.excused.CompareAndSwap(false, true) {
			return small
		}
		o.excused = true
	}
	return free
}

// makeRoom ensures that n more octets fit in buf. Above the free size they are charged to
// the budget for octets in flight; it returns false if the budget is spent, even with the octets of
// a held request in addition.
func (o *output) makeRoom(n int, held *exchange) bool {
	s := o.l.s
	if o.buf == nil {
		o.buf, o.spare = o.spare, nil
	}
	if cap(o.buf)-len(o.buf) >= n {
		return true
	}
	want := frame.Capacity(max(len(o.buf)+n, cap(o.buf)+1)) // the next size at least
	if want > o.uncharged(want) && !o.pay(want, held) {
		return false
	}
	bigger := append(s.ep.pool.Get(want), o.buf...)
	s.ep.pool.Put(o.buf)
	o.buf = bigger
	return true
}

// release leaves the free queue of the session to another stream. The caller holds mu.
func (o *output) release() {
	if o.excused {
		o.excused = false
		o.l.s.excused.Store(false)
	}
}

// pay replaces the charge for buf by n octets, or returns false without a change. It takes
// the octets of a held request if it needs them. The caller holds mu.
func (o *output) pay(n int, held *exchange) bool {
	share, now := o.l.s.share, charge{n, memory.Of(n)}
	if now.of == o.charge.of {
		n -= o.charge.n
	}
	if !share.Try(n, now.of) && (held == nil || !held.payFor(n, now.of)) {
		return false
	}
	if now.of != o.charge.of {
		o.charge.give(share)
	}
	o.charge = now
	return true
}

// give returns the octets to the budget.
func (c *charge) give(share *memory.Share) {
	if c.n > 0 {
		share.Give(c.n, c.of)
	}
	*c = charge{}
}

// sendDirect writes the queue, then the frame, whose payload is not copied. The caller
// holds mu.
func (o *output) sendDirect(env *e1.Envelope, size int) error {
	for o.writing && o.err == nil {
		o.awaitWrite()
	}
	if o.err != nil || o.closed {
		o.l.s.queued.Add(-int64(size))
		if o.err == nil {
			return profiles.ErrFinished
		}
		return o.err
	}
	o.beginWriting()
	front, rest := []byte(nil), env.Payload
	if len(env.Tail) >= direct {
		front, rest = env.Payload, env.Tail
	} else if len(env.Tail) > 0 {
		front, rest = nil, slices.Concat(env.Payload, env.Tail)
	}
	if head := size - len(rest); !o.makeRoom(head, nil) {
		o.writeOnce(nil)
		_ = o.makeRoom(head, nil) // a small one, which is free
	}
	o.note(size)
	o.buf = append(env.AppendHead(frame.AppendHeader(o.buf, size-frame.HeaderSize)), front...)
	o.writeOnce(rest)
	o.done()
	return o.err
}

// awaitWrite waits, without mu, for the present write.
func (o *output) awaitWrite() {
	_ = o.room.Wait(context.Background(), &o.mu)
}

// flush writes the queue, unless another goroutine is writing; that one then writes
// everything.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.writing && len(o.buf) > 0 && o.l.s.mayAwaitRoom() {
		// The peer may not read now, and may wait for this side to read.
		o.beginWriting()
		go o.flusher()
		return
	}
	o.write()
}

// write is flush with mu held.
func (o *output) write() {
	if o.writing || len(o.buf) == 0 || o.err != nil {
		return
	}
	o.beginWriting()
	o.writeOnce(nil)
	o.done()
}

// flusher writes until the queue is empty. It yields before each write, and again as long
// as the queue grows, so that other runnable senders add their frames to the same record.
func (o *output) flusher() {
	o.mu.Lock()
	for len(o.buf) > 0 && o.err == nil {
		for before := 0; before < len(o.buf) && len(o.buf) < gathered; {
			before = len(o.buf)
			o.mu.Unlock()
			runtime.Gosched()
			o.mu.Lock()
		}
		o.writeOnce(nil)
	}
	o.done()
	o.mu.Unlock()
}

// beginWriting takes the right to write.
func (o *output) beginWriting() {
	o.writing = true
	o.l.s.writing.Add(1)
}

// writeOnce writes the queue and then tail, without mu. The caller has the right to write.
func (o *output) writeOnce(tail []byte) {
	buf, frames, charged, words, large := o.buf, o.frames, o.charge, o.words, o.large
	o.buf, o.spare, o.charge, o.words, o.large = o.spare, nil, charge{}, 0, false
	o.busy = len(buf) + len(tail)
	o.wrote = true
	var err error
	for rest := buf; len(rest) > 0 && err == nil; {
		n := wholeFrames(rest)
		err = o.writeChunk(rest[:n], large)
		rest = rest[n:]
	}
	if err == nil && len(tail) > 0 {
		err = o.writeChunk(tail, large)
	}
	o.l.s.queued.Add(-int64(o.busy))
	o.l.s.words.Add(-int64(words))
	if o.err == nil { // else fail has cleared the figures
		o.frames -= frames
	}
	o.busy, o.began = 0, time.Time{}
	if o.spare == nil && cap(buf) <= 2*gathered && charged.n == 0 {
		o.spare = buf[:0]
	} else {
		o.l.s.ep.pool.Put(buf)
	}
	charged.give(o.l.s.share)
	if err != nil {
		o.fail(err)
	}
	o.room.Open()
}

// stride is how many octets of a frame share a deadline: a peer that receives 8 MiB over a
// slow link is not stalled.
const stride = 512 << 10

// writeChunk writes without mu. The deadline applies to one frame, or to one stride of a
// large frame, not to the whole queue. large says that the peer may wait for room for it.
func (o *output) writeChunk(p []byte, large bool) error {
	now := time.Now()
	o.began, o.last = now, now
	if o.l.s.conn.Multiplexed() {
		o.l.s.touch(now)
	}
	o.mu.Unlock()
	defer o.mu.Lock()
	if n := o.l.s.recorded.Load(); n != o.committed {
		o.l.s.ep.recorder.Commit()
		o.committed = n
	}
	for len(p) > stride {
		if err := o.writeWithin(p[:stride], now, large); err != nil {
			return err
		}
		p, now = p[stride:], time.Now()
	}
	return o.writeWithin(p, now, large)
}

// writeWithin writes before the deadline that begins now.
func (o *output) writeWithin(p []byte, now time.Time, large bool) error {
	stream := o.l.stream
	// Each change of a deadline wakes the poller. So the deadline is moved once a second,
	// and may be up to a tenth late.
	most := o.l.s.opts.Bounds.Write
	until := o.l.s.writeBy(now, most, large)
	if late := o.deadline.Sub(until); late < 0 || late > most/10 {
		o.deadline = until.Add(most / 10)
		if err := stream.SetWriteDeadline(o.deadline); err != nil {
			return err
		}
	}
	_, err := stream.Write(p)
	return err
}

// wholeFrames returns how many octets of a queue to write at once: all of them, or if there
// are many, as many whole frames as fit in a write.
func wholeFrames(queue []byte) int {
	if len(queue) <= 2*gathered {
		return len(queue)
	}
	n := 0
	for n < gathered && len(queue)-n > frame.HeaderSize {
		n += frame.HeaderSize + int(binary.BigEndian.Uint32(queue[n:]))
	}
	return min(n, len(queue)) // the last may be the head of a frame whose payload follows
}

// done gives up the right to write. If frames were added during the write, a flusher is
// started for them.
func (o *output) done() {
	if o.err == nil && len(o.buf) > 0 {
		go o.flusher()
		o.room.Open()
		return
	}
	o.writing = false
	o.l.s.writing.Add(-1)
	if o.err == nil && o.closing && !o.closed {
		o.closed = true
		_ = o.l.stream.CloseWrite()
		o.release()
	}
	o.room.Open()
}

// fail ends the stream after a write error. The queue is dropped.
func (o *output) fail(err error) {
	if o.err != nil {
		return
	}
	s := o.l.s
	o.err = err
	s.queued.Add(-int64(len(o.buf)))
	s.words.Add(-int64(o.words))
	s.ep.pool.Put(o.buf)
	o.charge.give(s.share)
	o.release()
	o.buf, o.frames, o.words = nil, 0, 0
	o.room.Open()
	if !s.conn.Multiplexed() {
		s.cancel(err)
		// On another goroutine and without mu, because close calls code of the transport
		// and the observer.
		go s.close(profiles.RateLimitExceeded, err)
		return
	}
	if stopped := (*transport.CloseError)(nil); o.l.ours && errors.As(err, &stopped) && stopped.Remote {
		// The read loop gets the answers that the peer has sent, and why it ended the stream.
		return
	}
	o.l.stream.Reset(uint64(profiles.RateLimitExceeded))
}

// closeWrite half-closes the stream after the queue has been written.
func (o *output) closeWrite() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		return
	}
	o.closing = true
	if !o.writing {
		o.beginWriting()
		if len(o.buf) > 0 && o.err == nil {
			o.writeOnce(nil)
		}
		o.done()
	}
}

// finish is closeWrite that waits until the queue has been written or writing has failed.
func (o *output) finish() {
	o.closeWrite()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.writing {
		o.awaitWrite()
	}
}

// stop is finish for a stream that is about to end with a code: it is not half-closed.
func (o *output) stop() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.finish()
}

// used reports whether anything was ever written.
func (o *output) used() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wrote
}

// lastWrite is when the latest write began.
func (o *output) lastWrite() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// drop releases the buffers if nothing is queued, and reports whether the queue is empty.
func (o *output) drop() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing || len(o.buf) > 0 {
		return false
	}
	o.l.s.ep.pool.Put(o.buf)
	o.l.s.ep.pool.Put(o.spare)
	o.charge.give(o.l.s.share)
	o.release()
	o.buf, o.spare = nil, nil
	return true
}
