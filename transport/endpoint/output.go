package endpoint

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
)

// errSlow ends sessions whose peer does not read what is due to it.
var errSlow = errors.New("endpoint: the peer is too slow to read")

const (
	// gathered is how much output collects before it is written although more
	// could be added.
	gathered = 48 << 10

	// stalled is how long a write may be under way before a full queue means
	// that the peer does not read, and not that the writer had no turn yet.
	stalled = time.Second
)

// patience says what a sender does when the queue is full.
type patience uint8

const (
	inline  patience = iota // on the read loop: writes by itself
	waits                   // a goroutine of its own: waits for room
	refuses                 // must not wait: a queue that stays full ends the session
)

// output is the outbound queue of a stream. Whoever has something to say
// appends a frame; many small frames are written at once. One goroutine writes
// at a time, the read loop when it has nothing more to read, else a flusher
// that is started on demand and yields once, so that others can add theirs.
type output struct {
	l *lane

	mu      sync.Mutex
	buf     []byte // frames waiting
	spare   []byte // the buffer written last, to be used again
	frames  int    // in buf and under way
	busy    int    // octets under way
	writing bool   // some goroutine has the right to write
	began   time.Time
	closing bool // CloseWrite is due after what is queued
	closed  bool
	err     error
	wrote   bool          // anything was ever written
	room    chan struct{} // closed after the next write; nil if nobody waits
}

// reset makes o the queue of a new stream. Its buffers were dropped.
func (o *output) reset(l *lane) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.l, o.frames, o.closing, o.closed, o.err, o.wrote = l, 0, false, false, nil, false
}

