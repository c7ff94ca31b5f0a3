package sdl

import (
	"bytes"
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Call sends an envelope of type req and returns the one that answers it, which is
// the caller's own. Whether it is a good one, and in the form that was sent, is the
// caller's to find out. The error is an *profiles.Error if either side refused the
// message without an envelope of the language, that of ctx, or what ended the
// session.
func Call(ctx context.Context, on profiles.Caller, body []byte) ([]byte, error) {
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

// Tell sends an envelope of type evt. It returns when it is queued for writing; the
// RPC swp.sync on the same lane confirms that it was taken.
func Tell(ctx context.Context, on profiles.Sender, body []byte) error {
	return on.Send(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypeEvt, Payload: body})
}
