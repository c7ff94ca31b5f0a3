package client

import (
	"context"
	"encoding/hex"
	"errors"
	"io"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
)

// syncLane returns when all that was sent on a lane before is dealt with.
func syncLane(ctx context.Context, lane profiles.Lane) error {
	_, err := rpc.Call(ctx, lane, rpc.MethodSync, nil)
	return err
}

// PutStates puts states, parents before their children, and returns when they are
// stored: how many of them, if there is an error. They may be put again.
func (c *Client) PutStates(ctx context.Context, states ...state.State) (confirmed int, err error) {
	lane, err := c.Open(ctx)
	if err != nil {
		return 0, c.Explain(err)
	}
	defer func() { _ = lane.Close() }()
	confirmed, err = state.PutAll(ctx, lane, syncLane, states...)
	return confirmed, c.Explain(err)
}

// AddStateDelta adds a delta to a state and returns when it is stored.
func (c *Client) AddStateDelta(ctx context.Context, base state.ID, delta []byte, parents ...state.ID) error {
	lane, err := c.Open(ctx)
	if err != nil {
		return c.Explain(err)
	}
	defer func() { _ = lane.Close() }()
	return c.Explain(state.AddDelta(ctx, lane, syncLane, base, delta, parents...))
}

// GetState gets a state, whose digest is verified.
func (c *Client) GetState(ctx context.Context, id state.ID) (*state.State, error) {
	s, err := state.Fetch(ctx, c.Session, id)
	return s, c.Explain(err)
}

// StateLog gets a state and its ancestors, see state.Log.
func (c *Client) StateLog(ctx context.Context, id state.ID, most int, yield func(state.Logged) bool) (more bool, err error) {
	more, err = state.Log(ctx, c.Session, id, most, yield)
	return more, c.Explain(err)
}

// StateDeltas calls yield with the deltas of a state, in order, until it returns
// false.
func (c *Client) StateDeltas(ctx context.Context, base state.ID, yield func(*state.Change) bool) error {
	stream, err := rpc.Open(ctx, c.Session, state.MethodDeltas, base[:])
	if err != nil {
		return c.Explain(err)
	}
	defer stream.Close()
	for {
		item, err := stream.Recv(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var change *state.Change
		if err == nil {
			change, err = state.ReadChange(item, base)
		}
		if err != nil {
			return c.Explain(err)
		}
		if !yield(change) {
			return nil
		}
	}
}

// ForgetState has a state of this identity forgotten, with its deltas.
func (c *Client) ForgetState(ctx context.Context, id state.ID) error {
	_, err := rpc.Call(ctx, c.Session, state.MethodForget, id[:])
	return c.Explain(err)
}

// decodeState returns a message of STATE by the names of its schema.
func decodeState(env *e1.Envelope) (map[string]any, error) {
	fields := make(map[string]any)
	parents := func(ids [][]byte) {
		list := make([]string, len(ids))
		for i, id := range ids {
			list[i] = hex.EncodeToString(id)
		}
		if len(list) > 0 {
			fields["parent_ids"] = list
		}
	}
	switch env.MsgType {
	case state.TypePut:
		var m state.Put
		err := m.Decode(env.Payload)
		fields["state_id"], fields["blob"] = hex.EncodeToString(m.StateID), octets(m.Blob)
		if len(m.Metadata) > 0 {
			fields["metadata"] = octets(m.Metadata)
		}
		parents(m.ParentIDs)
		return fields, err
	case state.TypeGet:
		var m state.Get
		err := m.Decode(env.Payload)
		fields["state_id"] = hex.EncodeToString(m.StateID)
		return fields, err
	case state.TypeDelta:
		var m state.Delta
		err := m.Decode(env.Payload)
		fields["state_id"], fields["delta"] = hex.EncodeToString(m.StateID), octets(m.Delta)
		parents(m.ParentIDs)
		return fields, err
	case state.TypeErr:
		var m state.Err
		err := m.Decode(env.Payload)
		fields["code"], fields["message"] = string(m.Code), string(m.Message)
		return fields, err
	}
	return nil, nil
}
