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
	var own []byte
	err := profiles.Ask(ctx, on, e1.Envelope{ProfileID: ProfileID, MsgType: TypeReq, Payload: body}, func(answer *e1.Envelope) error {
		own = bytes.Clone(answer.Payload)
		return nil
	})
	return own, err
}

// Tell sends an envelope of type evt. It returns when it is queued for writing; the
// RPC swp.sync on the same lane confirms that it was taken.
func Tell(ctx context.Context, on profiles.Sender, body []byte) error {
	return on.Send(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypeEvt, Payload: body})
}
