package client

import (
	"context"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/cred"
)

// PresentCredential shows a credential and returns when the peer has taken it, and
// keeps the chain that it starts; an empty chainID starts none.
func (c *Client) PresentCredential(ctx context.Context, credType string, credential, chainID []byte) error {
	return c.onLane(ctx, func(lane profiles.Lane) error {
		return cred.Show(ctx, lane, syncLane, credType, credential, chainID)
	})
}

// DelegateCredential adds a delegation to a chain.
func (c *Client) DelegateCredential(ctx context.Context, chainID, delegation []byte, expires time.Time) error {
	return c.onLane(ctx, func(lane profiles.Lane) error {
		return cred.Extend(ctx, lane, syncLane, chainID, delegation, expires)
	})
}

// RevokeCredential ends a chain for good. That there is none is no error.
func (c *Client) RevokeCredential(ctx context.Context, chainID []byte, reason string) error {
	return c.onLane(ctx, func(lane profiles.Lane) error {
		return cred.End(ctx, lane, syncLane, chainID, reason)
	})
}

func (c *Client) onLane(ctx context.Context, do func(profiles.Lane) error) error {
	lane, err := c.Open(ctx)
	if err != nil {
		return c.Explain(err)
	}
	defer func() { _ = lane.Close() }()
	return c.Explain(do(lane))
}

// decodeCred returns a message of CRED by the names of its schema. Of credentials
// and delegations it says how long they are: what is printed may be kept.
func decodeCred(env *e1.Envelope) (map[string]any, error) {
	switch env.MsgType {
	case cred.TypePresent:
		var m cred.Present
		err := m.Decode(env.Payload)
		return map[string]any{"cred_type": string(m.Type), "credential_octets": len(m.Credential), "chain_id": octets(m.ChainID)}, err
	case cred.TypeDelegate:
		var m cred.Delegate
		err := m.Decode(env.Payload)
		return map[string]any{"chain_id": octets(m.ChainID), "delegation_octets": len(m.Delegation), "expires_at_unix_ms": m.Expires}, err
	case cred.TypeRevoke:
		var m cred.Revoke
		err := m.Decode(env.Payload)
		return map[string]any{"chain_id": octets(m.ChainID), "reason": string(m.Reason)}, err
	case cred.TypeErr:
		var m cred.Err
		err := m.Decode(env.Payload)
		return map[string]any{"code": string(m.Code), "message": string(m.Message)}, err
	}
	return nil, nil
}
