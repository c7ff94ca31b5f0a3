package client

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"github.com/slimwire/swp/bridge/gate"
	"github.com/slimwire/swp/bridge/mcpfront"
	"github.com/slimwire/swp/profiles"
)

// HTTPOptions configure ServeHTTP. Connect and Listener are required.
type HTTPOptions struct {
	Connect  Dialer
	Target   string       // name of the server, or empty for the peer's default
	Listener net.Listener // on a loopback address: whoever can connect acts as this client

	// Patience is how long the peer may take for a sign of life. Default 10 s.
	Patience time.Duration

	// Ready is called once the peer was reached. Nil: nobody is told.
	Ready func()
}

// ServeHTTP is a local MCP server over Streamable HTTP, at /mcp, that is really the
// remote one: package mcpfront says how it behaves. A connection that is lost is made
// anew with the next request. It returns when ctx ends, after the calls in flight have
// had two seconds, with nil; or with what kept the peer from being reached at first,
// or the listener from being served.
func ServeHTTP(ctx context.Context, o HTTPOptions) error {
	links := &lasting[*mcpfront.Link]{
		dial: o.Connect, patience: cmp.Or(o.Patience, defaultPatience),
		open: func(ctx context.Context, c *Client) (*mcpfront.Link, error) {
			return &mcpfront.Link{Session: c.Session, MCP: c.MCP()}, c.CheckTarget(ctx, o.Target)
		},
	}
	defer links.close()
	if _, err := links.get(ctx); err != nil {
		return errors.Join(err, o.Listener.Close())
	}
	front := mcpfront.New(mcpfront.Options{
		Connect: func(ctx context.Context, _ string) (*mcpfront.Link, error) {
			link, err := links.get(ctx)
			return link, unreached(err)
		},
		Caller: gate.Caller, Single: true, Target: o.Target,
	})
	return local(ctx, o.Listener, front, o.Ready, front.Close)
}

// unreached says of an error that kept a connection from being made that nothing was
// done, unless the peer itself has said what is wrong.
func unreached(err error) error {
	if err == nil || errors.As(err, new(*profiles.Error)) {
		return err
	}
	return &profiles.Error{
		Code: profiles.Internal, Detail: "mcp_link", Text: "the endpoint can not be reached now", Retryable: true, Cause: err,
	}
}

// defaultPatience is how long a peer may take for a sign of life.
const defaultPatience = 10 * time.Second
