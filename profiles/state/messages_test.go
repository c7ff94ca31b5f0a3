package state_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/proto/statepb"
)

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	id, blob, meta := []byte{0, 0xff}, []byte("\xfeblob"), []byte{0}
	parents := [][]byte{[]byte("p"), {}, {0xff}}
	for _, test := range []struct {
		name string
		ours interface {
			Decode([]byte) error
			Append([]byte) []byte
			Size() int
		}
		schema *statepb.Payload
	}{
		{name: "put", ours: &state.Put{StateID: id, Blob: blob, ParentIDs: parents, Metadata: meta},
			schema: &statepb.Payload{Body: &statepb.Payload_Put{Put: &statepb.StatePut{StateId: id, Blob: blob, ParentIds: parents, Metadata: meta}}}},
		{name: "root", ours: &state.Put{StateID: id, Blob: blob},
			schema: &statepb.Payload{Body: &statepb.Payload_Put{Put: &statepb.StatePut{StateId: id, Blob: blob}}}},
		{name: "get", ours: &state.Get{StateID: id},
			schema: &statepb.Payload{Body: &statepb.Payload_Get{Get: &statepb.StateGet{StateId: id}}}},
		{name: "delta", ours: &state.Delta{StateID: id, Delta: blob, ParentIDs: parents},
			schema: &statepb.Payload{Body: &statepb.Payload_Delta{Delta: &statepb.StateDelta{StateId: id, Delta: blob, ParentIds: parents}}}},
		{name: "err", ours: &state.Err{Code: []byte("é"), Message: []byte("m")},
			schema: &statepb.Payload{Body: &statepb.Payload_Err{Err: &statepb.StateErr{Code: "é", Message: "m"}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want, err := proto.MarshalOptions{Deterministic: true}.Marshal(test.schema)
			if err != nil {
				t.Fatal(err)
			}
			got := test.ours.Append(nil)
			if !bytes.Equal(got, want) || test.ours.Size() != len(want) {
				t.Errorf("%x of size %d, want %x", got, test.ours.Size(), want)
			}
			if err := test.ours.Decode(want); err != nil {
				t.Fatal(err)
			}
			if again := test.ours.Append(nil); !bytes.Equal(again, want) {
				t.Errorf("decoded and appended: %x, want %x", again, want)
			}
			for n := range want {
				if test.ours.Decode(want[:n]) == nil {
					t.Errorf("prefix of %d octets accepted", n)
				}
			}
		})
	}
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
