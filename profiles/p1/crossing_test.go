package p1_test

import (
	"slices"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/p1"
)

// What is not a name keeps its octets: fields that nobody knows, defaults that are
// written out, lengths that are longer than need be.
func TestNamesAreChangedAndNothingElse(t *testing.T) {
	inner := p1.Message{Name: "Inner", Fields: []p1.Field{{Num: 2, Name: "id", Kind: p1.KindText}, {Num: 3, Name: "body", Kind: p1.KindOctets}}}
	ok := func([]byte) error { return nil }
	names := p1.Names{Field: "id", Messages: []p1.Message{
		{Type: 1, Name: "One", Decode: ok, Fields: []p1.Field{{Num: 1, Name: "id", Kind: p1.KindText}, {Num: 4, Name: "n", Kind: p1.KindUint64}}},
		{Type: 2, Name: "Many", Decode: ok, Fields: []p1.Field{{Num: 1, Name: "list", Kind: p1.KindMessage, Repeated: true, Message: &inner}}},
		{Type: 3, Name: "None", Decode: ok, Fields: []p1.Field{{Num: 1, Name: "other", Kind: p1.KindText}}},
		{Type: 6, Name: "Far", Decode: ok, Fields: []p1.Field{{Num: 1, Name: "id", Kind: p1.KindText}}},
	}}
	for _, test := range []struct {
		name          string
		msgType       uint64
		payload, want string
		names         []string
	}{
		{"one", 1, "\x0a\x03\x0a\x01a", "\x0a\x05\x0a\x03b/a", []string{"a"}},
		{"between others", 1, "\x0a\x0c\x20\x00\x0a\x01a\x7a\x03xyz\x20\x05", "\x0a\x0e\x20\x00\x0a\x03b/a\x7a\x03xyz\x20\x05", []string{"a"}},
		{"an overlong length of another field", 1, "\x0a\x08\x0a\x01a\x7a\x81\x80\x00x", "\x0a\x0a\x0a\x03b/a\x7a\x81\x80\x00x", []string{"a"}},
		{"twice", 1, "\x0a\x06\x0a\x01a\x0a\x01c", "\x0a\x0a\x0a\x03b/a\x0a\x03b/c", []string{"a", "c"}},
		{"none", 1, "\x0a\x00", "\x0a\x00", nil},
		{"in a list", 2, "\x12\x12\x0a\x06\x12\x01a\x1a\x01x\x0a\x03\x12\x01c\x0a\x03\x1a\x01y", "\x12\x16\x0a\x08\x12\x03b/a\x1a\x01x\x0a\x05\x12\x03b/c\x0a\x03\x1a\x01y", []string{"a", "c"}},
		{"a message without a name", 3, "\x1a\x03\x0a\x01a", "\x1a\x03\x0a\x01a", nil},
		{"behind numbers that nobody has", 6, "\x32\x03\x0a\x01a\x3a\x00", "\x32\x05\x0a\x03b/a", []string{"a"}},
		{"a message of no schema", 9, "\x0a\x01", "\x0a\x01", nil},
	} {
		env := &e1.Envelope{MsgType: test.msgType, Payload: []byte(test.payload)}
		list, err := names.Read(env)
		if err != nil || !slices.Equal(list, test.names) {
			t.Errorf("%s: names %q, %v; want %q", test.name, list, err, test.names)
		}
		got, err := names.Rename(env, func(name []byte) []byte { return append([]byte("b/"), name...) })
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %x, %v; want %x", test.name, got, err, test.want)
		}
	}
	for name, payload := range map[string]string{"torn": "\x0a\x03\x0a\x05a", "a name of another wire type": "\x0a\x02\x08\x01"} {
		if got, err := names.Rename(&e1.Envelope{MsgType: 1, Payload: []byte(payload)}, func(name []byte) []byte { return name }); err == nil {
			t.Errorf("%s: %x", name, got)
		}
	}
}
