package events

import (
	"unicode/utf8"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// The values of EVT_ERR's code that have a meaning of their own. For what is
// refused otherwise it is the alias of the canonical code, such as
// INVALID_PROFILE_PAYLOAD; RATE_LIMIT_EXCEEDED means that the same message may
// be accepted later.
const (
	CodeInvalidFilter = "INVALID_FILTER" // see ParseFilter
	CodeNotFound      = "NOT_FOUND"      // no such subscription on this connection
	CodeNotDurable    = "NOT_DURABLE"    // nothing is stored here: no name and no cursor
	CodeInvalidCursor = "INVALID_CURSOR" // of no event yet
	CodeGap           = "GAP"            // what follows the stored place of the name is no longer held
	CodeReplaced      = "REPLACED"       // a newer subscription has taken the name over
	CodeSlowConsumer  = "SLOW_CONSUMER"  // what is due is no longer held
)

// answerOctets keeps an EVT_ERR within 512 octets as a frame, with an envelope
// around it whose msg_id has 64 octets.
const answerOctets = 400

// answer builds an EVT_ERR.
func answer(code, text string) e1.Envelope {
	m := Err{Code: []byte(code), Message: []byte(text)}
	if over := m.Size() - answerOctets; over > 0 {
		m.Message = clip(m.Message, len(text)-over)
	}
	return e1.Envelope{MsgType: TypeErr, Payload: m.Append(make([]byte, 0, m.Size()))}
}

// clip shortens UTF-8 text to at most n octets.
func clip(text []byte, n int) []byte {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// refusal builds the EVT_ERR for a message that was refused. There is none under
// a msg_id that is in use, where it would seem to end a subscription.
func refusal(req *profiles.Request, fault *profiles.Error) (e1.Envelope, bool) {
	if req.Unsolicited || req.MsgType == TypeErr || fault.Code == profiles.DuplicateMsgID {
		return e1.Envelope{}, false
	}
	text := fault.Text
	if text == "" {
		text = fault.Code.String()
	}
	return answer(fault.Code.Alias(), text), true
}
