package sdlfront

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/sdl"
)

// wire carries whole envelopes in both directions. read and write may run at once; each has one
// caller at a time.
type wire interface {
	// read returns the next envelope, which held pays for. It ends with ctx. An *sdl.Error
	// is the answer to an envelope that was not read, and the last one.
	read(ctx context.Context, held *memory.Hold) ([]byte, error)

	write(octets []byte) error
	leave() // says goodbye, where there is a word for it
	close()
}

// stream is one connection of a caller.
type stream struct {
	f      *Front
	caller string
	wire   wire
	ctx    context.Context
	cancel context.CancelFunc

	writing  sync.Mutex
	answered atomic.Pointer[chan struct{}] // closed with the answer that is due
}

func (f *Front) newStream(ctx context.Context, w wire, caller string) *stream {
	s := &stream{f: f, caller: caller, wire: w}
	s.ctx, s.cancel = context.WithCancel(ctx)
	close(s.due())
	return s
}

// due makes the channel that is to be closed with the next answer.
func (s *stream) due() chan struct{} {
	answered := make(chan struct{})
	s.answered.Store(&answered)
	return answered
}

// end ends the connection, and the work for it.
func (s *stream) end() {
	s.cancel()
	s.wire.close()
}

var errStreams = errors.New("sdlfront: too many streams, here or of this caller, or none are accepted any more")

// Stream serves a connection of frames of a caller until either end closes it: 4 octets of
// length, big-endian, and an envelope. It closes the connection.
func (f *Front) Stream(conn net.Conn, caller string) error {
	leave, ok := f.enter(caller)
	if !ok {
		_ = conn.Close()
		return errStreams
	}
	defer leave()
	return f.serve(context.Background(), &frames{f: f, caller: caller, conn: conn}, caller)
}

// enter takes the place of a stream until leave is called.
func (f *Front) enter(caller string) (leave func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil || f.places.Take(caller, 1) != fair.Taken {
		return nil, false
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.places.Give(caller, 1)
	}, true
}

// serve serves a wire that has a place. Envelopes are answered one after the other, in order.
func (f *Front) serve(ctx context.Context, w wire, caller string) error {
	s := f.newStream(ctx, w, caller)
	defer s.end()
	f.mu.Lock()
	if f.closed || f.ctx.Err() != nil {
		f.mu.Unlock()
		return errStreams
	}
	f.streams[s] = struct{}{}
	f.work.Add(1)
	f.mu.Unlock()
	defer f.work.Done()
	defer func() {
		f.mu.Lock()
		delete(f.streams, s)
		f.mu.Unlock()
	}()
	on, err := f.opts.Open(caller, s)
	if err != nil {
		_ = s.write(f.refusal(sdl.JSON, errNobody))
		return err
	}
	defer on.End()
	defer context.AfterFunc(on.Context(), s.end)()
	defer context.AfterFunc(f.ctx, func() { s.cancel() })() // the answers that are due are written
	defer context.AfterFunc(ctx, s.end)()
	err = s.run(on)
	w.leave()
	return err
}

// waiting is an envelope that was read.
type waiting struct {
	held    *memory.Hold
	body    []byte
	refused *sdl.Error // in its place
}

// run reads ahead of the answers. A caller that only stops to send gets those that are due.
func (s *stream) run(on *Session) (err error) {
	work, stop := context.WithCancel(context.WithoutCancel(s.ctx))
	defer stop()
	queue := make(chan waiting, s.f.opts.Ahead)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(queue)
		for {
			one := waiting{held: s.f.opts.Memory.Hold(s.caller)}
			var fault error
			if one.body, fault = s.wire.read(s.ctx, one.held); fault != nil {
				if refused, ok := errors.AsType[*sdl.Error](fault); ok {
					one.refused = refused
					queue <- one
					return
				}
				one.held.Release()
				if s.ctx.Err() == nil { // the caller has gone, and does not want to know
					err = fault
					if !errors.Is(fault, io.EOF) {
						stop()
					}
				}
				return
			}
			queue <- one
		}
	})
	for one := range queue {
		if !s.answer(work, on, one) {
			s.end()
		}
		one.held.Release()
	}
	reading.Wait()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// answer answers one envelope. It returns false if the caller did not take the answer.
func (s *stream) answer(ctx context.Context, on *Session, one waiting) bool {
	defer close(s.due())
	form, refused := sdl.FormOf(one.body)
	if one.refused != nil {
		refused = one.refused
	}
	if refused == nil && !s.f.admit(s.caller) {
		refused = errRate
	}
	var answer []byte
	if refused == nil {
		if head, unread := sdl.ReadHead(one.body, form, sdl.Limits{MaxBytes: len(one.body)}); unread == nil && on.Spoke != nil {
			on.Spoke(head.From)
		}
		s.f.counts.streams.Add(1)
		answer, refused = s.f.pass(ctx, on, form, one.body)
	}
	if refused == nil && !one.held.Answer(len(answer)) {
		s.f.counts.dropped.Add(1)
		refused = errAnswer
	}
	if refused != nil {
		answer = s.f.refusal(form, refused)
	}
	return answer == nil || s.write(answer) == nil
}

// Answered implements Program.
func (s *stream) Answered() <-chan struct{} { return *s.answered.Load() }

// Hear implements Program.
func (s *stream) Hear(event []byte) error {
	if err := s.write(event); err != nil {
		s.f.counts.dropped.Add(1)
		s.end()
		return err
	}
	s.f.counts.events.Add(1)
	return nil
}

func (s *stream) write(octets []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.wire.write(octets)
}

// frames is the wire of Stream.
type frames struct {
	f      *Front
	caller string
	conn   net.Conn
}

func (w *frames) read(ctx context.Context, held *memory.Hold) ([]byte, error) {
	defer context.AfterFunc(ctx, func() { _ = w.conn.SetReadDeadline(time.Now()) })()
	_ = w.conn.SetReadDeadline(time.Time{}) // the caller may be silent between two envelopes
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var head [frame.HeaderSize]byte
	if n, err := io.ReadFull(w.conn, head[:1]); n == 0 {
		return nil, err
	}
	start := time.Now()
	_ = w.conn.SetReadDeadline(start.Add(w.f.opts.Body))
	if _, err := io.ReadFull(w.conn, head[1:]); err != nil {
		return nil, late(err)
	}
	most, above := w.f.most(w.caller)
	size := int64(binary.BigEndian.Uint32(head[:]))
	if size > most { // refused before it is read, so that nothing after it can be
		return nil, above
	}
	deadline := start.Add(w.f.opts.takes(size))
	_ = w.conn.SetReadDeadline(deadline)
	body, err := held.ReadAll(ctx, memory.Body{
		Reader: io.LimitReader(w.conn, size), Announced: size, Twice: true, Conn: w.conn,
		Waited: func(d time.Duration) { _ = w.conn.SetReadDeadline(deadline.Add(d)) },
	})
	switch {
	case errors.Is(err, memory.ErrFull):
		return nil, errBusy
	case err != nil:
		return nil, late(err)
	case int64(len(body)) < size:
		return nil, io.ErrUnexpectedEOF
	}
	return body, nil
}

// late converts the error of an envelope that did not arrive in time.
func late(err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return errTimeout
	}
	return err
}

func (w *frames) write(octets []byte) error {
	_ = w.conn.SetWriteDeadline(time.Now().Add(w.f.opts.Write))
	_, err := w.conn.Write(frame.Append(nil, octets))
	return err
}

func (w *frames) leave() {}
func (w *frames) close() { _ = w.conn.Close() }
