package state_test

import (
	"testing"

	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/proto/prototest"
)

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	id, blob, meta := []byte{0, 0xff}, []byte("\xfeblob"), []byte{0}
	parents := [][]byte{[]byte("p"), {}, {0xff}}
	prototest.Agree(t, "state", map[string]prototest.Message{
		`put {state_id: "\000\377" blob: "\376blob" parent_ids: ["p", "", "\377"] metadata: "\000"}`: &state.Put{StateID: id, Blob: blob, ParentIDs: parents, Metadata: meta},
		`put {state_id: "\000\377" blob: "\376blob"}`:                                                &state.Put{StateID: id, Blob: blob},
		`get {state_id: "\000\377"}`:                                                                 &state.Get{StateID: id},
		`delta {state_id: "\000\377" delta: "\376blob" parent_ids: ["p", "", "\377"]}`:               &state.Delta{StateID: id, Delta: blob, ParentIDs: parents},
		`err {code: "é" message: "m"}`:                                                               &state.Err{Code: []byte("é"), Message: []byte("m")},
	})
}

func TestWhatIsRequiredIsMissed(t *testing.T) {
	for name, payload := range map[string][]byte{
		"put without state_id": (&state.Put{Blob: []byte("b")}).Append(nil),
		"put without blob":     (&state.Put{StateID: []byte("i")}).Append(nil),
		"put of an empty blob": {0x0a, 5, 0x0a, 1, 'i', 0x12, 0},
	} {
		if new(state.Put).Decode(payload) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if new(state.Get).Decode((&state.Get{}).Append(nil)) == nil {
		t.Error("get without state_id: accepted")
	}
	for name, m := range map[string]*state.Delta{
		"delta without state_id": {Delta: []byte("d")}, "delta without delta": {StateID: []byte("i")},
	} {
		if new(state.Delta).Decode(m.Append(nil)) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if new(state.Err).Decode((&state.Err{Message: []byte("m")}).Append(nil)) == nil {
		t.Error("err without code: accepted")
	}
}
