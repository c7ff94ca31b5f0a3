package client

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/slimwire/swp/profiles/rpc"
)

// RPC is a call of a method.
type RPC struct {
	Method string
	Params []byte
	Key    string // idempotency_key, or empty

	// Silence is the maximum time without an answer of the method; stream items restart it.
	// Then the caller gives up, as if ctx had ended. Zero means no limit.
	Silence time.Duration

	// Deadline is the time limit that the peer enforces. Zero means none.
	Deadline time.Duration

	// Item is called with each stream item, which is valid until it returns. If it returns
	// an error, the call ends. Nil drops the items.
	Item func(octets []byte) error
}

// RPCOutcome says how a call ended.
type RPCOutcome struct {
	RPCID  []byte
	Result []byte
	Err    *rpc.Error // nil: Result
	By     Author     // the endpoint that refused the call, if one did
}

// parting is how long a cancelled call has to end.
const parting = 2 * time.Second

// CallRPC makes a call. If there is an error, the outcome has only the rpc_id, which is
// empty if nothing was sent. If ctx ends, the call is cancelled, and the method has a
// moment to answer. A call with a Key is not cancelled: its outcome is stored, and the
// stored outcome of a cancelled call would be the cancellation.
func (c *Client) CallRPC(ctx context.Context, call RPC) (*RPCOutcome, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	renew := func() {}
	if call.Silence > 0 {
		silent := time.AfterFunc(call.Silence, func() {
			stop(&SilentError{call.Silence})
		})
		defer silent.Stop()
		renew = func() { silent.Reset(call.Silence) }
	}
	in := rpc.Invocation{Method: call.Method, Params: call.Params, IdempotencyKey: call.Key, Deadline: call.Deadline}
	stream, err := in.Open(ctx, c.Session)
	if err != nil {
		return &RPCOutcome{}, c.unless(ctx, err, call.Method)
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
			out.By = c.author(out.Err.Endpoint, call.Method)
			return out, nil
		}
		if ctx.Err() != nil && call.Key == "" {
			part(stream)
		}
		return out, c.unless(ctx, err, call.Method)
	}
}

// unless returns the reason for the end of the context, if it has ended, else err, of a
// request about a name.
func (c *Client) unless(ctx context.Context, err error, about string) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil, errors.Is(cause, context.DeadlineExceeded):
		return c.ExplainAbout(err, about)
	case errors.As(cause, new(*SilentError)):
		return c.unanswered(cause, about)
	}
	return cause
}

// unanswered explains a *SilentError if a partner may be the reason, and else returns it as
// it is.
func (c *Client) unanswered(err error, about string) error {
	if explained, ok := errors.AsType[*Explained](c.ExplainAbout(err, about)); ok && explained.advice == silentPartner {
		return explained
	}
	return err
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
