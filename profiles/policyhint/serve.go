package policyhint

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// Reasons of violations by a SET.
const (
	ReasonUnknownKey = "UNKNOWN_KEY" // with MUST
	ReasonConflict   = "CONFLICT"    // a MUST with another value is in force
)

// serve handles one message.
func (h *Hints) serve(_ context.Context, req *profiles.Request, w profiles.Responder) error {
	switch req.MsgType {
	case TypeSet:
		return h.set(req, w)
	case TypeViolation:
		var m Violation
		if err := m.Decode(req.Payload); err != nil {
			return err
		}
		req.About("violation", "")
		if h.opts.Told != nil {
			h.opts.Told(req.Session.Peer(), m.err())
		}
		return nil
	}
	return check(&req.Envelope) // an answer to no call of ours: well formed it is counted and dropped
}

func (h *Hints) set(req *profiles.Request, w profiles.Responder) error {
	var m Set
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	if !req.May(h.opts.Access, h.profile.Name, "set", "") {
		return &profiles.Error{Code: profiles.SecurityPolicy, Detail: "access", Text: "policyhint: set is not allowed", Denied: true}
	}
	hints, err := m.hints()
	if err != nil {
		return err
	}
	if len(hints) > 0 {
		violation, err := h.table.enter(req.Session).put(hints)
		if err != nil {
			return err
		}
		if violation != nil {
			profiles.Ended(w, profiles.OutcomeFailed)
			v := violation.message()
			return w.Finish(e1.Envelope{MsgType: TypeViolation, Payload: v.Append(req.Scratch(v.Size()))})
		}
	}
	ack := Ack{AckID: hex.AppendEncode(nil, req.MsgID)}
	return w.Finish(e1.Envelope{MsgType: TypeAck, Payload: ack.Append(req.Scratch(ack.Size()))})
}

// Violated implements profiles.Policy. Built-in RPC methods act only on this endpoint and
// are never forbidden.
func (h *Hints) Violated(ctx context.Context, profile, name string) *profiles.Violation {
	if profile == "rpc" && strings.HasPrefix(name, "swp.") {
		return nil
	}
	var target *Target
	for _, hint := range profiles.HintsOf(ctx, name) {
		key, known := keys[hint.Key]
		if hint.Mode != profiles.Must || !known {
			continue
		}
		if target == nil {
			target = h.target(profile, name)
		}
		if reason := key.kept(hint.Value, target); reason != "" {
			v := &ViolationError{hint.Key, hint.Scope, reason}
			m := v.message()
			return &profiles.Violation{Key: v.Key, Scope: v.Scope, Reason: v.Reason, Notice: e1.Envelope{
				ProfileID: ProfileID, MsgType: TypeViolation, MsgID: profiles.NewMsgID(), Payload: m.Append(make([]byte, 0, m.Size())),
			}}
		}
	}
	return nil
}

// target returns the declared properties; empty without a declaration.
func (h *Hints) target(profile, name string) *Target {
	if h.opts.Targets != nil {
		if t, ok := h.opts.Targets.Target(profile, name); ok {
			return t
		}
	}
	return new(Target)
}

// check returns an error for a malformed answer.
var check = p1.WellFormed(Messages)

// refusals are the POLICY_ERRs of this endpoint and of peers.
var refusals = p1.Refusals{
	Profile: Name, Type: TypeErr, Of: []uint64{TypeSet},
	New: func() (p1.ErrMessage, p1.ErrFields) {
		m := new(Err)
		return m, p1.ErrFields{Code: &m.Code, Message: &m.Message}
	},
	Own: p1.OneOf(CodeInvalidScope),
}
