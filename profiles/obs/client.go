package obs

import (
	"bytes"
	"context"
	"errors"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// IDs identify the exchanges of a trace context. Without any id it applies to the
// connection.
type IDs struct {
	MsgID, TaskID, RPCID []byte
}

// Send sends an OBS_SET without waiting until the peer reads it: the exchange must follow
// on the same lane. It fails if Check does.
func Send(ctx context.Context, on profiles.Sender, t profiles.Trace, ids IDs) error {
	if err := Check(t); err != nil {
		return err
	}
	return on.Send(ctx, setEnvelope(t, ids))
}

// Forward implements profiles.Carrier: it sends the trace context of ctx for the msg_id of
// a message, or the id of its lifecycle, unless the peer is not known to serve the profile.
// It does not wait until the peer reads it. A failed trace does not fail the message; the
// next message on the lane gets the error.
func (*Contexts) Forward(ctx context.Context, lane profiles.Lane, m *profiles.Onward) (context.Context, error) {
	t := profiles.TraceOf(ctx)
	ids := IDs{MsgID: m.MsgID}
	if len(m.MsgID) == 0 {
		switch m.Scope {
		case profiles.ScopeTask:
			ids.TaskID = m.ID
		case profiles.ScopeRPC:
			ids.RPCID = m.ID
		}
	}
	if t.Parent != "" && len(ids.MsgID)+len(ids.TaskID)+len(ids.RPCID) > 0 {
		_ = Send(ctx, lane, t, ids)
	}
	return ctx, nil
}

// Bind sends an OBS_SET and returns after the peer has read it, so that it applies to later
// messages on any lane. The error is that of Last, or the refusal of the OBS_SET.
func Bind(ctx context.Context, lane profiles.Lane, t profiles.Trace, ids IDs) error {
	call, err := lane.Call(ctx, setEnvelope(t, ids)) // a call, for the OBS_ERR that may follow
	if err != nil {
		return err
	}
	defer call.Close()
	// Any answer to the next message shows that the peer has read this one.
	if _, _, err := Last(ctx, lane); err != nil && !errors.As(err, new(*profiles.Error)) {
		return err
	}
	// An answer to the OBS_SET has arrived before, so this does not wait.
	over, cancel := context.WithCancel(ctx)
	cancel()
	env, err := call.Recv(over)
	if err == nil {
		_, _, err = answer(env)
	}
	if errors.Is(err, context.Canceled) {
		return ctx.Err()
	}
	return err
}

// Last asks the peer for the last OBS_SET that it has read on this connection, zero if
// there is none. The error is an *profiles.Error if either side refused a message, or that
// of ctx.
func Last(ctx context.Context, on profiles.Caller) (profiles.Trace, IDs, error) {
	ask := e1.Envelope{ProfileID: ProfileID, MsgType: TypeGet, Payload: new(Get).Append(nil)}
	var t profiles.Trace
	var ids IDs
	err := profiles.Ask(ctx, on, ask, func(env *e1.Envelope) (err error) {
		t, ids, err = answer(env)
		return err
	})
	return t, ids, err
}

func setEnvelope(t profiles.Trace, ids IDs) e1.Envelope {
	m := Set{fields(t, ids)}
	return e1.Envelope{ProfileID: ProfileID, MsgType: TypeSet, Payload: m.Append(make([]byte, 0, m.Size()))}
}

func fields(t profiles.Trace, ids IDs) Fields {
	return Fields{Traceparent: []byte(t.Parent), Tracestate: []byte(t.State), MsgID: ids.MsgID, TaskID: ids.TaskID, RPCID: ids.RPCID}
}

// answer reads a DOC or ERR. The caller owns the result.
func answer(env *e1.Envelope) (profiles.Trace, IDs, error) {
	if env.MsgType == TypeErr {
		var m Err
		if err := m.Decode(env.Payload); err != nil {
			return profiles.Trace{}, IDs{}, err
		}
		code, known := profiles.ParseCode(string(m.Code))
		if !known {
			code = profiles.InvalidProfilePayload
		}
		return profiles.Trace{}, IDs{}, &profiles.Error{Code: code, Detail: string(m.Code), Text: string(m.Message)}
	}
	var m Doc
	if err := m.Decode(env.Payload); err != nil {
		return profiles.Trace{}, IDs{}, err
	}
	return profiles.Trace{Parent: string(m.Traceparent), State: string(m.Tracestate)},
		IDs{MsgID: bytes.Clone(m.MsgID), TaskID: bytes.Clone(m.TaskID), RPCID: bytes.Clone(m.RPCID)}, nil
}
