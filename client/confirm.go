package client

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// sync is rpc.Sync. For a peer without swp.sync, or without profile 12, the error is a
// *profiles.UnconfirmedError.
func (c *Client) sync(ctx context.Context, lane profiles.Lane) error {
	if !c.speaks(ctx) {
		return new(profiles.UnconfirmedError)
	}
	err := rpc.Sync(ctx, lane)
	failed, answered := errors.AsType[*rpc.Error](err)
	switch {
	case answered && failed.Code == rpc.CodeUnknownMethod:
		return &profiles.UnconfirmedError{Reason: err}
	case !answered && endpoint.OverProfile(err) && c.admitted(ctx):
		return &profiles.UnconfirmedError{Lost: true, Reason: err}
	}
	return err
}

// admitted reports whether the peer lets this side in: a new connection without a message
// stays. So the peer has ended another connection over a message.
func (c *Client) admitted(ctx context.Context) bool {
	conn, err := dialAgain(ctx, c)
	if err != nil {
		return false
	}
	defer conn.Close()
	return !conn.gone()
}

// dialAgain makes another connection to the endpoint of c. The caller closes it.
func dialAgain(ctx context.Context, c *Client) (*Client, error) {
	addr, err := transport.ParseAddr(c.address)
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx, addr, c.opts)
	if err != nil {
		return nil, err
	}
	again := &Client{address: c.address, opts: Options{Endpoint: c.opts.Endpoint}}
	if err := again.attach(conn); err != nil {
		return nil, errors.Join(err, conn.Close(0))
	}
	return again, nil
}

// reconnect makes another connection to the endpoint of c, in place of the one that has ended.
func (c *Client) reconnect(ctx context.Context) error {
	addr, err := transport.ParseAddr(c.address)
	if err != nil {
		return err
	}
	conn, err := dial(ctx, addr, c.opts)
	if err != nil {
		return c.Explain(err)
	}
	_ = c.ep.Close()
	set, end := c.opts.Profiles, c.end
	c.opts.Profiles = c.set // goes on
	if err = c.attach(conn); err != nil {
		err = errors.Join(err, conn.Close(0))
	}
	c.opts.Profiles, c.end = set, end
	return err
}

// readBack returns nil if the peer has the states that it has not confirmed, else the error of
// putting them.
func (c *Client) readBack(ctx context.Context, failed error, states []state.State) error {
	unsure, ok := errors.AsType[*profiles.UnconfirmedError](failed)
	if !ok {
		return failed
	}
	on := c.Session
	if unsure.Lost {
		again, err := dialAgain(ctx, c)
		if err != nil {
			return failed
		}
		defer again.Close()
		on = again.Session
	}
	for i := range states {
		there, err := state.Fetch(ctx, on, state.IDOf(states[i].Blob))
		if err != nil || !slices.Equal(there.Parents, states[i].Parents) || !bytes.Equal(there.Metadata, states[i].Metadata) {
			return failed
		}
	}
	return nil
}
