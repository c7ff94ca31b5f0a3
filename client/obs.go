package client

import (
	"context"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/obs"
)

// SetTrace binds a trace context to the exchanges of ids, or without ids to this
// connection. It returns after the peer has read it: all later messages, on any stream,
// belong to the trace.
func (c *Client) SetTrace(ctx context.Context, t profiles.Trace, ids obs.IDs) error {
	if err := obs.Check(t); err != nil {
		return err
	}
	lane, err := c.peer.Open(ctx)
	if err != nil {
		return c.Explain(err)
	}
	defer func() { _ = lane.Close() }()
	return c.Explain(obs.Bind(ctx, lane, t, ids))
}

// LastTrace returns the last trace context that the peer has read on this connection, zero
// if there is none.
func (c *Client) LastTrace(ctx context.Context) (profiles.Trace, obs.IDs, error) {
	last, ids, err := obs.Last(ctx, c.peer)
	return last, ids, c.Explain(err)
}
