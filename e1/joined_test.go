package e1_test

import (
	"bytes"
	"testing"

	"github.com/slimwire/swp/e1"
)

func TestJoinedHasTheWholePayloadAndLeavesTheEnvelopeAsItIs(t *testing.T) {
	whole := &e1.Envelope{Payload: []byte("front")}
	if whole.Joined() != whole {
		t.Error("an envelope without Tail is copied")
	}
	front := append(make([]byte, 0, 16), "front"...)
	parted := &e1.Envelope{MsgType: 7, Payload: front, Tail: []byte("end")}
	joined := parted.Joined()
	if string(joined.Payload) != "frontend" || joined.Tail != nil || joined.MsgType != 7 {
		t.Errorf("joined: %q and %q of type %d", joined.Payload, joined.Tail, joined.MsgType)
	}
	if string(parted.Payload) != "front" || string(parted.Tail) != "end" || !bytes.Equal(front[:cap(front)][5:8], make([]byte, 3)) {
		t.Errorf("the envelope is now %q and %q", parted.Payload, parted.Tail)
	}
}
