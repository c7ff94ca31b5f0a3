package all_test

import (
	"bytes"
	"testing"

	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/rpc"
)

// BenchmarkCodec decodes and appends the messages that are many.
func BenchmarkCodec(b *testing.B) {
	id, name, data := []byte("0123456789abcdef"), []byte("org.example.method"), bytes.Repeat([]byte("x"), 256)
	event := events.Record{EventID: id, EventType: name, Severity: []byte("info"), Timestamp: 1790000000000, TaskID: id, Body: data}
	for _, m := range []struct {
		name    string
		message interface {
			Decode([]byte) error
			Append([]byte) []byte
			Size() int
		}
	}{
		{"rpc.Req", &rpc.Req{RPCID: id, Method: name, Params: data}},
		{"rpc.Resp", &rpc.Resp{RPCID: id, Result: data}},
		{"rpc.Err", &rpc.Err{RPCID: id, ErrorCode: name, ErrorMessage: data}},
		{"rpc.StreamItem", &rpc.StreamItem{RPCID: id, SeqNo: 70000, Item: data}},
		{"events.Publish", &events.Publish{Event: event}},
		{"events.Batch", &events.Batch{Events: []events.Record{event, event, event, event, event, event, event, event}}},
		{"a2a.Task", &a2a.TaskBody{TaskID: id, Kind: name, Input: data}},
		{"a2a.Event", &a2a.EventBody{TaskID: id, Message: name, Payload: data}},
		{"a2a.Result", &a2a.ResultBody{TaskID: id, OK: true, Output: data}},
		{"artifact.Chunk", &artifact.Chunk{ArtifactID: name, ChunkIndex: 300, Offset: 300 << 16, Data: data, ResumeToken: id}},
		{"artifact.Ack", &artifact.Ack{ArtifactID: name, ChunkIndex: 300}},
	} {
		payload := m.message.Append(nil)
		b.Run("decode/"+m.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := m.message.Decode(payload); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("append/"+m.name, func(b *testing.B) {
			buf := make([]byte, 0, m.message.Size())
			b.ReportAllocs()
			for b.Loop() {
				buf = m.message.Append(buf[:0])
			}
		})
	}
}
