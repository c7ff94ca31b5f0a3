package passing

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// Sizes of the buffer of one direction: an idle one is small, and grows while it is filled.
const (
	smallBuffer = 4 << 10
	largeBuffer = 64 << 10
)

// linger is the time for the last octets to reach a peer.
const linger = 2 * time.Second

var large = sync.Pool{New: func() any { return new([largeBuffer]byte) }}

// errWrite is a fault of the side that was written to.
type errWrite struct{ error }

func (e errWrite) Unwrap() error { return e.error }

// copyOctets copies until the end of from, and then half-closes to. Each write lasts at most for limit; 0
// means that it may wait.
func copyOctets(to, from transport.Stream, limit time.Duration) error {
	small := make([]byte, smallBuffer)
	buf := small
	var big *[largeBuffer]byte
	defer func() {
		if big != nil {
			large.Put(big)
		}
	}()
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if limit > 0 {
				_ = to.SetWriteDeadline(time.Now().Add(limit))
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return errWrite{err}
			}
		}
		switch {
		case err == io.EOF:
			return to.CloseWrite()
		case err != nil:
			return err
		case n == len(buf) && big == nil:
			big = large.Get().(*[largeBuffer]byte)
			buf = big[:]
		case n <= smallBuffer/2 && big != nil:
			large.Put(big)
			big, buf = nil, small
		}
	}
}

// whole copies between two streams that are their connections, until both directions have ended, or one
// has failed: then it calls lost, which ends both.
func (p *Passer) whole(outer, inner transport.Stream, lost func()) error {
	inward := make(chan error, 1)
	go func() { inward <- copyOctets(inner, outer, 0) }()
	outward := make(chan error, 1)
	go func() { outward <- copyOctets(outer, inner, p.Write) }()
	end := func(first error, rest <-chan error) error {
		lost()
		<-rest
		return first
	}
	select {
	case err := <-inward:
		if err != nil {
			if _, refused := errors.AsType[errWrite](err); refused {
				// The taker has closed. Its last octets may not have arrived yet.
				return p.last(outer, inner, outward)
			}
			return end(err, outward)
		}
		err = <-outward
		return err
	case err := <-outward:
		if err != nil {
			return end(err, inward)
		}
		// The taker writes no more, and decides how long it still reads.
		err = <-inward
		if _, refused := errors.AsType[errWrite](err); refused {
			discard(outer)
			return nil
		}
		return err
	}
}

// last waits for the last octets of a taker that has closed.
func (p *Passer) last(outer, inner transport.Stream, outward <-chan error) error {
	_ = inner.SetReadDeadline(time.Now().Add(linger))
	err := <-outward
	if err == nil {
		discard(outer)
	}
	return err
}

// discard reads what a peer still sends, so that its system does not drop what it has received.
func discard(s transport.Stream) {
	_ = s.SetReadDeadline(time.Now().Add(linger))
	buf := make([]byte, smallBuffer)
	for {
		if _, err := s.Read(buf); err != nil {
			return
		}
	}
}

// streams copies the streams of two multiplexed connections until one ends, and ends the other with the
// same code.
func (p *Passer) streams(ctx context.Context, outer, inner transport.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() { p.each(ctx, outer, inner, &work) })
	work.Go(func() { p.each(ctx, inner, outer, &work) })
	var why error
	select {
	case <-outer.Context().Done():
		why = context.Cause(outer.Context())
		follow(inner, why)
	case <-inner.Context().Done():
		why = context.Cause(inner.Context())
		cancel()
		time.Sleep(linger / 20) // the octets that were written before leave first
		follow(outer, why)
	case <-ctx.Done():
		why = ctx.Err()
		breakOff(inner, profiles.Internal)
		breakOff(outer, profiles.Internal)
	}
	cancel()
	work.Wait()
	return why
}

// follow ends a connection as the other one has ended: with its code, or as a failure of the path.
func follow(conn transport.Conn, why error) {
	if closed, ok := errors.AsType[*transport.CloseError](why); ok && closed.Remote {
		_ = conn.Close(closed.Code)
		return
	}
	breakOff(conn, profiles.Internal)
}

// each joins each stream that from accepts with a new one of to.
func (p *Passer) each(ctx context.Context, from, to transport.Conn, work *sync.WaitGroup) {
	for {
		in, err := from.Accept(ctx)
		if err != nil {
			return
		}
		work.Go(func() {
			defer release(in)
			out, err := to.Open(ctx) // the taker's limit of streams holds for the peer, too
			if err != nil {
				in.Reset(codeOf(err))
				return
			}
			p.join(from, to, in, out)
		})
	}
}

// join copies in both directions until both have ended. A stream that was reset resets the other one,
// behind the octets before if the transport can.
func (p *Passer) join(from, to transport.Conn, in, out transport.Stream) {
	var both sync.WaitGroup
	defer both.Wait()
	one := func(toConn transport.Conn, to, from transport.Stream) {
		err := copyOctets(to, from, 0)
		if err == nil {
			return
		}
		if _, refused := errors.AsType[errWrite](err); refused {
			from.Reset(codeOf(err))
			return
		}
		if c, ok := toConn.(transport.Concluder); !ok || !c.Conclude(to, codeOf(err)) {
			to.Reset(codeOf(err))
		}
	}
	both.Go(func() { one(to, out, in) })
	both.Go(func() { one(from, in, out) })
}

func release(s transport.Stream) {
	if r, ok := s.(transport.Releaser); ok {
		r.Release()
	}
}

// quiet notes the last octets of a connection of TCP, whose protocol is not known. One whose last octets
// are an answer, some time ago, waits for no other answer.
type quiet struct {
	at       atomic.Int64 // UnixNano
	answered atomic.Bool
}

// idleAfter is the time after the last octets of an answer.
const idleAfter = time.Second

// endIdle calls end as soon as the connection is idle, unless ended ends before.
func (q *quiet) endIdle(ended context.Context, end func()) {
	for !q.answered.Load() || time.Since(time.Unix(0, q.at.Load())) < idleAfter {
		if backoff.Wait(ended, idleAfter/10) != nil {
			return
		}
	}
	end()
}

// observed is a side of such a connection.
type observed struct {
	transport.Stream
	quiet   *quiet
	answers bool // it is read for answers
}

func (o observed) Read(p []byte) (int, error) {
	n, err := o.Stream.Read(p)
	if n > 0 {
		o.quiet.at.Store(time.Now().UnixNano())
		o.quiet.answered.Store(o.answers)
	}
	return n, err
}
