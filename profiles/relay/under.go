package relay

import (
	"context"

	"github.com/slimwire/swp/profiles"
)

// conditions are what a delivery for a partner was accepted under: a chain of credentials of its
// publisher, and hints in the form of profiles.FormatHints. They are stored with it, and hold
// again when it is published at the partner.
type conditions struct{ chain, hints string }

// conditionsOf returns the conditions in the context of a RELAY_PUBLISH for a topic.
func (s *Service) conditionsOf(ctx context.Context, topic string) (c conditions, err error) {
	if d := profiles.DelegationOf(ctx); d != nil && s.opts.Chains != nil {
		c.chain = d.ChainID
	}
	hints := profiles.OwnHints(ctx, topic) // the strongest first
	if len(hints) == 0 {
		return c, nil
	}
	c.hints = profiles.FormatHints(hints)
	kept, err := profiles.ParseHints(c.hints)
	if err != nil || len(kept) < len(hints) && hints[len(kept)].Mode == profiles.Must {
		return c, invalid(DetailSize, "the hints with MUST are too long to be stored with it")
	}
	return c, nil
}

// under returns the context in which a stored delivery of a publisher is published at a
// partner. The error refuses it for good: its credentials are of no use any more.
func (s *Service) under(ctx context.Context, publisher string, r *record) (context.Context, error) {
	if r.chain != "" && s.opts.Chains != nil {
		d, err := s.opts.Chains.Delegation(&profiles.Peer{Identity: publisher}, []byte(r.chain))
		if err != nil {
			return nil, err
		}
		ctx = profiles.WithDelegation(ctx, d)
	}
	if r.hints != "" {
		hints, err := profiles.ParseHints(r.hints)
		if err != nil {
			return nil, err
		}
		ctx = profiles.WithHints(ctx, hints)
	}
	return profiles.WithForward(ctx, s.opts.Carrier, profiles.Onward{Name: r.topic}, nil), nil
}
