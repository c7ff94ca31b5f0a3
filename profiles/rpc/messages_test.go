package rpc_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/proto/rpcpb"
)

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	id, a, b, c := []byte{0, 0xff}, []byte("é"), []byte{0xfe}, []byte("key")
	for _, test := range []struct {
		name string
		ours interface {
			Decode([]byte) error
			Append([]byte) []byte
			Size() int
		}
		schema *rpcpb.Payload
	}{
		{name: "req", ours: &rpc.Req{RPCID: id, Method: a, Params: b, IdempotencyKey: c},
			schema: &rpcpb.Payload{Body: &rpcpb.Payload_Req{Req: &rpcpb.RpcReq{RpcId: id, Method: "é", Params: b, IdempotencyKey: "key"}}}},
		{name: "resp", ours: &rpc.Resp{RPCID: id, Result: b},
			schema: &rpcpb.Payload{Body: &rpcpb.Payload_Resp{Resp: &rpcpb.RpcResp{RpcId: id, Result: b}}}},
		{name: "err", ours: &rpc.Err{RPCID: id, ErrorCode: a, Retryable: true, ErrorMessage: c},
			schema: &rpcpb.Payload{Body: &rpcpb.Payload_Err{Err: &rpcpb.RpcErr{RpcId: id, ErrorCode: "é", Retryable: true, ErrorMessage: "key"}}}},
		{name: "item", ours: &rpc.StreamItem{RPCID: id, SeqNo: 1 << 40, Item: b, IsTerminal: true},
			schema: &rpcpb.Payload{Body: &rpcpb.Payload_StreamItem{StreamItem: &rpcpb.RpcStreamItem{RpcId: id, SeqNo: 1 << 40, Item: b, IsTerminal: true}}}},
		{name: "cancel", ours: &rpc.Cancel{RPCID: id, Reason: a},
			schema: &rpcpb.Payload{Body: &rpcpb.Payload_Cancel{Cancel: &rpcpb.RpcCancel{RpcId: id, Reason: "é"}}}},
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

func TestRetryableIsAlwaysWritten(t *testing.T) {
	m := rpc.Err{RPCID: []byte("i"), ErrorCode: []byte("c"), ErrorMessage: []byte("m")}
	if got := string(m.Append(nil)); got != "\x1a\x0b\x0a\x01i\x12\x01c\x18\x00\x22\x01m" {
		t.Errorf("octets %q, want field 3 among them", got)
	}
}
