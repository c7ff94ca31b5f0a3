package daemon

import (
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles/rpc"
)

// With limits.replay_window a msg_id stays in use after its message was answered. A reload
// changes that for later connections.
func TestAMsgIDStaysInUseForTheReplayWindow(t *testing.T) {
	r := start(t, "limits: {replay_window: 1h}\n")
	uses := func(second uint64) {
		t.Helper()
		stream := r.raw(r.addrs[0])
		w := &wire{t, stream, frame.NewReader(stream, frame.Options{})}
		for i, answer := range []uint64{rpc.TypeResp, second} {
			w.send(e1.Envelope{
				ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, MsgID: []byte("the same msg_id"),
				Payload: encode(&rpc.Req{RPCID: []byte{byte(i)}, Method: []byte(rpc.MethodPing)}),
			})
			w.recv(rpc.ProfileID, answer)
		}
	}
	uses(rpc.TypeErr)
	r.counts(`swpd_rejects_total{code="ERR_DUPLICATE_MSG_ID",detail="",profile="rpc"}`, "1")
	r.rewrite("replay_window: 1h", "replay_window: 0s")
	if got := r.reloads(); len(got.Problems)+len(got.Later) > 0 {
		t.Errorf("answer %+v", got)
	}
	uses(rpc.TypeResp)
}
