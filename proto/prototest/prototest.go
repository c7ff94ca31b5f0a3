// Package prototest compares the messages of the profiles with an independent decoder of
// the schemas: the Go runtime of Protocol Buffers.
package prototest

import (
	"bytes"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	googleproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/slimwire/swp/proto"
)

var compile = sync.OnceValues(proto.Compile)

// Payload returns the schema of the payloads of a profile.
func Payload(t testing.TB, profile string) protoreflect.MessageDescriptor {
	t.Helper()
	files, err := compile()
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.AsResolver().FindDescriptorByName(protoreflect.FullName("swp." + profile + ".Payload"))
	if err != nil {
		t.Fatal(err)
	}
	return d.(protoreflect.MessageDescriptor)
}

// Octets returns a payload that is given in the text format, such as
// `cancel {rpc_id: "\377"}`.
func Octets(t testing.TB, profile, text string) []byte {
	t.Helper()
	m := dynamicpb.NewMessage(Payload(t, profile))
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	octets, err := googleproto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return octets
}

// Message is what all messages have.
type Message interface {
	Decode([]byte) error
	Append([]byte) []byte
	Size() int
}

// Agree wants the same octets of a profile and of its schema, the same message
// back from them, and every prefix of them refused. The messages have for keys
// what they are in the text format of the schema, and there is at least one for
// each member of Payload.
func Agree(t *testing.T, profile string, messages map[string]Message) {
	seen := make(map[byte]bool)
	for text, ours := range messages {
		want := Octets(t, profile, text)
		seen[want[0]>>3] = true
		if got := ours.Append(nil); !bytes.Equal(got, want) || ours.Size() != len(want) {
			t.Errorf("%s: %x of size %d, want %x", text, got, ours.Size(), want)
		}
		if err := ours.Decode(want); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if again := ours.Append(nil); !bytes.Equal(again, want) {
			t.Errorf("%s: decoded and appended: %x, want %x", text, again, want)
		}
		for n := range want {
			if ours.Decode(want[:n]) == nil {
				t.Errorf("%s: prefix of %d octets accepted", text, n)
			}
		}
	}
	if members := Payload(t, profile).Fields().Len(); len(seen) != members {
		t.Errorf("messages for %d of %d members of Payload", len(seen), members)
	}
}
