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
	if n < 0 && m.freed != nil {
		close(m.freed)
		m.freed = nil
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

func (m *memory) inUse() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}
