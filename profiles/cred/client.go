package cred

import (
	"context"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Show presents a credential on a lane and returns when the peer has accepted it. The
// peer then keeps the chain that the credential starts; an empty chainID starts none.
// The error is a *profiles.PeerError if the peer refused the credential, a
// *profiles.Error if either side refused the message, or the error of ctx.
func Show(ctx context.Context, lane profiles.Lane, sync profiles.Sync, credType string, credential, chainID []byte) error {
	m := Present{Type: []byte(credType), Credential: credential, ChainID: chainID}
	return send(ctx, lane, sync, TypePresent, m.Append(make([]byte, 0, m.Size())))
}

// Extend adds a delegation to a chain. The errors are those of Show.
func Extend(ctx context.Context, lane profiles.Lane, sync profiles.Sync, chainID, delegation []byte, expires time.Time) error {
	m := Delegate{ChainID: chainID, Delegation: delegation, Expires: uint64(max(expires.UnixMilli(), 0))}
	return send(ctx, lane, sync, TypeDelegate, m.Append(make([]byte, 0, m.Size())))
}

// End revokes a chain. An unknown chain is not an error. The errors are those of
// Show.
func End(ctx context.Context, lane profiles.Lane, sync profiles.Sync, chainID []byte, reason string) error {
	m := Revoke{ChainID: chainID, Reason: []byte(reason)}
	return send(ctx, lane, sync, TypeRevoke, m.Append(make([]byte, 0, m.Size())))
}

// send sends one message.
func send(ctx context.Context, lane profiles.Lane, sync profiles.Sync, msgType uint64, payload []byte) error {
	return sendAll(ctx, lane, sync, e1.Envelope{ProfileID: ProfileID, MsgType: msgType, Payload: payload})
}

// sendAll sends messages as calls, because a CRED_ERR may be the answer.
func sendAll(ctx context.Context, lane profiles.Lane, sync profiles.Sync, messages ...e1.Envelope) error {
	var calls []profiles.Call
	defer func() {
		for _, call := range calls {
			call.Close()
		}
	}()
	for _, env := range messages {
		call, err := lane.Call(ctx, env)
		if err != nil {
			return err
		}
		calls = append(calls, call)
	}
	_, err := profiles.Confirm(ctx, lane, sync, calls, refusals.Read)
	return err
}
