package client

import (
	"context"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/cred"
)

// PresentCredential sends a credential and returns when the peer has accepted it. A
// non-empty chainID starts a chain with it, which the peer keeps. The error is a
// *profiles.UnconfirmedError if the peer does not know swp.sync.
func (c *Client) PresentCredential(ctx context.Context, credType string, credential, chainID []byte) error {
	return c.onLane(ctx, func(lane profiles.Lane) error {
		return cred.Show(ctx, lane, c.sync, credType, credential, chainID)
	})
}

// DelegateCredential adds a delegation to a chain.
func (c *Client) DelegateCredential(ctx context.Context, chainID, delegation []byte, expires time.Time) error {
	return c.onLane(ctx, func(lane profiles.Lane) error {
		return cred.Extend(ctx, lane, c.sync, chainID, delegation, expires)
	})
}

// RevokeCredential revokes a chain permanently. A chain that does not exist is no error.
func (c *Client) RevokeCredential(ctx context.Context, chainID []byte, reason string) error {
	return c.onLane(ctx, func(lane profiles.Lane) error {
		return cred.End(ctx, lane, c.sync, chainID, reason)
	})
}

func (c *Client) onLane(ctx context.Context, do func(profiles.Lane) error) error {
	lane, err := c.peer.Open(ctx)
	if err != nil {
		return c.Explain(err)
	}
	defer func() { _ = lane.Close() }()
	return c.Explain(do(lane))
}