// send queues one frame. See patience for what happens if there is no room.
func (o *output) send(ctx context.Context, env *e1.Envelope, p patience) error {
	size := env.Size()
	opts := &o.l.s.ep.opts
	if size > opts.FrameLimit || len(env.Payload) > opts.Envelope.MaxPayload || len(env.Extensions) > opts.Envelope.MaxExtensions {
		return &profiles.Error{Code: profiles.Internal, Detail: profiles.PayloadTooLarge.String(), Text: "message above the size limit"}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.admit(ctx, size, p); err != nil {
		return err
	}
	if o.buf == nil {
		o.buf, o.spare = o.spare, nil
	}
	if o.buf == nil {
		o.buf = o.l.s.ep.pool.Get(0)
	}
	o.frames++
	if len(env.Payload) >= direct && p != refuses {
		return o.sendDirect(env, size)
	}
	o.buf = o.grown(o.buf, size+frame.HeaderSize)
	o.buf = env.Append(frame.AppendHeader(o.buf, size))
	if p == inline {
		if len(o.buf) >= gathered {
			o.write()
		}
	} else if !o.writing {
		o.writing = true
		go o.flusher()
	}
	return o.err
}

// admit waits or fails while the queue is full.
func (o *output) admit(ctx context.Context, size int, p patience) error {
	b := &o.l.s.ep.opts.Bounds
	for {
		switch {
		case o.err != nil:
			return o.err
		case o.closing:
			return profiles.ErrFinished
		case p == inline:
			return nil
		case len(o.buf)+o.busy+size <= b.OutboundBytes || o.frames == 0:
			full := o.frames >= b.OutboundFrames
			if !full || p == refuses && (o.began.IsZero() || time.Since(o.began) < stalled) {
				return nil
			}
		}
		if p == refuses {
			o.fail(errSlow)
			return errSlow
		}
		if o.room == nil {
			o.room = make(chan struct{})
		}
		room := o.room
		o.mu.Unlock()
		var err error
		select {
		case <-room:
		case <-ctx.Done():
			err = ctx.Err()
		}
		o.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// grown returns b with room for n more octets, in another buffer if need be.
func (o *output) grown(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	bigger := append(o.l.s.ep.pool.Get(max(len(b)+n, 2*cap(b))), b...)
	o.l.s.ep.pool.Put(b)
	return bigger
}

// sendDirect writes what is queued, then the frame with its payload from where
// it lies. The caller holds mu.
func (o *output) sendDirect(env *e1.Envelope, size int) error {
	for o.writing && o.err == nil {
		o.awaitWrite()
	}
	if o.err != nil {
		return o.err
	}
	o.writing = true
	o.buf = o.grown(o.buf, size-len(env.Payload)+frame.HeaderSize)
	o.buf = env.AppendHead(frame.AppendHeader(o.buf, size))
	o.writeOnce(env.Payload)
	o.done()
	return o.err
}

// awaitWrite waits, without mu, for the write under way.
func (o *output) awaitWrite() {
	if o.room == nil {
		o.room = make(chan struct{})
	}
	room := o.room
	o.mu.Unlock()
	<-room
	o.mu.Lock()
}

// flush writes what is queued, unless another goroutine is writing and will.
func (o *output) flush() {
	o.mu.Lock()
	o.write()
	o.mu.Unlock()
}

// write is flush with mu held.
func (o *output) write() {
	if o.writing || len(o.buf) == 0 || o.err != nil {
		return
	}
	o.writing = true
	o.writeOnce(nil)
	o.done()
}

// flusher writes until nothing is left. It yields before each write: the other
// senders that are ready to run add their frames to the same record. Without
// that, throughput with many senders is a fifth.
func (o *output) flusher() {
	runtime.Gosched()
	o.mu.Lock()
	for len(o.buf) > 0 && o.err == nil {
		o.writeOnce(nil)
		o.mu.Unlock()
		runtime.Gosched()
		o.mu.Lock()
	}
	o.done()
	o.mu.Unlock()
}

// writeOnce writes what is queued and then tail, without mu. The caller has
// set writing.
func (o *output) writeOnce(tail []byte) {
	buf, frames := o.buf, o.frames
	o.buf, o.spare = o.spare, nil
	o.busy = len(buf) + len(tail)
	o.began = time.Now()
	o.wrote = true
	began := o.began
	o.mu.Unlock()
	stream := o.l.stream
	err := stream.SetWriteDeadline(began.Add(o.l.s.ep.opts.Bounds.Write))
	if err == nil {
		_, err = stream.Write(buf)
	}
	if err == nil && len(tail) > 0 {
		_, err = stream.Write(tail)
	}
	o.mu.Lock()
	o.busy, o.frames, o.began = 0, o.frames-frames, time.Time{}
	if o.spare == nil && cap(buf) <= 2*gathered {
		o.spare = buf[:0]
	} else {
		o.l.s.ep.pool.Put(buf)
	}
	if err != nil {
		o.fail(err)
	}
	o.signal()
}

// done gives up the right to write. Frames that were added meanwhile by
// senders who saw it taken get a flusher.
func (o *output) done() {
	o.writing = false
	switch {
	case o.err != nil:
	case len(o.buf) > 0:
		o.writing = true
		go o.flusher()
	case o.closing && !o.closed:
		o.closed = true
		_ = o.l.stream.CloseWrite()
	}
	o.signal()
}

func (o *output) signal() {
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}

// fail ends the stream because nothing can be written to it any more.
func (o *output) fail(err error) {
	if o.err != nil {
		return
	}
	o.err = err
	o.frames = 0
	o.signal()
	if !o.l.s.conn.Multiplexed() {
		// Not under mu: closing runs into the peer's or the observer's code.
		go o.l.s.close(profiles.RateLimitExceeded, err)
		return
	}
	o.l.stream.Reset(uint64(profiles.RateLimitExceeded))
}

// closeWrite tells the peer, after what is queued, that nothing more will come.
func (o *output) closeWrite() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		return
	}
	o.closing = true
	if !o.writing {
		o.writing = true
		if len(o.buf) > 0 && o.err == nil {
			o.writeOnce(nil)
		}
		o.done()
	}
}

// used reports whether anything was ever written.
func (o *output) used() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wrote
}

// drop gives the buffers back if nothing is queued, and reports whether the
// queue is at rest.
func (o *output) drop() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing || len(o.buf) > 0 {
		return false
	}
	o.l.s.ep.pool.Put(o.buf)
	o.l.s.ep.pool.Put(o.spare)
	o.buf, o.spare = nil, nil
	return true
}
