package relay

import "github.com/slimwire/swp/internal/fair"

import "sync/atomic"

// Reasons returns every Reason.
func Reasons() []Reason {
	return []Reason{MaxAttempts, TTLExpired, Rejected, NoConsumer, LimitExceeded}
}

// Stats are gauges and counters of a relay.
type Stats struct {
	Consumers int // attached now
	InFlight  int // attempts in progress
	Taken     uint64
	Acked     uint64
	Failed    uint64 // failed attempts
	Dead      map[Reason]uint64
}

// counters are the counters in Stats.
type counters struct {
	taken, acked, failed atomic.Uint64
	dead                 map[Reason]*atomic.Uint64 // by Reason; the map is read-only
}

func newCounters() *counters {
	c := &counters{dead: make(map[Reason]*atomic.Uint64)}
	for _, reason := range Reasons() {
		c.dead[reason] = new(atomic.Uint64)
	}
	return c
}

// Stats returns the current figures.
func (s *Service) Stats() Stats {
	st := Stats{
		Taken: s.taken.Load(), Acked: s.acked.Load(), Failed: s.failed.Load(), Dead: make(map[Reason]uint64),
	}
	for reason, n := range s.dead {
		st.Dead[reason] = n.Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, account := range s.accounts {
		st.Consumers += len(account.attachments)
	}
	for _, list := range s.attempts {
		st.InFlight += len(list)
	}
	return st
}

// Pools returns who uses the places of consumers, and who receives large deliveries.
func (s *Service) Pools() []fair.Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved.Bound(s.limits.Load().InFlight)
	return []fair.Pool{s.reserved.Pool("relay consumers"), s.large.Pool("large deliveries")}
}
