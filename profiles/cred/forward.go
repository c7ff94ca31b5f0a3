package cred

import (
	"context"
	"fmt"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Forward tells the chain of the delegation that ctx carries to the next hop, ahead
// of what is sent there on the same lane: the PRESENT and its DELEGATEs, octet for
// octet as they came. It returns when they are taken there, with a ctx that has
// what goes out in it name the chain (profiles.AppendChain). An error means that
// nothing is to be sent.
//
// Chains of tokens are told, and only if they are kept; otherwise, and if ctx
// carries no delegation, Forward does nothing. It reads the Store.
func (s *Service) Forward(ctx context.Context, lane profiles.Lane, sync Sync) (context.Context, error) {
	d := profiles.DelegationOf(ctx)
	if d == nil || d.Type != JWT || !s.opts.Keep || s.opts.Store == nil {
		return ctx, nil
	}
	messages, err := s.octets(ctx, d)
	if err != nil {
		return ctx, err
	}
	if err := tellAll(ctx, lane, sync, messages...); err != nil {
		return ctx, fmt.Errorf("cred: the next hop: %w", err)
	}
	return profiles.WithChain(ctx, []byte(d.ChainID)), nil
}

// octets returns the messages that make a chain, as it is now.
func (s *Service) octets(ctx context.Context, d *profiles.Delegation) ([]e1.Envelope, error) {
	places, expires, err := s.places(d)
	if err != nil {
		return nil, err
	}
	messages := make([]e1.Envelope, len(places))
	for i, place := range places {
		version, octets, err := s.opts.Store.Get(ctx, spaceOctets, place)
		switch {
		case err != nil:
			return nil, profiles.Unavailable(err)
		case version == 0:
			return nil, fmt.Errorf("cred: part %d of a chain is not kept", i+1)
		}
		env := e1.Envelope{ProfileID: ProfileID, MsgType: TypeDelegate}
		if i == 0 {
			m := Present{Type: []byte(JWT), Credential: octets, ChainID: []byte(d.ChainID)}
			env.MsgType, env.Payload = TypePresent, m.Append(make([]byte, 0, m.Size()))
		} else {
			m := Delegate{ChainID: []byte(d.ChainID), Delegation: octets, Expires: expires[i]}
			env.Payload = m.Append(make([]byte, 0, m.Size()))
		}
		messages[i] = env
	}
	return messages, nil
}

// places returns where the links of a chain are, and what their DELEGATEs said of
// their end.
func (s *Service) places(d *profiles.Delegation) (places []string, expires []uint64, err error) {
	t := &s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	now := s.clock.steady()
	c := t.find(d.Owner, d.ChainID, now)
	if c == nil || c.revoked || c.ended(now) || !s.trusted(c) {
		return nil, nil, profiles.ErrChain
	}
	for i := range c.links {
		places, expires = append(places, c.place(i)), append(expires, uint64(c.links[i].said))
	}
	return places, expires, nil
}
