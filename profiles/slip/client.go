package slip

import (
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/slip/nslip"
	"github.com/slimwire/swp/slip/ucr"
)

// Send sends a message and returns its msg_id when it is queued for writing. A good message
// has no answer: the RPC swp.sync on the same lane confirms its acceptance, and a SLIP_ERR
// with the msg_id, passed to Options.Returned, reports its refusal. For TypeSLIP it adds
// the hash of the core anchors, for nSLIP the meanings of handles.
func Send(ctx context.Context, on profiles.Sender, msgType uint64, payload []byte, handles ...Meaning) (msgID []byte, err error) {
	env := e1.Envelope{ProfileID: ProfileID, MsgType: msgType, MsgID: profiles.NewMsgID(), Payload: payload}
	if msgType == TypeSLIP {
		env.Extensions = e1.AppendExtension(nil, ExtUCRHash, []byte(ucr.CoreHash))
	}
	for _, m := range handles {
		env.Extensions = appendMeaning(env.Extensions, m)
	}
	return env.MsgID, on.Send(ctx, env)
}

// Reply returns the answer to an nSLIP message: to its sender, in the same conversation,
// with the next turn number.
func Reply(to *nslip.Message, act nslip.Act, frame nslip.Frame, slots ...nslip.Slot) *nslip.Message {
	return &nslip.Message{ConvID: to.ConvID, Turn: to.Turn + 1, Src: to.Dst, Dst: to.Src, Act: act, Frame: frame, Slots: slots}
}
