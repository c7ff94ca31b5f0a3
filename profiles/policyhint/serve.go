package policyhint

import (
	"context"
	"encoding/hex"

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
	msgID, single := req.Extensions.Lookup(ExtMessage)
	if single && (len(msgID) == 0 || len(msgID) > e1.DefaultMaxMsgID) {
		return profiles.InvalidExtension(ExtMessage, "%d octets are no msg_id", len(msgID))
	}
	hints, err := m.hints(msgID)
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

// Violated implements profiles.Policy.
func (h *Hints) Violated(ctx context.Context, act *profiles.Act) *profiles.Violation {
	if act.Free || act.Ends {
		return nil
	}
	names := act.Targets
	if len(names) == 0 {
		names = []string{act.Name}
	}
	for _, name := range names {
		if v := violatedBy(profiles.HintsOf(ctx, name), h.targets(act, name)); v != nil {
			return v
		}
	}
	return nil
}

// violatedBy returns the first MUST that no target keeps together with the others; nil if
// there is a target that keeps all.
func violatedBy(hints []profiles.Hint, targets []*Target) (first *profiles.Violation) {
	for _, target := range targets {
		v := target.violates(hints)
		if v == nil {
			return nil
		}
		if first == nil {
			first = v
		}
	}
	return first
}

// violates returns the first MUST that a target does not keep.
func (t *Target) violates(hints []profiles.Hint) *profiles.Violation {
	for _, hint := range hints {
		key, known := keys[hint.Key]
		if hint.Mode != profiles.Must || !known {
			continue
		}
		if reason := key.kept(hint.Value, t); reason != "" {
			v := &ViolationError{hint.Key, hint.Scope, reason}
			m := v.message()
			return &profiles.Violation{Key: v.Key, Scope: v.Scope, Reason: v.Reason, Notice: e1.Envelope{
				ProfileID: ProfileID, MsgType: TypeViolation, MsgID: profiles.NewMsgID(), Payload: m.Append(make([]byte, 0, m.Size())),
			}}
		}
	}
	return nil
}

// targets returns the declarations of which one belongs to the executor; never none. A
// target without a declaration has an empty one.
func (h *Hints) targets(act *profiles.Act, name string) (list []*Target) {
	for _, text := range act.Agents {
		t, err := ParseDeclaration(text)
		if err != nil {
			t = new(Target)
		}
		list = append(list, t)
	}
	switch {
	case len(list) > 0:
	case act.Agents == nil && h.opts.Targets != nil:
		if t, ok := h.opts.Targets.Target(act.Profile, name); ok {
			return []*Target{t}
		}
		fallthrough
	default:
		list = []*Target{new(Target)}
	}
	return list
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
