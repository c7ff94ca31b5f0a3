package state

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// State is a blob with its parents.
type State struct {
	ID       ID // of Blob; not needed for putting
	Blob     []byte
	Parents  []ID
	Metadata []byte
}

// maxUnconfirmed is how many messages are sent before a confirmation is requested.
const maxUnconfirmed = 256

// PutAll puts states on a lane, parents before their children, and returns when the peer
// has stored them. confirmed is how many of them, counted from the first, are certainly
// stored. The error is a *profiles.PeerError if the peer refused one, an *profiles.Error if
// either side refused a message, or that of ctx. After any error all may be put again.
func PutAll(ctx context.Context, lane profiles.Lane, sync profiles.Sync, states ...State) (confirmed int, err error) {
	for len(states) > 0 {
		next := states[:min(len(states), maxUnconfirmed)]
		n, err := putSome(ctx, lane, sync, next)
		confirmed += n
		if err != nil {
			return confirmed, err
		}
		states = states[len(next):]
	}
	return confirmed, nil
}

func putSome(ctx context.Context, lane profiles.Lane, sync profiles.Sync, states []State) (int, error) {
	b := &batch{lane: lane}
	defer b.close()
	var payload []byte
	for i := range states {
		id := IDOf(states[i].Blob)
		m := Put{StateID: id[:], Blob: states[i].Blob, ParentIDs: octets(states[i].Parents), Metadata: states[i].Metadata}
		payload = m.Append(payload[:0])
		if err := b.send(ctx, TypePut, payload); err != nil {
			return 0, err
		}
	}
	return profiles.Confirm(ctx, lane, sync, b.open, refusals.Read)
}

// AddDelta adds a delta to a state and returns when the peer has stored it. The
// errors are those of PutAll; the same delta may be added again.
func AddDelta(ctx context.Context, lane profiles.Lane, sync profiles.Sync, base ID, delta []byte, parents ...ID) error {
	b := &batch{lane: lane}
	defer b.close()
	m := Delta{StateID: base[:], Delta: delta, ParentIDs: octets(parents)}
	if err := b.send(ctx, TypeDelta, m.Append(make([]byte, 0, m.Size()))); err != nil {
		return err
	}
	_, err := profiles.Confirm(ctx, lane, sync, b.open, refusals.Read)
	return err
}

func octets(ids []ID) [][]byte {
	list := make([][]byte, len(ids))
	for i := range ids {
		list[i] = ids[i][:]
	}
	return list
}

// batch has the messages that are sent but not confirmed.
type batch struct {
	lane profiles.Lane
	open []profiles.Call
}

// send sends a message as a call, because a STATE_ERR may be the answer.
func (b *batch) send(ctx context.Context, msgType uint64, payload []byte) error {
	call, err := b.lane.Call(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: msgType, Payload: payload})
	if err != nil {
		return err
	}
	b.open = append(b.open, call)
	return nil
}

func (b *batch) close() {
	for _, call := range b.open {
		call.Close()
	}
}

// Fetch reads a state from a peer, and verifies its digest and that its parents are
// possible. The caller owns the result. The errors are those of PutAll, and a
// *profiles.PeerError of CodeNotFound if there is no such state that the caller may see.
func Fetch(ctx context.Context, on profiles.Caller, id ID) (*State, error) {
	m := Get{StateID: id[:]}
	ask := e1.Envelope{ProfileID: ProfileID, MsgType: TypeGet, Payload: m.Append(make([]byte, 0, m.Size()))}
	var s *State
	err := profiles.Ask(ctx, on, ask, func(answer *e1.Envelope) (err error) {
		s, err = fetched(answer, id)
		return err
	})
	return s, err
}

// fetched reads the answer to a question for a state.
func fetched(answer *e1.Envelope, id ID) (*State, error) {
	if answer.MsgType != TypePut {
		return nil, refusals.Read(answer)
	}
	var m Put
	if err := m.Decode(answer.Payload); err != nil {
		return nil, err
	}
	if string(m.StateID) != string(id[:]) {
		return nil, invalid(CodeHashMismatch, "the answer is another state, %.32x", m.StateID)
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	s := &State{ID: id, Blob: bytes.Clone(m.Blob), Parents: make([]ID, len(m.ParentIDs)), Metadata: bytes.Clone(m.Metadata)}
	for i, octets := range m.ParentIDs {
		copy(s.Parents[i][:], octets)
	}
	return s, nil
}

// Logged is a state in a Log.
type Logged struct {
	ID    ID
	Depth int    // distance from the requested state
	State *State // nil if the peer does not have or does not show it
}

// Log reads a state and its ancestors, each once and nearer ones first, until most states
// were yielded or yield returns false. It holds the ids of at most MaxParents times as
// many. more says that there are others. The error is that of Fetch; missing ancestors are
// no error.
func Log(ctx context.Context, on profiles.Caller, id ID, most int, yield func(Logged) bool) (more bool, err error) {
	met := map[ID]bool{id: true}
	queue := []Logged{{ID: id}}
	for ; len(queue) > 0 && most > 0; most-- {
		next := queue[0]
		queue = queue[1:]
		var missing *profiles.PeerError
		next.State, err = Fetch(ctx, on, next.ID)
		if err != nil && (next.Depth == 0 || !errors.As(err, &missing) || missing.Code != CodeNotFound) {
			return false, err
		}
		if next.State != nil {
			for _, parent := range next.State.Parents {
				if !met[parent] {
					met[parent] = true
					queue = append(queue, Logged{ID: parent, Depth: next.Depth + 1})
				}
			}
		}
		if !yield(next) {
			return len(queue) > 0, nil
		}
	}
	return len(queue) > 0, nil
}

// Change is a delta of a peer.
type Change struct {
	Delta   []byte
	Parents []ID
}

// ReadChange reads a stream item of MethodDeltas, a delta of a state. The caller owns the
// result.
func ReadChange(item []byte, base ID) (*Change, error) {
	var m Delta
	if err := m.Decode(item); err != nil {
		return nil, err
	}
	if !slices.Equal(m.StateID, base[:]) {
		return nil, invalid("", "a delta of another state, %.32x", m.StateID)
	}
	c := &Change{Delta: bytes.Clone(m.Delta), Parents: make([]ID, len(m.ParentIDs))}
	for i, octets := range m.ParentIDs {
		if copy(c.Parents[i][:], octets) != IDSize || len(octets) != IDSize {
			return nil, invalid(DetailParents, "parent_ids: %d octets, want %d", len(octets), IDSize)
		}
	}
	return c, nil
}
