package client

import (
	"context"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/rpc"
)

// PresentCredential shows a credential and returns when the peer has taken it, and
// keeps the chain that it starts; an empty chainID starts none.
func (c *Client) PresentCredential(ctx context.Context, credType string, credential, chainID []byte) error {
	return c.onLane(ctx, func(lane profiles.Lane) error {
		return cred.Show(ctx, lane, rpc.Sync, credType, credential, chainID)
	})
}

// DelegateCredential adds a delegation to a chain.
func (c *Client) DelegateCredential(ctx context.Context, chainID, delegation []byte, expires time.Time) error {
	return c.onLane(ctx, func(lane profiles.Lane) error {
		return cred.Extend(ctx, lane, rpc.Sync, chainID, delegation, expires)
	})
}

// RevokeCredential ends a chain for good. It is no error if there is none.
func (c *Client) RevokeCredential(ctx context.Context, chainID []byte, reason string) error {
	return c.onLane(ctx, func(lane profiles.Lane) error {
		return cred.End(ctx, lane, rpc.Sync, chainID, reason)
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
