package cred

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// serve handles one message. It verifies signatures on the read loop, because the
// next message on the stream may name the chain. A signature takes a tenth of a
// millisecond, and delays this connection only.
func (s *Service) serve(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
	switch req.MsgType {
	case TypePresent:
		return s.present(req)
	case TypeDelegate:
		return s.delegate(req)
	case TypeRevoke:
		return s.revoke(req)
	}
	return check(&req.Envelope) // an answer without a call: if it is well formed it is counted and dropped
}

// check reports whether an answer is well formed.
func check(env *e1.Envelope) error { return new(Err).Decode(env.Payload) }

// errUnknown refuses a chain_id without a chain, and the chain of another owner.
var errUnknown = refuse(CodeInvalid, "there is no such chain")

var (
	errRevoked = refuse(CodeRevoked, "the chain is revoked")
	errToken   = refuse(CodeRevoked, "the token belongs to a revoked chain")
)

func (s *Service) bounds(credential, chainID []byte) error {
	switch {
	case len(credential) > MaxCredential:
		return refuse(CodeInvalid, "%d octets, want at most %d", len(credential), MaxCredential)
	case len(chainID) > MaxChainID:
		return refuse(CodeInvalid, "chain_id of %d octets, want at most %d", len(chainID), MaxChainID)
	}
	return nil
}

func (s *Service) allowed(req *profiles.Request, operation, kind string) error {
	if req.May(s.opts.Access, s.profile.Name, operation, kind) {
		return nil
	}
	return &profiles.Error{Code: profiles.SecurityPolicy, Detail: "access", Text: "cred: " + operation + " is not allowed", Denied: true}
}

// present serves a PRESENT. Without a chain_id the credential is verified, and
// nothing is kept.
func (s *Service) present(req *profiles.Request) error {
	var m Present
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	if err := s.bounds(m.Credential, m.ChainID); err != nil {
		return err
	}
	kind, peer := credType(m.Type), req.Peer()
	if err := s.allowed(req, "present", kind); err != nil {
		return err
	}
	id := string(m.ChainID)
	if s.isRevoked(peer.Identity, id) {
		return errRevoked
	}
	l, err := s.first(kind, m.Credential, peer)
	if err != nil || id == "" {
		return err
	}
	return s.start(req, kind, id, m.Credential, l)
}

// start begins the chain of a verified credential.
func (s *Service) start(req *profiles.Request, kind, id string, credential []byte, l *link) error {
	t := &s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	now := s.clock.steady()
	owner := req.Identity()
	c := t.find(owner, id, now)
	switch {
	case (c == nil || c.ended(now)) && t.refuses(owner, l.sum, now):
		return errToken
	case c == nil:
		c = &chain{owner: owner, id: id}
		c.begin(kind, now, l)
		if err := t.enter(c, now, s.limits.Load().PerIdentity, s.limits.Load().Chains, profiles.Asserters(s.opts.Access)); err != nil {
			return err
		}
	case c.revoked:
		return errRevoked
	case c.ended(now):
		t.unindex(c)
		s.unkeep(c)
		c.begin(kind, now, l)
		t.index(c)
	case c.kind != kind || subtle.ConstantTimeCompare(c.links[0].sum[:], l.sum[:]) == 0:
		return refuse(CodeInvalid, "the chain_id is in use for another credential")
	default: // a repeated credential changes nothing
		s.again(c, 0, credential, req)
		return nil
	}
	s.keep(c, 0, credential)
	s.save(c, req)
	return nil
}

func (s *Service) isRevoked(owner, id string) bool {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	c := s.table.find(owner, id, s.clock.steady())
	return c != nil && c.revoked
}

