package cred

import (
	"context"
	"errors"
	"fmt"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// NotTaken begins the Text of an error for a chain that the next hop has refused. The code
// of its refusal follows.
const NotTaken = "the next endpoint has refused the credentials"

// maxCode bounds that code, in octets.
const maxCode = 64

// Forward implements profiles.Carrier: it sends the chain of the delegation in ctx to
// the next hop, the PRESENT and its DELEGATEs, with unchanged octets. It returns when
// the next hop has accepted them. Messages sent in the returned context name the chain.
//
// Forward sends chains of tokens only, and only with Keep, a Store and Sync. Otherwise,
// and without a delegation in ctx, it does nothing. It refuses a chain that was presented
// without Keep and not again since. It reads the Store, and takes Options.Forward at most.
func (s *Service) Forward(ctx context.Context, lane profiles.Lane, _ *profiles.Onward) (context.Context, error) {
	d := profiles.DelegationOf(ctx)
	if d == nil || d.Type != JWT || !s.limits.Load().Keep || s.opts.Store == nil || s.opts.Sync == nil {
		return ctx, nil
	}
	wait, cancel := context.WithTimeout(ctx, s.opts.Forward)
	defer cancel()
	messages, err := s.octets(wait, d)
	if err != nil {
		return nil, err
	}
	to, session, known := tellingOn(ctx, lane)
	if known {
		if err := s.note(wait, d, to, session); err != nil {
			return nil, err
		}
	}
	err = sendAll(wait, lane, s.opts.Sync, messages...)
	if known && s.overtaken(d, to) {
		return nil, profiles.ErrChain
	}
	refused := (*profiles.PeerError)(nil)
	switch {
	case errors.As(err, &refused):
		return nil, &profiles.Error{
			Code: profiles.SecurityPolicy, Detail: "cred_chain", Text: NotTaken + ": " + p1.Clip(refused.Code, maxCode), Cause: err,
		}
	case err != nil:
		return nil, fmt.Errorf("cred: the next hop: %w", err)
	}
	return profiles.WithChain(ctx, []byte(d.ChainID)), nil
}

// octets returns the messages that make up the current chain.
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
			return nil, errNotKept
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

// errNotKept refuses what would go on without its credentials.
var errNotKept = &profiles.Error{
	Code: profiles.SecurityPolicy, Detail: "cred_chain",
	Text: "the credentials were not kept when they were presented, so they cannot be forwarded; present them again",
}

// places returns the keys of the links of a chain in the Store, and the expiries in
// their DELEGATEs.
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
