package client

import (
	"encoding/hex"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// decodePayload returns the message in a payload by the names of its schema, or
// nil if it is not known here or malformed. Octets are in hex.
func decodePayload(env *e1.Envelope) any {
	decode, known := decoders[env.ProfileID]
	if !known {
		return nil
	}
	fields, err := decode(env)
	if err != nil || fields == nil {
		return nil
	}
	return fields
}

// decoders read the messages of a profile: nil fields for a msg_type that it
// does not have.
var decoders = map[uint64]func(*e1.Envelope) (map[string]any, error){
	artifact.ProfileID:   decodeArtifact,
	a2a.ProfileID:        decodeA2A,
	agdisc.ProfileID:     decodeAGDISC,
	cred.ProfileID:       decodeCred,
	events.ProfileID:     decodeEvents,
	obs.ProfileID:        decodeOBS,
	relay.ProfileID:      decodeRelay,
	rpc.ProfileID:        decodeRPC,
	policyhint.ProfileID: decodePolicyHint,
	tooldisc.ProfileID:   decodeTOOLDISC,
	state.ProfileID:      decodeState,
}

func decodeRPC(env *e1.Envelope) (map[string]any, error) {
	var err error
	fields := make(map[string]any)
	switch env.MsgType {
	case rpc.TypeReq:
		var m rpc.Req
		err = m.Decode(env.Payload)
		fields["rpc_id"], fields["method"], fields["params"] = hex.EncodeToString(m.RPCID), string(m.Method), octets(m.Params)
		if len(m.IdempotencyKey) > 0 {
			fields["idempotency_key"] = string(m.IdempotencyKey)
		}
	case rpc.TypeResp:
		var m rpc.Resp
		err = m.Decode(env.Payload)
		fields["rpc_id"], fields["result"] = hex.EncodeToString(m.RPCID), octets(m.Result)
	case rpc.TypeErr:
		var m rpc.Err
		err = m.Decode(env.Payload)
		fields["rpc_id"], fields["error_code"], fields["retryable"] = hex.EncodeToString(m.RPCID), string(m.ErrorCode), m.Retryable
		fields["error_message"] = string(m.ErrorMessage)
	case rpc.TypeStreamItem:
		var m rpc.StreamItem
		err = m.Decode(env.Payload)
		fields["rpc_id"], fields["seq_no"], fields["item"] = hex.EncodeToString(m.RPCID), m.SeqNo, octets(m.Item)
		fields["is_terminal"] = m.IsTerminal
	case rpc.TypeCancel:
		var m rpc.Cancel
		err = m.Decode(env.Payload)
		fields["rpc_id"], fields["reason"] = hex.EncodeToString(m.RPCID), string(m.Reason)
	default:
		return nil, nil
	}
	return fields, err
}

// octets shows opaque octets: text as it is, anything else as hex:….
func octets(b []byte) string {
	if readable(b) {
		return string(b)
	}
	return "hex:" + hex.EncodeToString(b)
}
