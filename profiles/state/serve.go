package state

import (
	"context"
	"encoding/hex"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// serve handles one message.
func (s *Service) serve(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
	switch req.MsgType {
	case TypePut:
		return s.put(req)
	case TypeGet:
		return s.get(req)
	case TypeDelta:
		return s.delta(req)
	}
	return check(&req.Envelope) // an answer without a call: if it is well formed, it is counted and dropped
}

// check returns an error for a malformed answer.
var check = p1.WellFormed(Messages)

// allowed asks the rules.
func (s *Service) allowed(identity, operation string, id ID) bool {
	return s.opts.Access.Allowed(identity, s.profile.Name, operation, nameOf(id))
}

// nameOf is the name of a state in rules.
func nameOf(id ID) string { return hex.EncodeToString(id[:]) }

var (
	errNotKept = &profiles.Error{Code: profiles.SecurityPolicy, Detail: DetailKept, Text: "state: this endpoint keeps no states"}
	errDenied  = &profiles.Error{Code: profiles.SecurityPolicy, Detail: "access", Text: "state: put is not allowed", Denied: true}
	errEnding  = profiles.Busy("closed", "state: this endpoint is shutting down")

	// errNotFound is for absent states, and for states that the peer may not see.
	errNotFound = &profiles.Error{Code: profiles.NotFound, Detail: CodeNotFound, Text: "state not found", Domain: true}
	errHidden   = profiles.Deny(errNotFound) // the peer cannot distinguish it
)

// unavailable is the error for a failed store.
func (s *Service) unavailable(err error) error {
	if s.ctx.Err() != nil {
		return errEnding
	}
	return profiles.Unavailable(err)
}

// refusals are the STATE_ERRs of this endpoint and of peers.
var refusals = p1.Refusals{
	Profile: Name, Type: TypeErr, Of: []uint64{TypePut, TypeGet, TypeDelta},
	New: func() (p1.ErrMessage, p1.ErrFields) {
		m := new(Err)
		return m, p1.ErrFields{Code: &m.Code, Message: &m.Message}
	},
	Own: p1.OneOf(CodeHashMismatch, CodeParentMissing, CodeConflict, CodeNotFound),
}