// delegate serves a DELEGATE. A refused delegation does not extend the chain. A
// repeated token changes nothing: after a new connection a peer sends the whole chain
// again, and need not know how much of it this endpoint has.
func (s *Service) delegate(req *profiles.Request) error {
	var m Delegate
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	req.About("delegate", "") // until the type of the chain is known
	if err := s.bounds(m.Delegation, m.ChainID); err != nil {
		return err
	}
	sum := sha256.Sum256(m.Delegation)
	for {
		kind, parent, depth, err := s.parent(req, &m, sum)
		if err != nil || depth == 0 {
			return err
		}
		l, err := s.next(kind, &parent, sum, &m, req.Peer())
		if err != nil {
			return err
		}
		if s.extend(req, &m, &parent, depth, l) {
			return nil
		}
		// Another stream of the owner was faster. MaxDepth bounds the repetitions.
	}
}

// parent returns the link that a delegation extends, and its depth; depth 0 if the
// chain has the delegation already.
func (s *Service) parent(req *profiles.Request, m *Delegate, sum [sha256.Size]byte) (kind string, last link, depth int, err error) {
	t := &s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	now := s.clock.steady()
	c := t.find(req.Identity(), string(m.ChainID), now)
	if c == nil {
		return "", link{}, 0, errUnknown
	}
	if err := s.allowed(req, "delegate", c.kind); err != nil {
		return "", link{}, 0, err
	}
	limits := s.limits.Load()
	switch {
	case c.revoked:
		return "", link{}, 0, errRevoked
	case c.ended(now):
		return "", link{}, 0, refuse(CodeExpired, "the chain has expired")
	case !s.trusted(c):
		return "", link{}, 0, errUnknown
	case c.kind == JWT && c.extends(sum) > 0:
		s.again(c, c.extends(sum), m.Delegation, req)
		return "", link{}, 0, nil
	case c.kind == JWT && t.refuses(c.owner, sum, now):
		return "", link{}, 0, errToken
	case len(c.links) >= limits.MaxDepth:
		return "", link{}, 0, refuse(CodeLimit, "the chain has %d parts, want at most %d", len(c.links), limits.MaxDepth)
	}
	return c.kind, c.links[len(c.links)-1], len(c.links), nil
}

// extends returns the place of the link, after the first, of a delegation with a hash; 0 if
// the chain has no such link.
func (c *chain) extends(sum [sha256.Size]byte) int {
	for i := 1; i < len(c.links); i++ {
		if c.links[i].sum == sum {
			return i
		}
	}
	return 0
}

// extend adds a link to a chain, unless the chain has changed since the link was
// verified.
func (s *Service) extend(req *profiles.Request, m *Delegate, parent *link, depth int, l *link) bool {
	t := &s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.find(req.Identity(), string(m.ChainID), s.clock.steady())
	if c == nil || c.revoked || len(c.links) != depth || c.links[depth-1].sum != parent.sum {
		return false
	}
	t.unindex(c)
	c.links = append(c.links, *l)
	t.index(c)
	s.keep(c, len(c.links)-1, m.Delegation)
	s.save(c, req)
	return true
}

// revoke serves a REVOKE. The peer cannot tell an unknown chain, or the chain of
// another owner, from a revoked one.
func (s *Service) revoke(req *profiles.Request) error {
	var m Revoke
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	req.About("revoke", "")
	t := &s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.find(req.Identity(), string(m.ChainID), s.clock.steady())
	switch {
	case c == nil:
		return nil
	case c.revoked && c.unsaved:
		s.save(c, req)
		return nil
	case c.revoked:
		s.confirm(c, req)
		return nil
	}
	t.unindex(c)
	s.unkeep(c)
	c.revoke()
	t.index(c)
	s.save(c, req)
	s.reviewLater()
	s.wakeAll(c)
	return nil
}

// refusals are the CRED_ERRs of this endpoint and of peers.
var refusals = p1.Refusals{
	Profile: Name, Type: TypeErr, Of: []uint64{TypePresent, TypeDelegate, TypeRevoke},
	New: func() (p1.ErrMessage, p1.ErrFields) {
		m := new(Err)
		return m, p1.ErrFields{Code: &m.Code, Message: &m.Message}
	},
	Own: func(detail string) (string, bool) {
		_, own := canonical[detail]
		return detail, own
	},
}
