package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// OverPipe is the Transport and the Addr of the Peer of a pipe.
const OverPipe = "pipe"

// PipeOptions describe an in-memory connection. The zero value is usable.
type PipeOptions struct {
	// Multiplexed makes the pipe behave as QUIC does: Open makes streams,
	// Reset carries its code, and Close drops what is under way.
	Multiplexed bool

	// Buffer is how many octets one direction of a stream takes before Write
	// waits. Zero means 64 KiB.
	Buffer int

	// Streams is how many streams one end may have open on a multiplexed pipe,
	// counted until the other end released them (Releaser). Zero means 128.
	Streams int

	// A and B are the identities of the two ends: b.Peer() is A. Empty means
	// spiffe://pipe.invalid/a and spiffe://pipe.invalid/b.
	A, B string
}

// Pipe returns the two ends of an in-memory connection that carries one stream.
//
// It behaves like a TLS connection: after Close the other end can still read the octets
// written before, then gets io.EOF. Its ends wait only on channels, sync.Cond and timers,
// so that testing/synctest can be used with it.
func Pipe() (a, b Conn) { return NewPipe(PipeOptions{}) }

// MuxPipe is Pipe with many streams, as on QUIC.
func MuxPipe() (a, b Conn) { return NewPipe(PipeOptions{Multiplexed: true}) }

// NewPipe returns the two ends of an in-memory connection.
func NewPipe(o PipeOptions) (a, b Conn) {
	if o.Buffer <= 0 {
		o.Buffer = 64 << 10
	}
	if o.Streams <= 0 {
		o.Streams = 128
	}
	if o.A == "" {
		o.A = "spiffe://pipe.invalid/a"
	}
	if o.B == "" {
		o.B = "spiffe://pipe.invalid/b"
	}
	x, y := newPipeEnd(o, o.B), newPipeEnd(o, o.A)
	x.far, y.far = y, x
	if !o.Multiplexed {
		s, t := newPipeStreams(x, y)
		x.only, y.only = s, t
		x.incoming <- s
		y.incoming <- t
	}
	return x, y
}

// pipeEnd is one end of a pipe.
type pipeEnd struct {
	opts PipeOptions
	peer *Peer
	far  *pipeEnd

	ctx  context.Context
	stop context.CancelCauseFunc

	only     *pipeStream      // unless multiplexed
	incoming chan *pipeStream // opened by the far end, not yet accepted
	credit   chan struct{}    // one element for each stream this end has open

	mu      sync.Mutex
	streams map[*pipeStream]struct{} // live ends of streams; nil once closed
}

func newPipeEnd(o PipeOptions, peer string) *pipeEnd {
	e := &pipeEnd{
		opts:     o,
		peer:     &Peer{Identity: peer, Transport: OverPipe, Addr: OverPipe},
		incoming: make(chan *pipeStream, o.Streams),
		credit:   make(chan struct{}, o.Streams),
		streams:  make(map[*pipeStream]struct{}),
	}
	e.ctx, e.stop = context.WithCancelCause(context.Background())
	return e
}

func (e *pipeEnd) Peer() *Peer              { return e.peer }
func (e *pipeEnd) Multiplexed() bool        { return e.opts.Multiplexed }
func (e *pipeEnd) Context() context.Context { return e.ctx }

func (e *pipeEnd) Open(ctx context.Context) (Stream, error) {
	if err := e.ctx.Err(); err != nil {
		return nil, context.Cause(e.ctx)
	}
	if e.only != nil {
		return e.only, nil
	}
	select {
	case e.credit <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-e.ctx.Done():
		return nil, context.Cause(e.ctx)
	}
	return e.open()
}

// Streams and TryOpen implement Bounded.
func (e *pipeEnd) Streams() int { return e.opts.Streams }

func (e *pipeEnd) TryOpen() (Stream, error) {
	select {
	case e.credit <- struct{}{}:
		return e.open()
	default:
		return nil, nil
	}
}

// open opens a stream, for which there is a credit.
func (e *pipeEnd) open() (Stream, error) {
	here, there := newPipeStreams(e, e.far)
	there.credit = e.credit
	if !e.adopt(here) || !e.far.adopt(there) {
		if why := context.Cause(e.ctx); why != nil {
			return nil, why
		}
		return nil, &CloseError{Remote: true} // the far end is a step ahead
	}
	// Never waits: a credit is given back only after its stream was accepted.
	e.far.incoming <- there
	return here, nil
}

func (e *pipeEnd) Accept(ctx context.Context) (Stream, error) {
	if e.ctx.Err() != nil && e.only == nil {
		return nil, context.Cause(e.ctx)
	}
	select {
	case s := <-e.incoming:
		return s, nil
	default:
	}
	select {
	case s := <-e.incoming:
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-e.ctx.Done():
		return nil, context.Cause(e.ctx)
	}
}

