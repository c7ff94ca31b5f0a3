package policyhint_test

import (
	"testing"

	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/proto/prototest"
)

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	prototest.Agree(t, "policyhint", map[string]prototest.Message{
		`hint_set {constraints [{key: "k" value: "é" mode: "MUST" scope_ref: "rpc:00"}, {key: "l" value: "w" mode: "may"}]}`: &policyhint.Set{
			Constraints: []policyhint.Constraint{
				{Key: []byte("k"), Value: []byte("é"), Mode: []byte("MUST"), Scope: []byte("rpc:00")},
				{Key: []byte("l"), Value: []byte("w"), Mode: []byte("may")},
			}},
		`hint_set {}`:               &policyhint.Set{},
		`hint_ack {ack_id: "0a0b"}`: &policyhint.Ack{AckID: []byte("0a0b")},
		`violation {key: "k" scope_ref: "connection" reason_code: "CONFLICT"}`: &policyhint.Violation{Key: []byte("k"), Scope: []byte("connection"), Reason: []byte("CONFLICT")},
		`err {code: "c" message: "m"}`:                                         &policyhint.Err{Code: []byte("c"), Message: []byte("m")},
	})
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
