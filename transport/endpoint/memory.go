package endpoint

import (
	"context"
	"sync"
	"time"
)

// memory is a budget for frame octets in flight: read buffers that grew for a
// large frame, and copies of requests whose handling goes on. Small frames need
// none of it, so they are served while it is spent. The endpoint has one, and
// each connection a share of it.
type memory struct {
	mu    sync.Mutex
	limit int
	used  int
	freed chan struct{} // closed at the next release; nil if nobody waits
}

// tryTake takes n octets if the budget has them. A negative n gives back.
func (m *memory) tryTake(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n > 0 && m.used+n > m.limit {
		return false
	}
	m.used += n
	if n < 0 {
		m.wake()
	}
	return true
}

// take is tryTake that waits until the deadline, or until ctx ends.
func (m *memory) take(ctx context.Context, n int, deadline time.Time) bool {
	if m.tryTake(n) {
		return true
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		m.mu.Lock()
		if m.freed == nil {
			m.freed = make(chan struct{})
		}
		freed := m.freed
		m.mu.Unlock()
		if m.tryTake(n) {
			return true
		}
		select {
		case <-freed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// bound sets the limit. What is in use above it is not taken back.
func (m *memory) bound(limit int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = limit
	m.wake()
}

// wake has those who wait look again. The caller holds mu.
func (m *memory) wake() {
	if m.freed != nil {
		close(m.freed)
		m.freed = nil
	}
}

func (m *memory) inUse() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// hold takes n octets of the budgets of this connection and of the endpoint; a
// negative n gives back.
func (s *Session) hold(n int) bool {
	if n < 0 { // the connection last: what it has is never less than the endpoint has for it
		s.ep.memory.tryTake(n)
		s.memory.tryTake(n)
		return true
	}
	if !s.share(n) {
		return false
	}
	if !s.ep.memory.tryTake(n) {
		s.memory.tryTake(-n)
		return false
	}
	return true
}

// grow is hold that waits for the budget of the endpoint until the deadline, for
// the read buffer of a stream.
func (s *Session) grow(n int, deadline time.Time) bool {
	if n <= 0 {
		return s.hold(n)
	}
	if !s.share(n) {
		return false
	}
	if !s.ep.memory.take(s.ctx, n, deadline) {
		s.memory.tryTake(-n)
		return false
	}
	return true
}

// share takes n octets of the budget of this connection. If they are not there,
// the streams that rest between two frames give up the buffers that grew for
// their last one, which takes them a moment. Nobody else is waited for: what
// QUIC has received for a stream that waits, the others of the connection lack.
func (s *Session) share(n int) bool {
	return s.memory.tryTake(n) || s.recall() && s.memory.take(s.ctx, n, time.Now().Add(linger))
}

// recall wakes the streams that rest with a buffer that grew, and reports
// whether there are any.
func (s *Session) recall() (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.lanes {
		if l.resting.Load() {
			_ = l.stream.SetReadDeadline(time.Unix(1, 0))
			found = true
		}
	}
	return found
}
