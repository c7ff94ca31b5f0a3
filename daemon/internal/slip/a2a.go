package slip

import (
	"sync"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/agents/slipa2a"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// A2A adds SLIP-A2A to one agent, for callers that have the same anchors. Nil leaves the agent
// unchanged. It is safe for concurrent use.
type A2A struct {
	agent string
	own   bool // an agent of this endpoint, not of a partner
	x     *slipa2a.Extension
	log   *zap.Logger

	mu   sync.Mutex
	from string      // etag of the card that last was made from
	last agdisc.Card // the changed card
}

// NewA2A returns the extension of an agent of this endpoint, nil if c leaves SLIP to the
// agent. anchors returns the anchors in force, nil for the core.
func NewA2A(agent string, c *config.SlipA2A, anchors func() *ucr.Table, log *zap.Logger) (*A2A, error) {
	if c.Mismatch == "" {
		return nil, nil
	}
	return newA2A(agent, true, c, anchors, log)
}

// newA2A makes the extension of an agent. For the agent of a partner, anchors that only the
// partner has are in transit here.
func newA2A(agent string, own bool, c *config.SlipA2A, anchors func() *ucr.Table, log *zap.Logger) (*A2A, error) {
	x, err := slipa2a.New(slipa2a.Options{
		Codec: slipstream.Codec{Transit: !own}, Anchors: anchors,
		Mismatch: slipa2a.Mismatch(c.Mismatch), RequireHash: c.RequireHash, Required: c.Required,
	})
	if err != nil {
		return nil, err
	}
	return &A2A{agent: agent, own: own, x: x, log: log}, nil
}

// Registrations wraps the Workers of the agent with the extension.
func (s *A2A) Registrations(list []a2a.Registration) []a2a.Registration {
	if s != nil {
		for i := range list {
			list[i].Worker = s.x.Wrap(list[i].Worker)
		}
	}
	return list
}

// Source adds the extension to the card of the agent.
func (s *A2A) Source(cards agdisc.Source) agdisc.Source {
	if s == nil {
		return cards
	}
	return slipCards{cards, s}
}

// slipCards adds the extension to the cards of an agent.
type slipCards struct {
	agdisc.Source
	slip *A2A
}

// Card implements agdisc.Source.
func (c slipCards) Card(agentID string, found func(agdisc.Card, error)) bool {
	return c.Source.Card(agentID, func(card agdisc.Card, err error) {
		if err == nil {
			card = c.slip.declared(card)
		}
		found(card, err)
	})
}

// declared returns the changed card, and makes it once for each original. A signed card stays
// unchanged.
func (s *A2A) declared(card agdisc.Card) agdisc.Card {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from == "" || s.from != card.ETag {
		s.from, s.last = card.ETag, card
		payload, err := s.x.Declare(card.Payload)
		if err != nil {
			s.log.Warn("the card cannot declare SLIP; its author has to", zap.String("agent", s.agent), zap.Error(err))
		} else {
			s.last.Payload, s.last.ETag = payload, agdisc.HashOf(payload)
		}
	}
	card.Payload, card.ETag = s.last.Payload, s.last.ETag
	return card
}

// card adds the extension to the card of a connected agent, if it has that here.
func (w *Words) card(card agdisc.Card) agdisc.Card {
	if s := w.now.Load().agents[card.AgentID]; s != nil {
		return s.declared(card)
	}
	return card
}

// ward puts the extension of an agent elsewhere before the Ward of its task.
func (w *Words) ward(agent string, t *a2a.Task, behind a2a.Ward) a2a.Ward {
	s := w.now.Load().agents[agent]
	if s == nil {
		return behind
	}
	return s.x.Ward(t, s.own, behind)
}
