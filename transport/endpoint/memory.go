package endpoint

import (
	"context"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
)

// allowance is the bound of octets in flight of one connection: read buffers that grew for a
// large frame, and copies of requests. Small frames that are answered inside Serve use none
// of it. Its octets also count in the share of its identity.
type allowance struct {
	mu    sync.Mutex
	limit int
	used  int
	freed chan struct{} // closed at the next release; nil if nobody waits
}

// tryTake takes n octets if the budget has them. A negative n gives back.
func (m *allowance) tryTake(n int) bool {
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
func (m *allowance) take(ctx context.Context, n int, deadline time.Time) bool {
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

// wake makes waiting goroutines check again. The caller holds mu.
func (m *allowance) wake() {
	if m.freed != nil {
		close(m.freed)
		m.freed = nil
	}
}

// hold takes n octets for a message of a size, of the bound of this connection and of the
// budget of the endpoint.
func (s *Session) hold(n int, of memory.Size) error {
	switch {
	case !s.own(n):
		return errFull
	case !s.share.Try(n, of):
		s.allowance.tryTake(-n)
		return s.noRoom(n)
	}
	return nil
}

// holdFor is hold for a message of a caller, which may be nil.
func (s *Session) holdFor(caller *profiles.Peer, n int, of memory.Size) error {
	switch {
	case caller == nil:
		return s.hold(n, of)
	case !s.own(n):
		return errFull
	case !s.share.TryFor(caller.Identity, n, of):
		s.allowance.tryTake(-n)
		return s.noRoom(n)
	}
	return nil
}

// giveBackFor returns octets that holdFor has taken.
func (s *Session) giveBackFor(caller *profiles.Peer, n int, of memory.Size) {
	if caller == nil {
		s.giveBack(n, of)
		return
	}
	s.share.GiveFor(caller.Identity, n, of)
	s.allowance.tryTake(-n)
}

// giveBack returns octets that hold, begin or a lane has taken, to the connection last, so that its count never falls below its share of the endpoint's.
func (s *Session) giveBack(n int, of memory.Size) {
	s.share.Give(n, of)
	s.allowance.tryTake(-n)
}

// begin is hold for the first octets of a message on a stream. It waits for the budget of the
// endpoint until the deadline.
func (s *Session) begin(n int, of memory.Size, deadline time.Time) error {
	switch {
	case !s.own(n):
		return errFull
	case !s.share.Take(s.ctx, n, of, deadline):
		s.allowance.tryTake(-n)
		return s.noRoom(n)
	}
	return nil
}

// errFull refuses a message of a connection that has used up its bound.
var errFull = profiles.Busy("in_flight_bytes", "too many octets in flight on this connection")

// noRoom is the refusal of n octets for which the endpoint has no room. An identity that is
// not above its share does not pay for it.
func (s *Session) noRoom(n int) error {
	fault := profiles.Busy("in_flight_bytes", "too many octets in flight")
	fault.Excused = !s.share.Above(n)
	return fault
}

// own takes n octets of the bound of this connection. If there are not enough, streams
// between two frames release their grown buffers, which takes a moment. own waits for no
// other stream: the octets that QUIC has buffered for a waiting stream use up the window of
// the others.
func (s *Session) own(n int) bool {
	return s.allowance.tryTake(n) || s.recall() && s.allowance.take(s.ctx, n, time.Now().Add(linger))
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
