package cred

import (
	"context"
	"slices"
	"time"

	"github.com/slimwire/swp/profiles"
)

// Delegation implements profiles.Chains. It does not check the binding to a
// certificate for a Peer without a Fingerprint: that Peer is not connected, and the
// binding was checked when its exchange came.
func (s *Service) Delegation(peer *profiles.Peer, chainID []byte) (*profiles.Delegation, error) {
	t := &s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	now := s.clock.steady()
	id := string(chainID)
	c := t.find(peer.Identity, id, now)
	if c == nil {
		c = t.delegated(profiles.Link(peer.Identity), id, now)
		if c != nil && c.ofAnother(peer.Identity) {
			c = nil
		}
	}
	switch own := c != nil && c.owner == peer.Identity; {
	case own && c.revoked:
		return nil, profiles.ErrRevoked
	case own && c.ended(now):
		return nil, profiles.ErrExpired
	case own && t.dead(c, now):
		return nil, profiles.ErrRevoked
	case c == nil, c.revoked, c.ended(now), !s.trusted(c), !c.usable(peer), t.dead(c, now):
		return nil, profiles.ErrChain
	}
	until := c.links[len(c.links)-1].until
	first, last := &c.links[0], &c.links[len(c.links)-1]
	return &profiles.Delegation{
		ChainID: c.id, Owner: c.owner, Type: c.kind, Issuer: first.issuer, Subject: last.subject,
		Scopes: slices.Clone(last.scopes), Expires: time.UnixMilli(last.expires), Depth: len(c.links),
		Watch: func(ended func(*profiles.Error)) func() { return s.watch(peer, id, until, ended) },
	}, nil
}

// ofAnother reports whether another caller of the peer of an identity has presented the
// chain. The peer may be the subject of each.
func (c *chain) ofAnother(identity string) bool {
	return c.owner != identity && profiles.For(c.owner) != "" && profiles.Link(c.owner) == profiles.Link(identity)
}

// usable reports whether a peer may use a chain that is not over.
func (c *chain) usable(peer *profiles.Peer) bool {
	here := func(l *link) bool { return l.leaf == "" || peer.Fingerprint == "" || l.leaf == peer.Fingerprint }
	if peer.Identity == c.owner {
		first := &c.links[0]
		if here(first) && (first.subject == profiles.Link(c.owner) || first.bearer || first.leaf != "") {
			return true
		}
	}
	if c.kind != JWT {
		return false
	}
	last := &c.links[len(c.links)-1]
	return last.subject == profiles.Link(peer.Identity) && here(last)
}

// trusted reports whether the keys and digests that verified a chain are still
// accepted.
func (s *Service) trusted(c *chain) bool {
	switch c.kind {
	case JWT:
		for i := range c.links {
			if l := &c.links[i]; s.opts.Tokens == nil || !s.opts.Tokens.Trusts(l.issuer, l.key, i > 0) {
				return false
			}
		}
	case Opaque:
		return s.opts.Digests != nil && s.opts.Digests.Listed(c.links[0].sum)
	}
	return true
}

// Attach returns ctx with the delegation of a message that names a chain. If the peer
// may not use the chain, ctx has no delegation and profiles.Delegated refuses the
// message.
func (s *Service) Attach(ctx context.Context, _ *profiles.Profile, req *profiles.Request) context.Context {
	id, named := req.Extensions.Lookup(profiles.ExtChain)
	if !named {
		return ctx
	}
	d, err := s.Delegation(req.Peer(), id)
	if err != nil {
		return profiles.WithoutDelegation(ctx, err)
	}
	return profiles.WithDelegation(ctx, d)
}
