package endpoint

import (
	"context"
	"sync"
	"time"
)

// memory is a budget for octets in flight: read buffers that grew for a large frame, copies
// of requests, large answers to calls and large outputs. Small frames that are answered
// inside Serve use none of it, so they are served even if it is spent. The endpoint has one;
// each connection has another one with a smaller limit.
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

// take waits for n octets until the deadline, or until ctx ends.
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

// bound sets the limit. Octets in use above a lower limit are not reclaimed.
func (m *memory) bound(limit int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = limit
	m.wake()
}

// wake makes waiting goroutines check again. The caller holds mu.
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

// hold takes n octets from the budgets of this connection and of the endpoint; a negative n
// returns them.
func (s *Session) hold(n int) bool {
	if n < 0 { // the connection last, so that its count never falls below its share of the endpoint's
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

// grow is hold for the read buffer of a stream. It waits for the budget of the endpoint
// until the deadline.
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

// share takes n octets of the budget of this connection. If there are not enough, streams
// between two frames release their grown buffers, which takes a moment. share waits for no
// other stream: the octets that QUIC has buffered for a waiting stream use up the window of
// the others.
func (s *Session) share(n int) bool {
	return s.memory.tryTake(n) || s.recall() && s.memory.take(s.ctx, n, time.Now().Add(linger))
}

// recall wakes the streams that are between two frames with a grown buffer, and reports
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
