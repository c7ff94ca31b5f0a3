package passing

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
)

// Place is a process that takes connections over.
type Place struct {
	Name        string // of its key
	Address     string // host:port
	Certificate []byte // of its key, DER

	// Until ends when the process serves no connections any more, even if they stay open. Nil: never.
	Until context.Context
}

// ErrNotTaken is the error for a connection that no process has taken.
var ErrNotTaken = errors.New("passing: not taken")

// ErrRefused is the error of Ask for a process that answers, and takes no connections.
var ErrRefused = errors.New("refused")

// ErrWaiting is the error for a connection that waited for a process when the passing ended.
var ErrWaiting = errors.New("passing: still waiting")

// Passer passes connections to the process that takes them over at the time. It is safe for concurrent
// use, and does not change while it is in use.
type Passer struct {
	Own *tls.Certificate // from NewKey

	// Place returns where connections go; false if no process takes any now.
	Place func() (Place, bool)

	// Patience is how long a new connection waits for a process that takes it.
	Patience time.Duration

	// Leaving ends when this process is about to end: connections of TCP end when they are idle. Those
	// of peers are drained by the process that took them, see Leave. Nil: never.
	Leaving context.Context

	// Write is how long a peer may take to read what was written.
	Write time.Duration
}

// pace is the pause between two attempts.
const pace = 200 * time.Millisecond

// attempt is the time for a connection and its first frames.
const attempt = 5 * time.Second

// Conn passes a connection of a peer, and returns when it has ended. The error says why no process took
// it, or how it ended. If ctx ends before a process took it, the error is ErrWaiting: the connection is
// still open, and nothing was read from it.
func (p *Passer) Conn(ctx context.Context, outer transport.Conn, errorFrames bool) error {
	inner, stream, until, err := p.reach(ctx, outer.Context(), outer.Multiplexed(), about(outer, errorFrames))
	if err != nil {
		if !errors.Is(err, ErrWaiting) {
			breakOff(outer, profiles.RateLimitExceeded)
		}
		return err
	}
	lost := func() {
		breakOff(inner, profiles.Internal)
		breakOff(outer, profiles.Internal)
	}
	defer until(lost)()
	if outer.Multiplexed() {
		return p.streams(ctx, outer, inner)
	}
	own, err := outer.Accept(ctx)
	if err != nil {
		lost()
		return err
	}
	err = p.whole(own, stream, lost)
	_, _ = inner.Close(0), outer.Close(0)
	return err
}

// Ask returns nil if a process takes connections now. The error is ErrNotTaken without a process,
// ErrRefused if it answers so, and otherwise says why the process cannot be reached.
func (p *Passer) Ask(ctx context.Context) error { return p.say(ctx, kindAsk) }

// Leave has the process that takes connections drain those that this one has passed: their peers are told to
// connect again elsewhere, and each connection ends after its last answer. It does not wait for that.
func (p *Passer) Leave(ctx context.Context) error { return p.say(ctx, kindGo) }

// say has a message without a connection answered.
func (p *Passer) say(ctx context.Context, kind string) error {
	place, ok := p.Place()
	if !ok {
		return fmt.Errorf("%w: no process takes connections now", ErrNotTaken)
	}
	conn, _, _, err := p.dial(ctx, place, false, hello{Kind: kind})
	if err != nil {
		return fmt.Errorf("%s at %s: %w", place.Name, place.Address, err)
	}
	return conn.Close(0)
}

// Raw passes a connection of TCP as Conn does, octet by octet, without reading it.
func (p *Passer) Raw(ctx context.Context, outer net.Conn) error {
	conn := transport.NewNetConn(outer, &transport.Peer{Transport: "tcp", Addr: outer.RemoteAddr().String()})
	inner, stream, until, err := p.reach(ctx, conn.Context(), false, hello{Kind: kindRaw, Addr: conn.Peer().Addr})
	if err != nil {
		if !errors.Is(err, ErrWaiting) {
			_ = conn.Close(0)
		}
		return err
	}
	end := func() { _, _ = inner.Close(0), conn.Close(0) }
	defer until(end)()
	q := new(quiet)
	if p.Leaving != nil {
		ended, over := context.WithCancel(context.Background())
		defer over()
		defer context.AfterFunc(p.Leaving, func() { q.endIdle(ended, end) })()
	}
	err = p.whole(observed{conn, q, false}, observed{stream, q, true}, end)
	end()
	return err
}

