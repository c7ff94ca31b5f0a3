package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slimwire/swp/profiles/rpc"
)

// RPC is a call of a method.
type RPC struct {
	Method string
	Params []byte
	Key    string // idempotency_key, or empty

	// Silence is how long the method may go without an answer before the caller
	// gives up, as if ctx had ended; items renew it. Zero means for ever.
	Silence time.Duration

	// Deadline is when the other end ends the call. Zero means never.
	Deadline time.Duration

	// Item gets stream items as they come, valid until it returns. Its error
	// ends the call. Nil drops them.
	Item func(octets []byte) error
}

// RPCOutcome is how a call ended.
type RPCOutcome struct {
	RPCID  []byte
	Result []byte
	Err    *rpc.Error // nil: Result
	By     Author     // the endpoint that refused the call, if one did
}

// parting is how long a call that is cancelled has to end.
const parting = 2 * time.Second

// CallRPC makes a call. An error says why there is no outcome; the outcome then
// has the rpc_id alone, which is empty if nothing was sent. If ctx ends the call
// is cancelled, and the method has a moment to answer. A call with a Key goes on
// instead: its outcome is kept, and that of a cancelled call would be the
// cancellation.
func (c *Client) CallRPC(ctx context.Context, call RPC) (*RPCOutcome, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	renew := func() {}
	if call.Silence > 0 {
		silent := time.AfterFunc(call.Silence, func() {
			stop(fmt.Errorf("no answer for %v; allow more with --timeout", call.Silence))
		})
		defer silent.Stop()
		renew = func() { silent.Reset(call.Silence) }
	}
	in := rpc.Invocation{Method: call.Method, Params: call.Params, IdempotencyKey: call.Key, Deadline: call.Deadline}
	stream, err := in.Open(ctx, c.Session)
	if err != nil {
		return &RPCOutcome{}, c.unless(ctx, err)
	}
	if call.Key == "" {
		defer stream.Close()
	} else {
		defer stream.Abandon()
	}
	out := &RPCOutcome{RPCID: stream.RPCID()}
	for {
		item, err := stream.Recv(ctx)
		if err == nil {
			renew()
			if call.Item != nil {
				err = call.Item(item)
			}
			if err == nil {
				continue
			}
			stop(err)
		}
		switch {
		case err == io.EOF:
			out.Result = stream.Result()
			return out, nil
		case errors.As(err, &out.Err):
			out.By = authorOf(c.Session.Peer().Identity, out.Err.Endpoint, call.Method)
			return out, nil
		}
		if ctx.Err() != nil && call.Key == "" {
			part(stream)
		}
		return out, c.unless(ctx, err)
	}
}

// unless prefers the reason why the context has ended.
func (c *Client) unless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.Explain(err)
}

// part cancels a call and waits a moment for its end.
func part(stream *rpc.Stream) {
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	err := stream.Cancel(ctx)
	for err == nil {
		_, err = stream.Recv(ctx)
	}
}
