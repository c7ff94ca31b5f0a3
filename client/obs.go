package client

import (
	"context"
	"encoding/hex"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/obs"
)

// SetTrace binds a trace context to the exchanges that ids name, or without ids
// to this connection. It returns once the peer has read it: whatever is sent
// afterwards, on whichever stream, joins the trace.
func (c *Client) SetTrace(ctx context.Context, t profiles.Trace, ids obs.IDs) error {
	if err := obs.Check(t); err != nil {
		return err
	}
	lane, err := c.Open(ctx)
	if err != nil {
		return c.Explain(err)
	}
	defer func() { _ = lane.Close() }()
	return c.Explain(obs.Bind(ctx, lane, t, ids))
}

// LastTrace returns the last trace context that the peer has read on this
// connection, zero if there was none.
func (c *Client) LastTrace(ctx context.Context) (profiles.Trace, obs.IDs, error) {
	last, ids, err := obs.Last(ctx, c.Session)
	return last, ids, c.Explain(err)
}

// decodeOBS returns a message of OBS by the names of its schema.
func decodeOBS(env *e1.Envelope) (map[string]any, error) {
	all := make(map[string]any)
	fields := func(m *obs.Fields) {
		for name, v := range map[string][]byte{"traceparent": m.Traceparent, "tracestate": m.Tracestate} {
			if len(v) > 0 {
				all[name] = string(v)
			}
		}
		for name, v := range map[string][]byte{"msg_id": m.MsgID, "task_id": m.TaskID, "rpc_id": m.RPCID} {
			if len(v) > 0 {
				all[name] = hex.EncodeToString(v)
			}
		}
	}
	switch env.MsgType {
	case obs.TypeSet:
		var m obs.Set
		err := m.Decode(env.Payload)
		fields(&m.Fields)
		return all, err
	case obs.TypeGet:
		var m obs.Get
		err := m.Decode(env.Payload)
		all["include_current"] = m.IncludeCurrent
		return all, err
	case obs.TypeDoc:
		var m obs.Doc
		err := m.Decode(env.Payload)
		fields(&m.Fields)
		return all, err
	case obs.TypeErr:
		var m obs.Err
		err := m.Decode(env.Payload)
		all["code"], all["message"] = string(m.Code), string(m.Message)
		return all, err
	}
	return nil, nil
}
