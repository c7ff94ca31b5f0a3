package relay

import "sync/atomic"

// Reasons returns every Reason.
func Reasons() []Reason {
	return []Reason{MaxAttempts, TTLExpired, Rejected, NoConsumer, LimitExceeded}
}

// Stats are the gauges and counters of a relay.
type Stats struct {
	Consumers int // attached now
	InFlight  int // attempts under way
	Taken     uint64
	Acked     uint64
	Failed    uint64 // attempts, each once
	Dead      map[Reason]uint64
}

// counters are what Stats tells of the past.
type counters struct {
	taken, acked, failed atomic.Uint64
	dead                 map[Reason]*atomic.Uint64 // of every Reason; never changes
}

func newCounters() *counters {
	c := &counters{dead: make(map[Reason]*atomic.Uint64)}
	for _, reason := range Reasons() {
		c.dead[reason] = new(atomic.Uint64)
	}
	return c
}

// Stats returns how the relay stands.
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
