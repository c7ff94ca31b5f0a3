package agdisc

import (
	"errors"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// Codes of AGDISC_ERR. For what is refused otherwise it is the alias of the
// canonical code, such as INVALID_PROFILE_PAYLOAD; RATE_LIMIT_EXCEEDED means
// that the same message may be answered later.
const (
	CodeNotFound     = "NOT_FOUND"    // no such agent, no card, or not for this peer
	CodeInvalidCard  = "INVALID_CARD" // what the agent sent is no card
	CodeUnauthorized = "UNAUTHORIZED" // not sent here: it would tell that there is one
	CodeInternal     = "INTERNAL"     // the agent does not answer
)

// errUnknown refuses what there is not, and what is not for the peer.
var errUnknown = &profiles.Error{
	Code: profiles.NotFound, Detail: "agdisc_unknown", Text: "agent card not found", Domain: true,
}

// errHidden is errUnknown for what is not for the peer: to it they look the same.
var errHidden = profiles.Deny(errUnknown)

// tell ends a GET with the card that was found for it.
func tell(w profiles.Responder, ifNoneMatch string, card *Card, err error) {
	if err != nil {
		w.Fail(faultOf(err))
		return
	}
	if ifNoneMatch != "" && ifNoneMatch == card.ETag {
		m := NotModified{AgentID: []byte(card.AgentID), ETag: []byte(card.ETag)}
		_ = w.Finish(e1.Envelope{MsgType: TypeNotModified, Payload: m.Append(make([]byte, 0, m.Size()))})
		return
	}
	m := card.doc()
	_ = w.Finish(e1.Envelope{MsgType: TypeDoc, Payload: m.Append(make([]byte, 0, m.Size()))})
}

// doc returns the card as it is told.
func (c *Card) doc() *Doc {
	return &Doc{
		AgentID: []byte(c.AgentID), SchemaRevision: []byte(c.Revision), CardPayload: c.Payload,
		ETag: []byte(c.ETag), MaxAgeMs: uint64(max(c.MaxAge, 0) / time.Millisecond),
	}
}

// faultOf returns the refusal of a GET whose card could not be had. It costs
// its sender nothing: the fault is the agent's.
func faultOf(err error) *profiles.Error {
	var fault *profiles.Error
	switch {
	case errors.As(err, new(*PeerError)):
		return errUnknown
	case errors.As(err, &fault) && fault.Pace:
		return fault
	case errors.As(err, &fault) && fault.Code == profiles.InvalidProfilePayload:
		return domain(CodeInvalidCard, "the agent has no valid card", err)
	}
	return domain(CodeInternal, "the agent does not answer", err)
}

func domain(code, text string, cause error) *profiles.Error {
	return &profiles.Error{
		Code: profiles.Internal, Detail: "agdisc_agent", Text: text, Cause: cause, Domain: true, Retryable: true,
		Answer: errAnswer(code, text),
	}
}

// answerOctets keeps an AGDISC_ERR within 512 octets as a frame, with an
// envelope around it whose msg_id has 64 octets.
const answerOctets = 400

func errAnswer(code, text string) e1.Envelope {
	m := Err{Code: []byte(code), Message: []byte(text)}
	if over := m.Size() - answerOctets; over > 0 {
		m.Message = p1.Clip(m.Message, len(text)-over)
	}
	return e1.Envelope{MsgType: TypeErr, Payload: m.Append(make([]byte, 0, m.Size()))}
}

// refusal builds the AGDISC_ERR for a GET that was refused. There is none under
// a msg_id that is in use: it would be read as the answer to what is using it.
func refusal(req *profiles.Request, fault *profiles.Error) (e1.Envelope, bool) {
	if req.MsgType != TypeGet || fault.Code == profiles.DuplicateMsgID {
		return e1.Envelope{}, false
	}
	text := fault.Text
	if text == "" {
		text = fault.Code.String()
	}
	return errAnswer(fault.Code.Alias(), text), true
}
