package client

import (
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/policyhint"
)

// SetHints sets hints at the peer, all or none, and returns when they are in
// force: for all that is done on this connection from then on, in their scopes.
func (c *Client) SetHints(ctx context.Context, hints ...profiles.Hint) error {
	return c.Explain(policyhint.Put(ctx, c.Session, hints...))
}

// decodePolicyHint returns a message of POLICYHINT by the names of its schema.
func decodePolicyHint(env *e1.Envelope) (map[string]any, error) {
	switch env.MsgType {
	case policyhint.TypeSet:
		var m policyhint.Set
		err := m.Decode(env.Payload)
		list := make([]map[string]string, len(m.Constraints))
		for i, c := range m.Constraints {
			list[i] = map[string]string{"key": string(c.Key), "value": string(c.Value), "mode": string(c.Mode)}
			if len(c.Scope) > 0 {
				list[i]["scope_ref"] = string(c.Scope)
			}
		}
		return map[string]any{"constraints": list}, err
	case policyhint.TypeAck:
		var m policyhint.Ack
		err := m.Decode(env.Payload)
		return map[string]any{"ack_id": octets(m.AckID)}, err
	case policyhint.TypeViolation:
		var m policyhint.Violation
		err := m.Decode(env.Payload)
		return map[string]any{"key": string(m.Key), "scope_ref": string(m.Scope), "reason_code": string(m.Reason)}, err
	case policyhint.TypeErr:
		var m policyhint.Err
		err := m.Decode(env.Payload)
		return map[string]any{"code": string(m.Code), "message": string(m.Message)}, err
	}
	return nil, nil
}
