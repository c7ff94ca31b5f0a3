package endpoint

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Drain refuses new requests of the peer from now on, as retryable. It closes the session
// when nothing is in flight in either direction. It does not wait for that.
func (s *Session) Drain() {
	s.draining.Store(true)
	s.mu.Lock()
	s.drains.give(errDraining)
	s.mu.Unlock()
	s.checkDrained()
}

// notice is a context that ends once it was given. Most sessions need none, so it is made when it is asked
// for. The mutex of the session guards it.
type notice struct {
	ctx   context.Context // nil: not made
	end   context.CancelCauseFunc
	given error // the cause of the first call of give
}

func (n *notice) give(cause error) {
	if n.given == nil {
		n.given = cause
	}
	if n.end != nil {
		n.end(n.given)
	}
}

// within returns the context, which ends with an outer one, too.
func (n *notice) within(ctx context.Context) context.Context {
	if n.ctx == nil {
		n.ctx, n.end = context.WithCancelCause(ctx)
	}
	if n.given != nil {
		n.end(n.given)
	}
	return n.ctx
}

// errDraining refuses the requests of the peer of a draining session.
var errDraining = profiles.Busy("draining", "this endpoint is shutting down")

// tellDraining adds extension 54 to the refusal of a request on a draining session.
func tellDraining(answer *e1.Envelope, fault *profiles.Error) {
	if fault == errDraining {
		answer.Extensions = e1.AppendExtension(slices.Clip(answer.Extensions), profiles.ExtDraining, nil)
	}
}

// ErrPeerDrains is the cause of the end of Leaving when the peer has refused a request because it drains the
// session.
var ErrPeerDrains = errors.New("endpoint: the peer shuts down, and takes no further requests on the session")

// hearDraining reads extension 54 of an answer.
func (s *Session) hearDraining(ext e1.Extensions) {
	if len(ext) == 0 {
		return
	}
	if _, draining := ext.Lookup(profiles.ExtDraining); !draining {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left.give(ErrPeerDrains)
}

// Leaving implements profiles.Leaver.
func (s *Session) Leaving() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left.within(s.ctx)
}

// Draining implements profiles.Leaver.
func (s *Session) Draining() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drains.within(context.Background())
}

// ErrLapsed is the cause of the end of sessions whose peer has a certificate that has
// expired.
var ErrLapsed = errors.New("endpoint: the certificate of the peer has expired")

// lapse drains the session when the certificate of the peer expires, and closes it after
// Bounds.Lapse. With certificates of a short life, expiry is the revocation.
func (s *Session) lapse() {
	s.lapsed.Store(true)
	s.Drain()
	over := time.AfterFunc(s.opts.Bounds.Lapse, s.retire)
	context.AfterFunc(s.ctx, func() { over.Stop() })
}

// retire closes a session that has drained, or has had its time to.
func (s *Session) retire() {
	if s.lapsed.Load() {
		s.close(profiles.SecurityPolicy, ErrLapsed)
		return
	}
	s.close(profiles.OK, ErrShutdown)
}

// idle reports whether nothing is in flight in either direction. The caller
// holds mu.
func (s *Session) idle() bool { return s.exchanges == 0 && len(s.calls) == 0 && s.lingers == 0 }

// Linger keeps a session that drains open, as a call would, until release is called: there is
// something that its peer has to be told before.
func (s *Session) Linger() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lingers++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.lingers--
		s.mu.Unlock()
		s.checkDrained()
	})
}

// onlyLong reports whether all exchanges in flight have no expected end. The caller holds mu.
func (s *Session) onlyLong() bool {
	long := s.long.Used()
	return long > 0 && s.exchanges == long && len(s.calls) == 0
}

// closeHalfOpen closes a session after its queue has been written, if the peer has
// half-closed and waits only for exchanges without an expected end.
func (s *Session) closeHalfOpen() {
	s.mu.Lock()
	only := s.shared[0]
	s.mu.Unlock()
	only.out.finish()
	s.close(profiles.OK, ErrEnded)
}

// drained reports whether the session has nothing left to do.
func (s *Session) drained() bool {
	if !s.draining.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle()
}

// checkDrained is called, without mu, after an exchange, a call or a stream has ended. A draining
// session with nothing in flight ends. If the stream is the connection, its read loop is woken and
// ends it after the queue has been written: only the loop knows that no request is being handled
// inline. A multiplexed session reads until it is closed after lingerTime, because the peer may send
// requests on any stream until it hears of the shutdown, and each has to be refused.
func (s *Session) checkDrained() {
	if s.heard.Load() {
		s.mu.Lock()
		over := s.onlyLong()
		s.mu.Unlock()
		if over {
			go s.closeHalfOpen()
		}
	}
	if !s.draining.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.idle():
	case !s.conn.Multiplexed():
		for l := range s.lanes {
			_ = l.stream.SetReadDeadline(time.Unix(1, 0))
		}
	case !s.leaving:
		s.leaving = true
		s.linger()
	}
}

// linger looks after lingerTime whether a drained multiplexed session can be closed. The caller holds
// mu.
func (s *Session) linger() {
	quiet := s.quiet()
	time.AfterFunc(lingerTime, func() { s.closeDrained(quiet) })
}

// quiet reports whether no message is being served inline and none is being written. The caller holds
// mu.
func (s *Session) quiet() bool {
	for l := range s.lanes {
		if !l.waits.Load() {
			return false
		}
	}
	return s.writing.Load() == 0
}

// closeDrained closes a drained multiplexed session if it was quiet lingerTime ago and still is, so
// that the peer has had time to receive the last octets. If an exchange or a call has begun again,
// checkDrained is called at its end.
func (s *Session) closeDrained(quiet bool) {
	s.mu.Lock()
	idle := s.idle()
	s.leaving = idle
	ends := idle && quiet && s.quiet()
	if idle && !ends {
		s.linger()
	}
	s.mu.Unlock()
	if ends {
		s.retire()
	}
}

// lingerTime is the time for a drained or refused peer to receive the last octets before
// the connection is closed.
const lingerTime = 500 * time.Millisecond

// awaitAnswers waits until a peer that has half-closed has received its answers. On TCP the
// peer may have disconnected instead; only a write would show that. So it does not wait for
// exchanges without an expected end, and gives up after Bounds.LongIdle without a write.
func (s *Session) awaitAnswers(l *lane) {
	wait := s.opts.Bounds.LongIdle
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-l.gone:
			l.out.finish()
			return
		case <-s.ctx.Done():
			return
		case <-s.conn.Context().Done():
			return
		case <-timer.C:
		}
		left := wait - time.Since(l.quietSince())
		if left <= 0 {
			s.cancel(ErrIdle)
			return
		}
		timer.Reset(left)
	}
}

// errDrained ends the read loop of a session that is shutting down and has nothing in
// flight.
var errDrained = errors.New("endpoint: drained")

// endDrained ends the stream of a drained session that is its connection. It writes the queue,
// half-closes the stream and waits a moment for the peer to close it, so that a reset cannot discard
// the last octets.
func (l *lane) endDrained() {
	l.hangUp()
	l.s.retire()
}
