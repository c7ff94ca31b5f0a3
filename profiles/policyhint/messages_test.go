package policyhint_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/proto/policyhintpb"
)

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	for _, test := range []struct {
		name string
		ours interface {
			Decode([]byte) error
			Append([]byte) []byte
			Size() int
		}
		schema *policyhintpb.Payload
	}{
		{name: "set",
			ours: &policyhint.Set{Constraints: []policyhint.Constraint{
				{Key: []byte("k"), Value: []byte("é"), Mode: []byte("MUST"), Scope: []byte("rpc:00")},
				{Key: []byte("l"), Value: []byte("w"), Mode: []byte("may")},
			}},
			schema: &policyhintpb.Payload{Body: &policyhintpb.Payload_HintSet{HintSet: &policyhintpb.PolicyHintSet{
				Constraints: []*policyhintpb.Constraint{
					{Key: "k", Value: "é", Mode: "MUST", ScopeRef: "rpc:00"}, {Key: "l", Value: "w", Mode: "may"},
				}}}}},
		{name: "empty set", ours: &policyhint.Set{},
			schema: &policyhintpb.Payload{Body: &policyhintpb.Payload_HintSet{HintSet: &policyhintpb.PolicyHintSet{}}}},
		{name: "ack", ours: &policyhint.Ack{AckID: []byte("0a0b")},
			schema: &policyhintpb.Payload{Body: &policyhintpb.Payload_HintAck{HintAck: &policyhintpb.PolicyHintAck{AckId: "0a0b"}}}},
		{name: "violation", ours: &policyhint.Violation{Key: []byte("k"), Scope: []byte("connection"), Reason: []byte("CONFLICT")},
			schema: &policyhintpb.Payload{Body: &policyhintpb.Payload_Violation{Violation: &policyhintpb.PolicyViolation{
				Key: "k", ScopeRef: "connection", ReasonCode: "CONFLICT"}}}},
		{name: "err", ours: &policyhint.Err{Code: []byte("c"), Message: []byte("m")},
			schema: &policyhintpb.Payload{Body: &policyhintpb.Payload_Err{Err: &policyhintpb.PolicyErr{Code: "c", Message: "m"}}}},
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
	all := policyhint.Constraint{Key: []byte("k"), Value: []byte("v"), Mode: []byte("MAY")}
	for name, change := range map[string]func(*policyhint.Constraint){
		"key":   func(c *policyhint.Constraint) { c.Key = nil },
		"value": func(c *policyhint.Constraint) { c.Value = nil },
		"mode":  func(c *policyhint.Constraint) { c.Mode = nil },
	} {
		c := all
		change(&c)
		m := policyhint.Set{Constraints: []policyhint.Constraint{all, c}}
		if new(policyhint.Set).Decode(m.Append(nil)) == nil {
			t.Errorf("a constraint without %s was accepted", name)
		}
	}
	// policyhint_0004: three fields, none of them empty.
	for name, m := range map[string]policyhint.Violation{
		"key":         {Scope: []byte("s"), Reason: []byte("r")},
		"scope_ref":   {Key: []byte("k"), Reason: []byte("r")},
		"reason_code": {Key: []byte("k"), Scope: []byte("s")},
	} {
		if new(policyhint.Violation).Decode(m.Append(nil)) == nil {
			t.Errorf("a violation without %s was accepted", name)
		}
	}
	if new(policyhint.Ack).Decode([]byte{0x12, 0}) == nil || new(policyhint.Err).Decode([]byte{0x22, 0}) == nil {
		t.Error("an empty ACK or ERR was accepted")
	}
	if err := new(policyhint.Ack).Decode([]byte{0x12, 3, 0x0a, 1, 0xff}); err != nil {
		t.Errorf("an ack_id that is no UTF-8: %v", err)
	}
}
