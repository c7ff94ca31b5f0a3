package sdl

import (
	"bytes"
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Call sends an envelope of type req and returns the answering envelope, which the caller
// owns. The caller must validate it and check its form. The error is an *profiles.Error if
// either side refused the message without an SDL envelope, that of ctx, or the reason why
// the session ended.
func Call(ctx context.Context, on profiles.Caller, body []byte) ([]byte, error) {
	var own []byte
	err := profiles.Ask(ctx, on, e1.Envelope{ProfileID: ProfileID, MsgType: TypeReq, Payload: body}, func(answer *e1.Envelope) error {
		own = bytes.Clone(answer.Payload)
		return nil
	})
	return own, err
}

// Tell sends an envelope of type evt. It returns when the envelope is queued for writing;
// the RPC swp.sync on the same lane confirms its acceptance.
func Tell(ctx context.Context, on profiles.Sender, body []byte) error {
	return on.Send(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypeEvt, Payload: body})
}
