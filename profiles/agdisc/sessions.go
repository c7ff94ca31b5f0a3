package agdisc

import (
	"github.com/slimwire/swp/profiles"
)

// Agents says which agents are on the other end of a session, as they declared
// it. It is safe for concurrent use, and none of its methods waits.
type Agents interface {
	// AgentIDs returns those that are here now.
	AgentIDs() []string

	// Session returns the session that an agent is on, false if it is not here.
	Session(agentID string) (profiles.Session, bool)
}

// Sessions is a Source of the cards that agents on the other end of a session
// have: each is asked for its own.
type Sessions struct {
	agents Agents
	cache  *Cache
}

// NewSessions returns the Source of the cards of agents, which keeps them in a
// cache.
func NewSessions(agents Agents, cache *Cache) *Sessions { return &Sessions{agents, cache} }

// Agents implements Source. It does not give revisions of cards, because it
// asks no peer.
func (s *Sessions) Agents() []Entry {
	ids := s.agents.AgentIDs()
	list := make([]Entry, len(ids))
	for i, id := range ids {
		list[i].AgentID = id
	}
	return list
}

// Card implements Source.
func (s *Sessions) Card(agentID string, found func(Card, error)) bool {
	session, ok := s.agents.Session(agentID)
	if ok {
		s.cache.Find(session, agentID, found)
	}
	return ok
}
