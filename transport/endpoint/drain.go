package endpoint

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Drain refuses new requests of the peer from now on, as retryable. It closes the session
// when nothing is in flight in either direction. It does not wait for that.
func (s *Session) Drain() {
	s.draining.Store(true)
	s.checkDrained()
}

// errDraining refuses the requests of the peer of a draining session.
var errDraining = profiles.Busy("draining", "this endpoint is shutting down")

// tellDraining adds extension 54 to the refusal of a request on a draining session.
func tellDraining(answer *e1.Envelope, fault *profiles.Error) {
	if fault == errDraining {
		answer.Extensions = e1.AppendExtension(slices.Clip(answer.Extensions), profiles.ExtDraining, nil)
	}
}

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
	s.refuses = true
	if s.leave != nil {
		s.leave()
	}
}

// Leaving implements profiles.Leaver.
func (s *Session) Leaving() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == nil {
		s.left, s.leave = context.WithCancel(s.ctx)
		if s.refuses {
			s.leave()
		}
	}
	return s.left
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
func (s *Session) idle() bool { return s.exchanges == 0 && len(s.calls) == 0 }

// onlyLong reports whether all exchanges in flight have no expected end.
func (s *Session) onlyLong() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// checkDrained is called, without mu, after an exchange, a call or a stream has ended. When
// a draining session has nothing in flight, it wakes the read loops; each ends its stream
// after the queue has been written. Only the loop knows that no request is being handled
// inline.
func (s *Session) checkDrained() {
	if s.heard.Load() && s.onlyLong() {
		go s.closeHalfOpen()
	}
	if !s.draining.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.idle() {
		return
	}
	for l := range s.lanes {
		_ = l.stream.SetReadDeadline(time.Unix(1, 0))
	}
	if len(s.lanes) == 0 && s.conn.Multiplexed() && !s.leaving {
		s.leaving = true
		time.AfterFunc(lingerTime, s.closeDrained)
	}
}

// closeDrained closes a drained multiplexed session whose streams have ended, after
// everything has been written and a short time for the peer to receive it.
func (s *Session) closeDrained() {
	if s.writing.Load() > 0 {
		time.AfterFunc(lingerTime, s.closeDrained)
		return
	}
	s.retire()
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

// endDrained ends the stream of a drained session. It writes the queue and half-closes the
// stream. If the stream is the connection, it then waits a moment for the peer to close it,
// so that a reset cannot discard the last octets.
func (l *lane) endDrained() {
	if l.s.conn.Multiplexed() {
		l.out.finish()
		return
	}
	l.hangUp()
	l.s.retire()
}
