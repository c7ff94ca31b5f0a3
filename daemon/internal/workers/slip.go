package workers

import (
	"sync"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/agents/slipa2a"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/slip/ucr"
)

// slip adds the SLIP extension to an agent, for callers that have the same anchors. Nil
// leaves the agent unchanged.
type slip struct {
	agent string
	x     *slipa2a.Extension
	log   *zap.Logger
}

func newSlip(agent string, c *config.SlipA2A, anchors func() *ucr.Table, log *zap.Logger) (*slip, error) {
	if c.Mismatch == "" {
		return nil, nil
	}
	x, err := slipa2a.New(slipa2a.Options{Anchors: anchors, Mismatch: slipa2a.Mismatch(c.Mismatch), RequireHash: c.RequireHash, Required: c.Required})
	if err != nil {
		return nil, err
	}
	return &slip{agent, x, log}, nil
}

// registrations wraps the Workers of the agent with the extension.
func (s *slip) registrations(list []a2a.Registration) []a2a.Registration {
	if s != nil {
		for i := range list {
			list[i].Worker = s.x.Wrap(list[i].Worker)
		}
	}
	return list
}

// source adds the extension to the card of the agent.
func (s *slip) source(cards agdisc.Source) agdisc.Source {
	if s == nil {
		return cards
	}
	return &slipCards{Source: cards, slip: s}
}

// slipCards adds the extension to cards, except to signed ones.
type slipCards struct {
	agdisc.Source
	slip *slip

	mu   sync.Mutex
	from string      // etag of the card that last was made from
	last agdisc.Card // the changed card
}

// Card implements agdisc.Source.
func (c *slipCards) Card(agentID string, found func(agdisc.Card, error)) bool {
	return c.Source.Card(agentID, func(card agdisc.Card, err error) {
		if err == nil {
			card = c.declared(card)
		}
		found(card, err)
	})
}

// declared returns the changed card, and makes it once for each original.
func (c *slipCards) declared(card agdisc.Card) agdisc.Card {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.from == "" || c.from != card.ETag {
		c.from, c.last = card.ETag, card
		payload, err := c.slip.x.Declare(card.Payload)
		if err != nil {
			c.slip.log.Warn("the card cannot declare SLIP; its author has to", zap.String("agent", c.slip.agent), zap.Error(err))
		} else {
			c.last.Payload, c.last.ETag = payload, agdisc.HashOf(payload)
		}
	}
	card.Payload, card.ETag = c.last.Payload, c.last.ETag
	return card
}
