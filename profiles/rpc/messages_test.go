package rpc_test

import (
	"testing"

	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/proto/prototest"
)

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	id, a, b, c := []byte{0, 0xff}, []byte("é"), []byte{0xfe}, []byte("key")
	prototest.Agree(t, "rpc", map[string]prototest.Message{
		`req {rpc_id: "\000\377" method: "é" params: "\376" idempotency_key: "key"}`:            &rpc.Req{RPCID: id, Method: a, Params: b, IdempotencyKey: c},
		`resp {rpc_id: "\000\377" result: "\376"}`:                                              &rpc.Resp{RPCID: id, Result: b},
		`resp {rpc_id: "\000\377"}`:                                                             &rpc.Resp{RPCID: id},
		`err {rpc_id: "\000\377" error_code: "é" retryable: true error_message: "key"}`:         &rpc.Err{RPCID: id, ErrorCode: a, Retryable: true, ErrorMessage: c},
		`stream_item {rpc_id: "\000\377" seq_no: 1099511627776 item: "\376" is_terminal: true}`: &rpc.StreamItem{RPCID: id, SeqNo: 1 << 40, Item: b, IsTerminal: true},
		`cancel {rpc_id: "\000\377" reason: "é"}`:                                               &rpc.Cancel{RPCID: id, Reason: a},
	})
}

func TestRetryableIsAlwaysWritten(t *testing.T) {
	m := rpc.Err{RPCID: []byte("i"), ErrorCode: []byte("c"), ErrorMessage: []byte("m")}
	if got := string(m.Append(nil)); got != "\x1a\x0b\x0a\x01i\x12\x01c\x18\x00\x22\x01m" {
		t.Errorf("octets %q, want field 3 among them", got)
	}
}