// ending has a function called when a passed connection has to end. The result ends that.
type ending func(func()) (stop func())

// reach dials until a process takes the connection, or gone ends.
func (p *Passer) reach(ctx, gone context.Context, multiplexed bool, h hello) (transport.Conn, transport.Stream, ending, error) {
	within, cancel := context.WithTimeout(ctx, p.Patience)
	defer cancel()
	stop := context.AfterFunc(gone, cancel)
	defer stop()
	last := errors.New("no process takes connections now")
	for {
		if place, ok := p.Place(); ok {
			conn, stream, final, err := p.dial(within, place, multiplexed, h)
			if err == nil {
				return conn, stream, place.ending(ctx), nil
			}
			if last = fmt.Errorf("%s at %s: %w", place.Name, place.Address, err); final {
				return nil, nil, nil, fmt.Errorf("%w: %w", ErrNotTaken, last)
			}
		}
		if backoff.Wait(within, pace) != nil {
			if ctx.Err() != nil && gone.Err() == nil {
				return nil, nil, nil, fmt.Errorf("%w: %w", ErrWaiting, last)
			}
			return nil, nil, nil, fmt.Errorf("%w: %w", ErrNotTaken, last)
		}
	}
}

// ending is for a connection that ends with ctx, or with the service of the place.
func (p Place) ending(ctx context.Context) ending {
	return func(end func()) func() {
		a, b := context.AfterFunc(ctx, end), func() bool { return true }
		if p.Until != nil {
			b = context.AfterFunc(p.Until, end)
		}
		return func() { _, _ = a(), b() }
	}
}

// dial makes one attempt, which ends with the service of the place.
func (p *Passer) dial(ctx context.Context, at Place, multiplexed bool, h hello) (_ transport.Conn, s transport.Stream, final bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	if at.Until != nil {
		defer context.AfterFunc(at.Until, cancel)()
	}
	credentials := trusting(p.Own, at.Certificate)
	policy := &transport.Policy{Credentials: func() *transport.Credentials { return credentials }, Expect: identityOf(at.Name)}
	var conn transport.Conn
	if multiplexed {
		conn, err = quicconn.Dial(ctx, at.Address, policy, quicconn.Options{})
	} else {
		conn, err = tlsconn.Dial(ctx, at.Address, policy, tlsconn.Options{})
	}
	if err != nil {
		return nil, nil, false, err
	}
	var said answer
	if s, err = conn.Open(ctx); err == nil {
		err = within(s, time.Now().Add(attempt), func() error {
			if err := send(s, h); err != nil {
				return err
			}
			return receive(s, &said)
		})
	}
	if err == nil && multiplexed && h.Kind != kindWork {
		err = s.CloseWrite() // the other side waits for it
	}
	if err == nil && !said.OK {
		err = fmt.Errorf("%w: %.300s", ErrRefused, said.Why)
	}
	if err != nil {
		_ = conn.Close(0)
		return nil, nil, said.Final, err
	}
	return conn, s, false, nil
}

// breakOff ends a connection so that its peer does not take the end for an answer.
func breakOff(conn transport.Conn, code profiles.Code) {
	if b, ok := conn.(transport.Breaker); ok {
		_ = b.Break(uint64(code))
		return
	}
	_ = conn.Close(uint64(code))
}

// codeOf returns the code of an end; 0 of one without.
func codeOf(err error) uint64 {
	if closed, ok := errors.AsType[*transport.CloseError](err); ok {
		return closed.Code
	}
	return 0
}
