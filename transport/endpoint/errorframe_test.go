package endpoint

import (
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// fields behind those that are known, one of each wire type that proto3 has.
var unknownFields = []byte{
	9 << 3, 0x81, 0x01,
	9<<3 | 1, 1, 2, 3, 4, 5, 6, 7, 8,
	9<<3 | 2, 2, 'h', 'i',
	9<<3 | 5, 1, 2, 3, 4,
}

func TestErrorReportsSurviveTheWireAndUnknownFields(t *testing.T) {
	limits := e1.Limits{}.WithDefaults()
	refused := e1.Envelope{ProfileID: 9999, MsgID: []byte("0123456789abcdef")}
	sent := profiles.Errorf(profiles.UnknownProfile, "profile_id 9999 is not served here")
	env := errorFrame(&refused, sent, 4097, &limits)
	_, _, body, _, _ := nextField(env.Payload)
	longer := e1.AppendBytes([]byte{1<<3 | 2}, append(body, unknownFields...))
	for _, payload := range [][]byte{env.Payload, longer} {
		got, closes, ok := parseErrorFrame(payload)
		if closes != 4097 {
			t.Errorf("close_code %d", closes)
		}
		if !ok || got.Code != sent.Code || got.Text != sent.Text {
			t.Errorf("read %+v, %t; want %+v", got, ok, sent)
		}
		for n := range payload {
			if got, _, ok := parseErrorFrame(payload[:n]); ok {
				t.Errorf("the first %d octets of %d were read as %+v", n, len(payload), got)
			}
		}
	}
}

func TestErrorReportsOfOtherShapesAreRefused(t *testing.T) {
	for name, payload := range map[string][]byte{
		"empty":           {},
		"another member":  {2<<3 | 2, 0},
		"no code":         {1<<3 | 2, 0},
		"field number 0":  {1<<3 | 2, 2, 0, 0},
		"a group":         {1<<3 | 2, 2, 9<<3 | 3, 9<<3 | 4},
		"octets after it": append(e1.AppendBytes([]byte{1<<3 | 2}, appendString(nil, 1, "ERR_NOT_FOUND")), 0),
	} {
		if got, _, ok := parseErrorFrame(payload); ok {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}
