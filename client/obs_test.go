package client

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/obs"
)

func TestWhatIsSetIsWhatThePeerHas(t *testing.T) {
	c := connected(t, &scripted{})
	if got, _, err := c.LastTrace(t.Context()); err != nil || got != (profiles.Trace{}) {
		t.Errorf("before: %+v, %v", got, err)
	}
	want := profiles.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: " b=2,a=1"}
	ids := obs.IDs{TaskID: []byte{0, 1}}
	if err := c.SetTrace(t.Context(), want, ids); err != nil {
		t.Fatal(err)
	}
	if got, gotIDs, err := c.LastTrace(t.Context()); err != nil || got != want || !cmp.Equal(gotIDs, ids) {
		t.Errorf("LastTrace: %+v, %+v, %v", got, gotIDs, err)
	}
	var fault *profiles.Error
	if err := c.SetTrace(t.Context(), profiles.Trace{Parent: "a-b-c-d"}, obs.IDs{}); !errors.As(err, &fault) || fault.Detail != obs.CodeTraceparent {
		t.Errorf("what is no traceparent: %v", err)
	}
}

func TestDumpShowsTraceContexts(t *testing.T) {
	fields := obs.Fields{Traceparent: []byte("p"), Tracestate: []byte("s"), MsgID: []byte{1}, TaskID: []byte{2}, RPCID: []byte{3}}
	all := map[string]any{"traceparent": "p", "tracestate": "s", "msg_id": "01", "task_id": "02", "rpc_id": "03"}
	for _, test := range []struct {
		msgType uint64
		payload []byte
		want    any
	}{
		{obs.TypeSet, (&obs.Set{Fields: fields}).Append(nil), all},
		{obs.TypeDoc, (&obs.Doc{Fields: fields}).Append(nil), all},
		{obs.TypeDoc, []byte("\x1a\x00"), map[string]any{}},
		{obs.TypeGet, []byte("\x12\x00"), map[string]any{"include_current": false}},
		{obs.TypeErr, (&obs.Err{Code: []byte("c"), Message: []byte("m")}).Append(nil), map[string]any{"code": "c", "message": "m"}},
		{obs.TypeErr, []byte("\x1a\x00"), nil},
		{99, []byte("\x1a\x00"), nil},
	} {
		got := decodePayload(&e1.Envelope{ProfileID: obs.ProfileID, MsgType: test.msgType, Payload: test.payload})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("type %d:\n%s", test.msgType, diff)
		}
	}
}
