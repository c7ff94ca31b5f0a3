package mcpmap

import (
	"github.com/slimwire/swp/profiles"
)

// errDraining ends what has no end of its own when the endpoint shuts down.
var errDraining = &profiles.Error{
	Code: profiles.RateLimitExceeded, Detail: "draining", Text: "this endpoint is shutting down", Pace: true, Retryable: true, Domain: true,
}

// Drain ends what peers have open that would never end by itself, with an error that
// says to come again: subscriptions/listen, whose server is told, and swp.mcp.listen.
// The sessions that were listened to stay. It comes before the sessions of the endpoint
// are drained, does not wait, and may be called more than once.
func (m *Mapping) Drain() {
	m.draining.Store(true)
	m.mu.Lock()
	var endless []*Exchange
	for _, c := range m.conns {
		endless = append(endless, c.endless()...)
	}
	sessions := make([]*session, 0, len(m.sessions))
	for _, s := range m.sessions {
		sessions = append(sessions, s)
	}
	m.mu.Unlock()
	for _, x := range endless {
		x.abandon(nil, errDraining)
	}
	for _, s := range sessions {
		s.mu.Lock()
		l := s.listener
		s.listener = nil
		s.mu.Unlock()
		if l != nil {
			l.end(errDraining)
		}
	}
}
