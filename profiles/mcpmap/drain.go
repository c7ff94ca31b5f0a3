package mcpmap

import (
	"maps"
	"slices"

	"github.com/slimwire/swp/profiles"
)

// errDraining ends exchanges without an expected end when the endpoint shuts down.
var errDraining = &profiles.Error{
	Code: profiles.RateLimitExceeded, Detail: "draining", Text: "this endpoint is shutting down", Pace: true, Retryable: true, Domain: true,
}

// errLeft ends exchanges without an expected end when their server was replaced or removed.
var errLeft = &profiles.Error{
	Code: profiles.RateLimitExceeded, Detail: "draining", Text: "this server was changed or removed", Pace: true, Retryable: true, Domain: true,
}

// Leave ends the exchanges of peers with a server that have no expected end, as Drain does
// for all servers, so that a removed server becomes idle. It does not wait.
func (m *Mapping) Leave(target string) {
	for _, x := range m.endless() {
		if x.target == target {
			x.abandon(nil, errLeft)
		}
	}
}

// endless returns the exchanges without an expected end.
func (m *Mapping) endless() (list []*Exchange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		list = append(list, c.endless()...)
	}
	return list
}

// Drain ends the exchanges of peers without an expected end, with a retryable error:
// subscriptions/listen, whose server is told, and swp.mcp.listen. Their sessions stay. Call
// it before the sessions of the endpoint are drained. It does not wait, and may be called
// more than once.
func (m *Mapping) Drain() {
	m.draining.Store(true)
	endless := m.endless()
	m.mu.Lock()
	sessions := slices.Collect(maps.Values(m.sessions))
	m.mu.Unlock()
	for _, x := range endless {
		x.abandon(nil, errDraining)
	}
	for _, s := range sessions {
		s.mu.Lock()
		l := s.listener
		s.listener = nil
		s.room.Open()
		s.mu.Unlock()
		if l != nil {
			l.end(errDraining)
		}
	}
}
