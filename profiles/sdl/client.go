package sdl

import (
	"bytes"
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Caller is where a request is sent: a profiles.Session, or a profiles.Lane.
type Caller interface {
	Call(ctx context.Context, env e1.Envelope) (profiles.Call, error)
}

// Call sends an envelope of type req and returns the one that answers it, which is
// the caller's own. Whether it is a good one, and in the form that was sent, is the
// caller's to find out. The error is an *profiles.Error if either side refused the
// message without an envelope of the language, that of ctx, or what ended the
// session.
func Call(ctx context.Context, on Caller, body []byte) ([]byte, error) {
	call, err := on.Call(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypeReq, Payload: body})
	if err != nil {
		return nil, err
	}
	defer call.Close()
	env, err := call.Recv(ctx)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(env.Payload), nil
}

// Sender is where an event is sent: a profiles.Session, or a profiles.Lane.
type Sender interface {
	Send(ctx context.Context, env e1.Envelope) error
}

// Tell sends an envelope of type evt. It returns when it is queued for writing; the
// RPC swp.sync on the same lane confirms that it was taken.
func Tell(ctx context.Context, on Sender, body []byte) error {
	return on.Send(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypeEvt, Payload: body})
}
