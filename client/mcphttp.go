package client

import (
	"context"
	"errors"
	"net"

	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/internal/bridge/mcpclient"
	"github.com/slimwire/swp/internal/bridge/mcpfront"
)

// HTTPOptions configure ServeHTTP. Peer and Listener are required.
type HTTPOptions struct {
	Peer     *Kept
	Target   string       // name of the server, or empty for the peer's default
	Listener net.Listener // on a loopback address: each program that connects acts as this client

	// Ready is called after the peer was reached. It may be nil.
	Ready func()
}

// ServeHTTP serves a remote MCP server as a local one over Streamable HTTP, at /mcp;
// package mcpfront describes its behaviour. The next request replaces a lost connection. It
// returns nil after ctx has ended; calls in flight then have two seconds. It fails with the
// error of the first connection, or of the listener.
func ServeHTTP(ctx context.Context, o HTTPOptions) error {
	get := func(ctx context.Context) (*Client, error) {
		c, err := o.Peer.Get(ctx)
		if err == nil {
			err = c.CheckTarget(ctx, o.Target)
		}
		return c, err
	}
	defer o.Peer.Watch()()
	if _, err := get(ctx); err != nil {
		return errors.Join(err, o.Listener.Close())
	}
	link := func(ctx context.Context, _ string) (*mcpfront.Link, error) {
		c, err := get(ctx)
		if err != nil {
			return nil, mcpclient.Unreached(err)
		}
		return &mcpfront.Link{Session: c.Session, MCP: c.MCP()}, nil
	}
	front := mcpfront.New(mcpfront.Options{Connect: link, Caller: gate.Caller, Single: true, Target: o.Target})
	return local(ctx, o.Listener, front, o.Ready, front.Close)
}