func (e *pipeEnd) Close(code uint64) error {
	here, there := &CloseError{Code: code}, &CloseError{Code: code, Remote: true}
	if e.only != nil {
		there.Code = 0 // as on TLS, the code is not carried
		e.only.out.finish(here)
		e.only.in.abort(here, there)
		e.stop(here)
		e.far.stop(there)
		return nil
	}
	e.end(here, there)
	e.far.end(there, here)
	return nil
}

// end stops this end of a multiplexed pipe and all its streams. why is the reason at this
// end, farWhy the reason at the far end.
func (e *pipeEnd) end(why, farWhy *CloseError) {
	e.mu.Lock()
	streams := e.streams
	e.streams = nil
	e.mu.Unlock()
	e.stop(why)
	for s := range streams {
		s.in.abort(why, farWhy)
		s.out.abort(farWhy, why)
		s.stop()
	}
}

// adopt registers a stream. It returns false if this end is closed.
func (e *pipeEnd) adopt(s *pipeStream) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.streams == nil {
		return false
	}
	e.streams[s] = struct{}{}
	return true
}

func (e *pipeEnd) forget(s *pipeStream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.streams, s)
}

// pipeStream is one end of a stream.
type pipeStream struct {
	conn    *pipeEnd
	far     *pipeStream
	in, out *flow

	ctx  context.Context // of one of many streams
	stop context.CancelFunc

	// Only at the end that accepted the stream.
	credit   chan struct{} // to take the credit of the opener from
	released atomic.Bool
	returned sync.Once
}

func newPipeStreams(a, b *pipeEnd) (*pipeStream, *pipeStream) {
	x, y := newFlow(a.opts.Buffer), newFlow(a.opts.Buffer)
	s, t := &pipeStream{conn: a, in: x, out: y}, &pipeStream{conn: b, in: y, out: x}
	s.ctx, s.stop = context.WithCancel(context.Background())
	t.ctx, t.stop = context.WithCancel(context.Background())
	s.far, t.far = t, s
	return s, t
}

func (s *pipeStream) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if err != nil {
		s.endIfDone()
	}
	return n, err
}

func (s *pipeStream) Write(p []byte) (int, error) { return s.out.Write(p) }

// Probe implements Prober.
func (s *pipeStream) Probe(int64) (rest int64, err error) { return s.in.probe() }

func (s *pipeStream) SetReadDeadline(t time.Time) error {
	s.in.setDeadline(&s.in.rdl, t)
	return nil
}

func (s *pipeStream) SetWriteDeadline(t time.Time) error {
	s.out.setDeadline(&s.out.wdl, t)
	return nil
}

func (s *pipeStream) CloseWrite() error {
	s.out.finish(nil)
	if s.conn.only == nil {
		s.stop()
	}
	s.endIfDone()
	return nil
}

func (s *pipeStream) Reset(code uint64) {
	if s.conn.only != nil {
		_ = s.conn.Close(code)
		return
	}
	here, there := &CloseError{Code: code, Stream: true}, &CloseError{Code: code, Remote: true, Stream: true}
	s.out.reset(there, here) // first, as the reader may reset the stream, too, with another code
	s.in.abort(here, there)
	s.stop()
	s.far.stop()
	s.endIfDone()
}

// Conclude implements Concluder.
func (e *pipeEnd) Conclude(stream Stream, code uint64) bool {
	s, ok := stream.(*pipeStream)
	if !ok || s.conn != e || e.only != nil {
		return false
	}
	here, there := &CloseError{Code: code, Stream: true}, &CloseError{Code: code, Remote: true, Stream: true}
	s.out.conclude(there, here)
	s.in.abort(here, there)
	s.stop()
	s.far.stop()
	s.endIfDone()
	return true
}

func (s *pipeStream) Context() context.Context {
	if s.conn.only != nil {
		return s.conn.ctx
	}
	return s.ctx
}

// Release implements Releaser.
func (s *pipeStream) Release() {
	s.released.Store(true)
	s.endIfDone()
}

// endIfDone ends a connection whose only stream has ended in both directions. On a multiplexed
// connection it removes such a stream and, after Release at the accepting end, lets the
// opener open another.
func (s *pipeStream) endIfDone() {
	if s.conn.only != nil {
		if s.in.over() && s.out.finished() {
			s.conn.stop(&CloseError{Remote: true})
		}
		return
	}
	if !s.in.over() || !s.out.over() {
		return
	}
	s.conn.forget(s)
	s.far.conn.forget(s.far)
	s.stop() // a connection that ends no longer finds the stream
	s.far.stop()
	acceptor := s
	if acceptor.credit == nil {
		acceptor = s.far
	}
	if acceptor.released.Load() {
		acceptor.returned.Do(func() { <-acceptor.credit })
	}
}
