package p1_test

import (
	"errors"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

func TestMessagesAreCheckedByTheirType(t *testing.T) {
	errFirst, errThird := errors.New("the first"), errors.New("the third")
	check := p1.WellFormed([]p1.Message{
		{Type: 1, Decode: func([]byte) error { return errFirst }},
		{Type: 2, Decode: func([]byte) error { return nil }},
		{Type: 3, Decode: func([]byte) error { return errThird }},
	})
	for msgType, want := range map[uint64]error{1: errFirst, 2: nil, 3: errThird} {
		if err := check(&e1.Envelope{MsgType: msgType}); !errors.Is(err, want) {
			t.Errorf("type %d: %v, want %v", msgType, err, want)
		}
	}
	for _, msgType := range []uint64{0, 4} {
		if err := check(&e1.Envelope{MsgType: msgType}); profiles.AsError(err).Code != profiles.InvalidProfilePayload {
			t.Errorf("type %d, which has no schema: %v", msgType, err)
		}
	}
}
