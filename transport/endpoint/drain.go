package endpoint

import (
	"errors"
	"time"

	"github.com/slimwire/swp/profiles"
)

// Drain refuses new requests of the peer from now on, as retryable, and closes
// the session once nothing is in flight in either direction. It does not wait.
func (s *Session) Drain() {
	s.draining.Store(true)
	s.checkDrained()
}

// idle reports whether nothing is in flight in either direction. The caller
// holds mu.
func (s *Session) idle() bool { return s.exchanges == 0 && len(s.calls) == 0 }

// onlyLong reports whether nothing but exchanges without an expected end is in
// flight.
func (s *Session) onlyLong() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.long > 0 && s.exchanges == s.long && len(s.calls) == 0
}

// closeHalfOpen closes a session whose peer listens to no more than exchanges that
// would never end, after what is queued has been written.
func (s *Session) closeHalfOpen() {
	s.mu.Lock()
	only := s.only
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

// checkDrained is called, without mu, whenever an exchange, a call or a stream has
// ended. Once a draining session has nothing in flight it wakes the read loops,
// each of which ends its stream after what is queued has been written: only the
// loop knows that no request is being handled inline.
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

// closeDrained closes a drained multiplexed session whose streams have ended, once
// all is written and the peer had a moment to take it.
func (s *Session) closeDrained() {
	if s.writing.Load() > 0 {
		time.AfterFunc(lingerTime, s.closeDrained)
		return
	}
	s.close(profiles.OK, ErrShutdown)
}

// lingerTime is how long a drained or refused peer has to take what was
// written before the connection is closed.
const lingerTime = 500 * time.Millisecond

// awaitAnswers waits until a peer that has said all it has to say has had its
// answers. It may be gone altogether, which on TCP only a write would show: so
// exchanges without an expected end are not waited for, and others not longer
// than Bounds.LongIdle without a write.
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

// errDrained ends the read loop of a session that is shutting down and has
// nothing in flight any more.
var errDrained = errors.New("endpoint: drained")

// endDrained ends the stream of a drained session: what is queued is written, the
// peer is told that nothing more will come, and on a connection that is its
// only stream it gets a moment to hang up itself, so that nothing written is
// lost to a reset.
func (l *lane) endDrained() {
	if l.s.conn.Multiplexed() {
		l.out.finish()
		return
	}
	l.hangUp()
	l.s.close(profiles.OK, ErrShutdown)
}
