package client

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/policyhint"
)

func TestDumpShowsPolicyHints(t *testing.T) {
	constraints := []policyhint.Constraint{
		{Key: []byte("region"), Value: []byte("eu"), Mode: []byte("MUST"), Scope: []byte("rpc:01")},
		{Key: []byte("k"), Value: []byte("v"), Mode: []byte("may")},
	}
	for _, test := range []struct {
		msgType uint64
		payload []byte
		want    any
	}{
		{policyhint.TypeSet, (&policyhint.Set{Constraints: constraints}).Append(nil), map[string]any{"constraints": []any{
			map[string]any{"key": "region", "value": "eu", "mode": "MUST", "scope_ref": "rpc:01"}, map[string]any{"key": "k", "value": "v", "mode": "may"},
		}}},
		{policyhint.TypeAck, (&policyhint.Ack{AckID: []byte{0xff}}).Append(nil), map[string]any{"ack_id": "hex:ff"}},
		{policyhint.TypeViolation, (&policyhint.Violation{Key: []byte("k"), Scope: []byte("s"), Reason: []byte("r")}).Append(nil),
			map[string]any{"key": "k", "scope_ref": "s", "reason_code": "r"}},
		{policyhint.TypeErr, (&policyhint.Err{Code: []byte("c"), Message: []byte("m")}).Append(nil), map[string]any{"code": "c", "message": "m"}},
		{policyhint.TypeViolation, []byte("\x1a\x00"), nil},
		{99, []byte("\x1a\x00"), nil},
	} {
		got := decodePayload(&e1.Envelope{ProfileID: policyhint.ProfileID, MsgType: test.msgType, Payload: test.payload})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("type %d:\n%s", test.msgType, diff)
		}
	}
}
