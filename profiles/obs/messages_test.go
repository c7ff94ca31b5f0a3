package obs_test

import (
	"testing"

	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/proto/prototest"
)

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	fields := obs.Fields{Traceparent: []byte("é"), Tracestate: []byte(" a=1,, b=2 "), MsgID: []byte{0, 0xff}, TaskID: []byte{0xfe}, RPCID: []byte("call")}
	const text = `{traceparent: "é" tracestate: " a=1,, b=2 " msg_id: "\000\377" task_id: "\376" rpc_id: "call"}`
	prototest.Agree(t, "obs", map[string]prototest.Message{
		`set ` + text:                  &obs.Set{Fields: fields},
		`get {include_current: true}`:  &obs.Get{IncludeCurrent: true},
		`doc ` + text:                  &obs.Doc{Fields: fields},
		`doc {}`:                       &obs.Doc{},
		`err {code: "é" message: "m"}`: &obs.Err{Code: []byte("é"), Message: []byte("m")},
	})
}
