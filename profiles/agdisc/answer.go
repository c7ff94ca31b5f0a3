package agdisc

import (
	"errors"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// Codes of AGDISC_ERR. Other refusals have the alias of the canonical code, such as
// INVALID_PROFILE_PAYLOAD; RATE_LIMIT_EXCEEDED means that the same message may succeed
// later.
const (
	CodeNotFound     = "NOT_FOUND"    // no such agent, no card, or not for this peer
	CodeInvalidCard  = "INVALID_CARD" // the agent has sent an invalid card
	CodeUnauthorized = "UNAUTHORIZED" // not sent here, because it would reveal that the card exists
	CodeInternal     = "INTERNAL"     // the agent does not answer
)

// errUnknown refuses absent agents, and those that the peer may not see.
var errUnknown = &profiles.Error{
	Code: profiles.NotFound, Detail: "agdisc_unknown", Text: "agent card not found", Domain: true,
}

// errHidden is errUnknown for agents that the peer may not see. The peer cannot distinguish
// them.
var errHidden = profiles.Deny(errUnknown)

// answerCard answers a GET with the card, or with the error.
func answerCard(w profiles.Responder, ifNoneMatch string, card *Card, err error) {
	if err != nil {
		w.Fail(faultOf(err))
		return
	}
	_ = w.Finish(card.answer(ifNoneMatch))
}

// answer returns the answer to a GET.
func (c *Card) answer(ifNoneMatch string) e1.Envelope {
	if ifNoneMatch != "" && ifNoneMatch == c.ETag {
		m := NotModified{AgentID: []byte(c.AgentID), ETag: []byte(c.ETag)}
		return e1.Envelope{MsgType: TypeNotModified, Payload: m.Append(make([]byte, 0, m.Size()))}
	}
	m := c.doc()
	return e1.Envelope{MsgType: TypeDoc, Payload: m.Append(make([]byte, 0, m.Size()))}
}

// doc returns the message for the card.
func (c *Card) doc() *Doc {
	return &Doc{
		AgentID: []byte(c.AgentID), SchemaRevision: []byte(c.Revision), CardPayload: c.Payload,
		ETag: []byte(c.ETag), MaxAgeMs: uint64(max(c.MaxAge, 0) / time.Millisecond),
	}
}

// faultOf returns the refusal of a GET whose card could not be fetched. It is not charged
// to the sender: it is the fault of the agent.
func faultOf(err error) *profiles.Error {
	var fault *profiles.Error
	switch {
	case errors.As(err, new(*profiles.PeerError)), profiles.IsUnserved(err):
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
		Answer: refusals.Answer(code, text, true),
	}
}

// refusals are the AGDISC_ERRs of this endpoint and of peers.
var refusals = p1.Refusals{
	Profile: Name, Type: TypeErr, Of: []uint64{TypeGet},
	New: func() (p1.ErrMessage, p1.ErrFields) {
		m := new(Err)
		return m, p1.ErrFields{Code: &m.Code, Message: &m.Message}
	},
}
