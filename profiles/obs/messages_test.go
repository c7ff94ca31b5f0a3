package obs_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/proto/obspb"
)

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	parent, state, msg, task, call := []byte("é"), []byte(" a=1,, b=2 "), []byte{0, 0xff}, []byte{0xfe}, []byte("call")
	fields := obs.Fields{Traceparent: parent, Tracestate: state, MsgID: msg, TaskID: task, RPCID: call}
	for _, test := range []struct {
		name string
		ours interface {
			Decode([]byte) error
			Append([]byte) []byte
			Size() int
		}
		schema *obspb.Payload
	}{
		{name: "set", ours: &obs.Set{Fields: fields},
			schema: &obspb.Payload{Body: &obspb.Payload_Set{Set: &obspb.ObsSet{
				Traceparent: string(parent), Tracestate: string(state), MsgId: msg, TaskId: task, RpcId: call}}}},
		{name: "get", ours: &obs.Get{IncludeCurrent: true},
			schema: &obspb.Payload{Body: &obspb.Payload_Get{Get: &obspb.ObsGet{IncludeCurrent: true}}}},
		{name: "doc", ours: &obs.Doc{Fields: fields},
			schema: &obspb.Payload{Body: &obspb.Payload_Doc{Doc: &obspb.ObsDoc{
				Traceparent: string(parent), Tracestate: string(state), MsgId: msg, TaskId: task, RpcId: call}}}},
		{name: "err", ours: &obs.Err{Code: []byte("é"), Message: []byte("m")},
			schema: &obspb.Payload{Body: &obspb.Payload_Err{Err: &obspb.ObsErr{Code: "é", Message: "m"}}}},
		{name: "empty doc", ours: &obs.Doc{}, schema: &obspb.Payload{Body: &obspb.Payload_Doc{Doc: &obspb.ObsDoc{}}}},
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
