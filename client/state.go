package client

import (
	"context"
	"errors"
	"io"

	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
)

// PutStates puts states, parents before their children, and returns when they are stored.
// After an error confirmed is the number of stored states; all may be put again. If the peer
// does not know swp.sync, the states are read back; an error that is a
// *profiles.UnconfirmedError says that this was not possible.
func (c *Client) PutStates(ctx context.Context, states ...state.State) (confirmed int, err error) {
	lane, err := c.Open(ctx)
	if err != nil {
		return 0, c.Explain(err)
	}
	defer func() { _ = lane.Close() }()
	confirmed, err = state.PutAll(ctx, lane, c.sync, states...)
	if err != nil {
		err = c.readBack(ctx, err, states)
		if err == nil {
			confirmed = len(states)
		}
	}
	return confirmed, c.Explain(err)
}

// AddStateDelta adds a delta to a state and returns when it is stored. The error is a
// *profiles.UnconfirmedError if the peer does not know swp.sync.
func (c *Client) AddStateDelta(ctx context.Context, base state.ID, delta []byte, parents ...state.ID) error {
	lane, err := c.Open(ctx)
	if err != nil {
		return c.Explain(err)
	}
	defer func() { _ = lane.Close() }()
	return c.Explain(state.AddDelta(ctx, lane, c.sync, base, delta, parents...))
}

// GetState returns a state after verifying its digest.
func (c *Client) GetState(ctx context.Context, id state.ID) (*state.State, error) {
	s, err := state.Fetch(ctx, c.Session, id)
	return s, c.Explain(err)
}

// StateLog reads a state and its ancestors, see state.Log.
func (c *Client) StateLog(ctx context.Context, id state.ID, most int, yield func(state.Logged) bool) (more bool, err error) {
	more, err = state.Log(ctx, c.Session, id, most, yield)
	return more, c.Explain(err)
}

// StateDeltas calls yield with the deltas of a state, in order, until it returns
// false. lost are those that the peer does not store any more; it is empty if yield has returned false.
func (c *Client) StateDeltas(ctx context.Context, base state.ID, yield func(*state.Change) bool) (lost *state.Lost, err error) {
	stream, err := rpc.Open(ctx, c.Session, state.MethodDeltas, base[:])
	if err != nil {
		return nil, c.Explain(err)
	}
	defer stream.Close()
	for {
		item, err := stream.Recv(ctx)
		if errors.Is(err, io.EOF) {
			lost, err = state.ReadLost(stream.Result())
			return lost, c.Explain(err)
		}
		var change *state.Change
		if err == nil {
			change, err = state.ReadChange(item, base)
		}
		if err != nil {
			return nil, c.Explain(err)
		}
		if !yield(change) {
			return new(state.Lost), nil
		}
	}
}

// ForgetState makes the peer delete a state of this identity, with its deltas, and returns
// whether it was there.
func (c *Client) ForgetState(ctx context.Context, id state.ID) (was bool, err error) {
	var forgotten state.Forgotten
	err = c.callRaw(ctx, c.there(), state.MethodForget, string(id[:]), "", &forgotten)
	return forgotten.State, err
}
