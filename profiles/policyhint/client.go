package policyhint

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
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
	return profiles.Ask(ctx, on, setEnvelope(hints), func(answer *e1.Envelope) error {
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

func setEnvelope(hints []profiles.Hint) e1.Envelope {
	m := Set{Constraints: make([]Constraint, len(hints))}
	for i, h := range hints {
		m.Constraints[i] = Constraint{Key: []byte(h.Key), Value: []byte(h.Value), Mode: []byte(h.Mode.String()), Scope: []byte(h.Scope)}
	}
	return e1.Envelope{ProfileID: ProfileID, MsgType: TypeSet, Payload: m.Append(make([]byte, 0, m.Size()))}
}

// Forward implements profiles.Carrier: it sends the hints of ctx for the lifecycle that a
// message opens. Hints of the connection and of the original lifecycle become hints of that
// lifecycle, because the outgoing connection may be shared. For a message that opens no
// lifecycle nothing is sent. Modes do not change. If a hint is a MUST, Forward waits, at
// most for Options.Forward, until the peer has accepted it. If the peer is not known to serve
// the profile, no hints are sent, and Forward fails if one is a MUST.
func (h *Hints) Forward(ctx context.Context, lane profiles.Lane, m *profiles.Onward) (context.Context, error) {
	if m.Scope == "" {
		return ctx, nil
	}
	hints := onward(profiles.HintsOf(ctx, m.Name), scopeOf(m.Scope, m.ID))
	if len(hints) == 0 {
		return ctx, nil
	}
	wait, cancel := context.WithTimeout(ctx, h.opts.Forward)
	defer cancel()
	err := send(wait, lane, hints)
	switch {
	case profiles.IsUnserved(err) && hints[0].Mode < profiles.Must:
		return ctx, nil
	case profiles.IsUnserved(err):
		return nil, &profiles.Error{
			Code: profiles.SecurityPolicy, Detail: "policy_hint", Domain: true,
			Text: "a hint is a MUST, and the next endpoint is not known to serve profile " + Name,
		}
	}
	if errors.As(err, new(*ViolationError)) || errors.As(err, new(*profiles.PeerError)) {
		err = &profiles.Error{
			Code: profiles.SecurityPolicy, Detail: "policy_hint", Domain: true,
			Text: "the hints were not taken by the next endpoint", Cause: err,
		}
	}
	if err != nil {
		return nil, err
	}
	return ctx, nil
}

// send sends hints, the strongest first.
func send(ctx context.Context, lane profiles.Lane, hints []profiles.Hint) error {
	for len(hints) > 0 {
		next := hints[:min(len(hints), MaxConstraints)]
		hints = hints[len(next):]
		var err error
		if next[0].Mode == profiles.Must {
			err = Put(ctx, lane, next...)
		} else {
			err = lane.Send(ctx, setEnvelope(next))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onward returns hints for the next hop, the strongest first. Hints that get the
// same scope there are merged for each key, except different values of a MUST:
// both apply here, and one hint cannot express them.
func onward(hints []profiles.Hint, scope string) []profiles.Hint {
	list := hints[:0]
	for _, h := range hints {
		if !strings.HasPrefix(h.Scope, profiles.ScopeTarget) {
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
