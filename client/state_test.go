package client

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/state"
)

func TestDumpShowsStates(t *testing.T) {
	id, parents := []byte{1, 0xff}, [][]byte{{2}, {3}}
	for _, test := range []struct {
		msgType uint64
		payload []byte
		want    any
	}{
		{state.TypePut, (&state.Put{StateID: id, Blob: []byte("b"), ParentIDs: parents, Metadata: []byte{0xff}}).Append(nil),
			map[string]any{"state_id": "01ff", "blob": "b", "parent_ids": []any{"02", "03"}, "metadata": "hex:ff"}},
		{state.TypePut, (&state.Put{StateID: id, Blob: []byte("b")}).Append(nil), map[string]any{"state_id": "01ff", "blob": "b"}},
		{state.TypeGet, (&state.Get{StateID: id}).Append(nil), map[string]any{"state_id": "01ff"}},
		{state.TypeDelta, (&state.Delta{StateID: id, Delta: []byte{0}, ParentIDs: parents[:1]}).Append(nil),
			map[string]any{"state_id": "01ff", "delta": "hex:00", "parent_ids": []any{"02"}}},
		{state.TypeErr, (&state.Err{Code: []byte("c"), Message: []byte("m")}).Append(nil), map[string]any{"code": "c", "message": "m"}},
		{state.TypeGet, []byte("\x12\x00"), nil},
		{99, []byte("\x12\x00"), nil},
	} {
		got := decodePayload(&e1.Envelope{ProfileID: state.ProfileID, MsgType: test.msgType, Payload: test.payload})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("type %d:\n%s", test.msgType, diff)
		}
	}
}
