package client

import (
	"context"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/policyhint"
)

// SetHints sets hints at the peer, all or none, and returns when they are in force for
// later actions on this connection, within their scopes, also for those at a partner.
func (c *Client) SetHints(ctx context.Context, hints ...profiles.Hint) error {
	return c.Explain(policyhint.Put(ctx, c.peer, hints...))
}
