package canonical_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slimwire/swp/sdl/canonical"
)

// envelope is as large and as deep as a common request.
const envelope = `{"cap":{"a2a_sdl":{"comp":[],"enc":["cbor","json"],"kex":["x25519"],"sig":["ed25519"],"v":1},"limits":{"max_array_len":10000,"max_bytes":1048576,"max_depth":64,"max_hops":8},"modalities":["text"],"tools":[]},"ct":"toolcall.v1","from":{"agent_id":"did:key:z6MkExamplePlanner","instance":"pod-1","name":"planner","role":"planner"},"id":"018f7e2a-5b1c-7def-8a90-1234567890ab","payload":{"args":{"limit":20,"query":"open orders of \"Müller & Söhne\"\n","ratio":0.25},"call_id":"call-17","expect":{},"tool":"crm/search"},"schema":{"embedded":{"type":"object"},"id":"sha256:a2c799262a3ce3c19ef5cdd983bf3d12b43ab3c426227091b909dcb7054738c0","kind":"embedded"},"sec":{"kid":"did:key:z6MkExamplePlanner#sig1","mode":"sig","replay":{"exp":"2026-03-01T12:05:00Z","nonce":"b64nonce"},"sig":{"alg":"ed25519","value":"PBpxdrxzTuVXQ25K1_V_6ZcG0i-9ZzjXDmR5RMv6iusPBpxdrxzTuVXQ25K1_V_6ZcG0i-9ZzjXDmR5RMv6"}},"to":{"agent_id":"did:key:z6MkExampleExecutor","instance":"pod-2","name":"executor","role":"executor"},"trace":{"hops":1,"root_id":"r","span_id":"s"},"ts":"2026-03-01T12:00:00Z","type":"req","v":1}`

func BenchmarkParseJSON(b *testing.B) {
	text := []byte(envelope)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canonical.ParseJSON(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseCBOR(b *testing.B) {
	octets := parse(b, envelope).AppendCBOR(nil)
	b.SetBytes(int64(len(octets)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canonical.ParseCBOR(octets); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	v := parse(b, envelope)
	dst := v.AppendJSON(nil)
	b.SetBytes(int64(len(dst)))
	b.ReportAllocs()
	for b.Loop() {
		dst = v.AppendJSON(dst[:0])
	}
}

func BenchmarkAppendCBOR(b *testing.B) {
	v := parse(b, envelope)
	dst := v.AppendCBOR(nil)
	b.SetBytes(int64(len(dst)))
	b.ReportAllocs()
	for b.Loop() {
		dst = v.AppendCBOR(dst[:0])
	}
}

func TestWritingAllocatesNothing(t *testing.T) {
	v := parse(t, envelope)
	dst := make([]byte, 0, 2*v.JSONSize())
	if n := testing.AllocsPerRun(100, func() {
		dst = v.AppendJSON(dst[:0])
		dst = v.AppendCBOR(dst[:0])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkHostile is a mebibyte of what takes the longest to read.
func BenchmarkHostile(b *testing.B) {
	const size = 1 << 20
	var names strings.Builder
	for i := range size / 11 {
		fmt.Fprintf(&names, `"%06x":0,`, (i*7919)&0xffffff) // in no order
	}
	for name, text := range map[string]string{
		"zeros":        "[" + strings.Repeat("0,", size/2) + "0]",
		"empty arrays": "[" + strings.Repeat("[],", size/3) + "[]]",
		"lists of one": "[" + strings.Repeat("[0],", size/4) + "[]]",
		"members":      "{" + names.String() + `"":0}`,
		"objects":      "[" + strings.Repeat(`{"":0},`, size/7) + "0]",
		"escapes":      `"` + strings.Repeat(`\u0001`, size/6) + `"`,
		"integers":     "[" + strings.Repeat(strings.Repeat("9", canonical.MaxDigits)+",", size/canonical.MaxDigits) + "0]",
		"floats":       "[" + strings.Repeat("1.7976931348623157e308,", size/23) + "0]",
		"long floats":  "[" + strings.Repeat("0."+strings.Repeat("3", 1000)+",", size/1003) + "0]",
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			octets := []byte(text)
			for b.Loop() {
				if _, err := canonical.ParseJSON(octets); err != nil && classOf(err) != "value" {
					b.Fatal(err)
				}
			}
		})
	}
}
