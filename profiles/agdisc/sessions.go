package agdisc

import (
	"github.com/slimwire/swp/profiles"
)

// Agents has the agents that peers of sessions have declared. It is safe for concurrent
// use, and its methods do not wait.
type Agents interface {
	// AgentIDs returns the connected agents.
	AgentIDs() []string

	// Session returns the session of an agent, false if it is not connected.
	Session(agentID string) (profiles.Session, bool)
}

// Sessions is a Source of the cards of connected agents. It asks each agent for its card.
type Sessions struct {
	agents Agents
	cache  *Cache
	told   func(Card) Card
}

// NewSessions returns the Source of the cards of agents; cache stores them. told returns what
// peers get for a card; it must not wait, and nil changes none.
func NewSessions(agents Agents, cache *Cache, told func(Card) Card) *Sessions {
	return &Sessions{agents, cache, told}
}

// Agents implements Source. It returns no revisions, because it asks no peer.
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
	if told := found; s.told != nil {
		found = func(card Card, err error) {
			if err == nil {
				card = s.told(card)
			}
			told(card, err)
		}
	}
	if ok {
		s.cache.Find(session, agentID, found)
	}
	return ok
}
