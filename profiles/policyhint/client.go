package policyhint

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// ViolationError is a POLICY_VIOLATION: a hint that could not be set, or that has stopped
// an action.
type ViolationError struct {
	Key, Scope, Reason string
}

func (e *ViolationError) Error() string {
	return "policyhint: " + e.Key + " for " + e.Scope + ": " + e.Reason
}

func (e *ViolationError) message() *Violation {
	return &Violation{Key: []byte(e.Key), Scope: []byte(e.Scope), Reason: []byte(e.Reason)}
}

func (m *Violation) err() *ViolationError {
	return &ViolationError{string(m.Key), string(m.Scope), string(m.Reason)}
}

// Put sets hints at a peer, all or none, and returns when they are in force for all later
// messages, on any lane. The error is a *ViolationError or a *profiles.PeerError if the
// peer refused the hints, an *profiles.Error if either side refused a message, or that of
// ctx.
func Put(ctx context.Context, on profiles.Caller, hints ...profiles.Hint) error {
	return put(ctx, on, nil, hints)
}

// put is Put of hints for the message with a msg_id only, if it is not nil.
func put(ctx context.Context, on profiles.Caller, msgID []byte, hints []profiles.Hint) error {
	return profiles.Ask(ctx, on, setEnvelope(msgID, hints), func(answer *e1.Envelope) error {
		switch answer.MsgType {
		case TypeAck:
			return nil // with any ack_id, because it is the answer to this call
		case TypeViolation:
			var m Violation
			if err := m.Decode(answer.Payload); err != nil {
				return err
			}
			return m.err()
		}
		return refusals.Read(answer)
	})
}

func setEnvelope(msgID []byte, hints []profiles.Hint) e1.Envelope {
	m := Set{Constraints: make([]Constraint, len(hints))}
	for i, h := range hints {
		m.Constraints[i] = Constraint{Key: []byte(h.Key), Value: []byte(h.Value), Mode: []byte(h.Mode.String()), Scope: []byte(h.Scope)}
	}
	env := e1.Envelope{ProfileID: ProfileID, MsgType: TypeSet, Payload: m.Append(make([]byte, 0, m.Size()))}
	if msgID != nil {
		env.Extensions = e1.AppendExtension(nil, ExtMessage, msgID)
	}
	return env
}

// Forward implements profiles.Carrier: it sends the hints of ctx for a message. Hints of the
// connection and of the original lifecycle become hints of the lifecycle that the message
// opens, because the outgoing connection may be shared. If it opens none, all hints become
// hints of the message. Modes do not change. If a hint is a MUST, Forward
// waits, at most for Options.Forward, until the peer has accepted it. If the peer is not known
// to serve the profile, or to take hints for a single message, no hints are sent, and Forward
// fails if one is a MUST.
func (h *Hints) Forward(ctx context.Context, lane profiles.Lane, m *profiles.Onward) (context.Context, error) {
	hints := profiles.HintsOf(ctx, m.Name)
	if len(hints) == 0 {
		return ctx, nil
	}
	var msgID []byte
	scope := ""
	switch {
	case m.Scope != "" && len(m.ID) > 0:
		scope = scopeOf(m.Scope, m.ID)
	case len(m.MsgID) > 0 && profiles.HeedsOn(lane, ProfileID, ExtMessage):
		msgID = m.MsgID
	default: // it would be for the whole connection
		return omitted(ctx, hints, "does not take hints for a single message")
	}
	wait, cancel := context.WithTimeout(ctx, h.opts.Forward)
	defer cancel()
	err := send(wait, lane, msgID, onward(hints, scope))
	switch {
	case err == nil:
		return ctx, nil
	case profiles.IsUnserved(err):
		return omitted(ctx, hints, "is not known to serve profile "+Name)
	}
	if why := refusal(err); why != "" {
		return nil, notTaken(NotTaken+": "+why, err)
	}
	return nil, err
}

// NotTaken begins the Text of an error for hints that the next hop has refused; the hint or
// the code of its refusal follows. MustNotTaken begins the one for a MUST that it cannot take.
const (
	NotTaken     = "the hints were not taken by the next endpoint"
	MustNotTaken = "a hint is a MUST, and the next endpoint"
)

// refusal says why a peer has refused hints; it is empty if it has not.
func refusal(err error) string {
	if v, ok := errors.AsType[*ViolationError](err); ok {
		return p1.Clip(v.Key, MaxKey) + ": " + p1.Clip(v.Reason, maxReason)
	}
	if refused, ok := errors.AsType[*profiles.PeerError](err); ok {
		return p1.Clip(refused.Code, maxReason)
	}
	return ""
}

// maxReason bounds what is told on of a reason or a code, in octets.
const maxReason = 64

// omitted returns ctx if hints, the strongest first, may be left out because the next
// endpoint cannot take them, and else an error that says why.
func omitted(ctx context.Context, hints []profiles.Hint, why string) (context.Context, error) {
	if hints[0].Mode < profiles.Must {
		return ctx, nil
	}
	return nil, notTaken(MustNotTaken+" "+why, nil)
}

func notTaken(text string, cause error) error {
	return &profiles.Error{Code: profiles.SecurityPolicy, Detail: "policy_hint", Domain: true, Text: text, Cause: cause}
}

// send sends hints, the strongest first.
func send(ctx context.Context, lane profiles.Lane, msgID []byte, hints []profiles.Hint) error {
	for len(hints) > 0 {
		next := hints[:min(len(hints), MaxConstraints)]
		hints = hints[len(next):]
		var err error
		if next[0].Mode == profiles.Must {
			err = put(ctx, lane, msgID, next)
		} else {
			var call profiles.Call // its answer may come late, and says nothing that matters
			if call, err = lane.Call(ctx, setEnvelope(msgID, next)); err == nil {
				call.Close()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onward returns hints for the next hop, the strongest first: the ones of a target unchanged,
// unless scope is empty, the others in that scope. Hints that get the same scope are merged
// for each key, except different values of a MUST: both apply here, and one hint cannot
// express them.
func onward(hints []profiles.Hint, scope string) []profiles.Hint {
	list := hints[:0]
	for _, h := range hints {
		if scope == "" || !strings.HasPrefix(h.Scope, profiles.ScopeTarget) {
			h.Scope = scope
		}
		there := slices.ContainsFunc(list, func(other profiles.Hint) bool {
			return other.Key == h.Key && other.Scope == h.Scope && (other.Value == h.Value || h.Mode < profiles.Must)
		})
		if !there {
			list = append(list, h)
		}
	}
	return list
}
