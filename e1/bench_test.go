package e1_test

import (
	"testing"

	"github.com/slimwire/swp/e1"
)

// message is an envelope as most are: a timestamp, a msg_id of 16 octets, no
// extensions, and a payload that makes it 64 octets in all.
func message() *e1.Envelope {
	return &e1.Envelope{
		Version: 1, ProfileID: 12, MsgType: 1, Timestamp: 1_790_000_000_000,
		MsgID: []byte("0123456789abcdef"), Payload: make([]byte, 35),
	}
}

func BenchmarkDecode(b *testing.B) {
	limits := new(e1.Limits).WithDefaults()
	body := message().Append(nil)
	if len(body) != 64 {
		b.Fatalf("%d octets", len(body))
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	var env e1.Envelope
	for b.Loop() {
		if err := env.Decode(body, &limits); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	env := message()
	dst := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		dst = env.Append(dst[:0])
	}
}

func BenchmarkSize(b *testing.B) {
	env := message()
	b.ReportAllocs()
	for b.Loop() {
		if env.Size() != 64 {
			b.Fatal(env.Size())
		}
	}
}

func BenchmarkExtensions(b *testing.B) {
	var block e1.Extensions
	for range 2048 {
		block = e1.AppendExtension(block, 20, nil)
	}
	limits := new(e1.Limits).WithDefaults()
	env := message()
	env.Extensions = block
	body := env.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := env.Decode(body, &limits); err != nil {
			b.Fatal(err)
		}
	}
}
