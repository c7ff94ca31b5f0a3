package daemon

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles/rpc"
)

// With limits.replay_window a msg_id stays in use after its message was answered. A reload
// changes that for later connections.
func TestAMsgIDStaysInUseForTheReplayWindow(t *testing.T) {
	r := start(t, "limits: {replay_window: 1h}\n")
	uses := func(answered string) {
		t.Helper()
		stream := r.raw(r.addrs[0])
		w := &wire{t, stream, frame.NewReader(stream, frame.Options{})}
		for i, id := range []string{"the same msg_id", "the same msg_id", "another msg_id"} {
			w.send(e1.Envelope{
				ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, MsgID: []byte(id),
				Payload: encode(&rpc.Req{RPCID: []byte{'1' + byte(i)}, Method: []byte(rpc.MethodPing)}),
			})
		}
		got := ""
		for !strings.HasSuffix(got, "3") {
			var m rpc.Resp
			answer := w.recv(rpc.ProfileID, rpc.TypeResp)
			if err := m.Decode(answer.Payload); err != nil {
				t.Fatal(err)
			}
			got += string(m.RPCID)
		}
		if got != answered {
			t.Errorf("calls %s were answered, want %s", got, answered)
		}
	}
	uses("13")
	r.counts(`swpd_rejects_total{code="ERR_DUPLICATE_MSG_ID",detail="",profile="rpc"}`, "1")
	r.rewrite("replay_window: 1h", "replay_window: 0s")
	if got := r.reloads(); len(got.Problems)+len(got.Later) > 0 {
		t.Errorf("answer %+v", got)
	}
	uses("123")
}
