package relay

import (
	"fmt"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// State is the state of a delivery, in the spelling of RELAY_STATUS.
type State string

// The states. The set is closed.
const (
	Queued    State = "queued"      // the first attempt is due or in progress
	Retry     State = "retry"       // an attempt failed; the next one is due or in progress
	Acked     State = "acked"       // a consumer has processed it
	DeadState State = "dead-letter" // it is no longer delivered
	Duplicate State = "duplicate"   // answer to a repeated RELAY_PUBLISH
)

// Reason is why a delivery is dead, in the spelling of reason_code in a RELAY_NACK to its
// publisher.
type Reason string

// The reasons. The set is closed.
const (
	MaxAttempts   Reason = "max_attempts"   // every attempt failed
	TTLExpired    Reason = "ttl_expired"    // the ttl_ms of the publisher, or the relay's default, has passed
	Rejected      Reason = "rejected"       // a consumer refused it with retryable false
	NoConsumer    Reason = "no_consumer"    // no consumer took it within the retention
	LimitExceeded Reason = "limit_exceeded" // a limit prevented its delivery within the retention
)

// Codes of RELAY_ERR with a meaning specific to this profile. Other refusals use the alias
// of the canonical code, such as INVALID_PROFILE_PAYLOAD. RATE_LIMIT_EXCEEDED means that
// there is no room now, and that the same message may be accepted later.
const (
	CodeConflict = "CONFLICT"  // the delivery_id belongs to a different delivery
	CodeNotFound = "NOT_FOUND" // this publisher has no such delivery, or this endpoint is no relay
)

// Details of the errors of this profile. Package p1 has those of malformed payloads.
const (
	DetailSize      = "relay_size"        // a field is too long
	DetailHops      = "relay_hops"        // it has passed the maximum number of endpoints
	DetailPublisher = "relay_publisher"   // it names a publisher other than the peer
	DetailBound     = "relay_bound"       // too many attachments
	DetailInbox     = "relay_inbox"       // more deliveries than requested
	DetailConflict  = "relay_id_conflict" // see CodeConflict
	DetailUnknown   = "relay_unknown"     // see CodeNotFound
)

func invalid(detail, format string, args ...any) *profiles.Error {
	return &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: detail, Text: "relay: " + fmt.Sprintf(format, args...)}
}

// domain returns a refusal that the profile defines as an ordinary answer.
func domain(code profiles.Code, detail, answerCode, text string) *profiles.Error {
	return &profiles.Error{Code: code, Detail: detail, Text: "relay: " + text, Domain: true, Answer: refusals.Answer(answerCode, text, false)}
}

var (
	errConflict = domain(profiles.InvalidProfilePayload, DetailConflict, CodeConflict, "the delivery_id stands for another delivery")
	errUnknown  = domain(profiles.NotFound, DetailUnknown, CodeNotFound, "no such delivery")
	errNoRelay  = domain(profiles.NotFound, DetailUnknown, CodeNotFound, "nothing is relayed here")
	errDenied   = &profiles.Error{Code: profiles.SecurityPolicy, Text: "relay: not allowed on this topic", Denied: true}
	errOwned    = &profiles.Error{Code: profiles.SecurityPolicy, Detail: "relay_owned", Text: "relay: the topic belongs to another profile, which alone publishes to it", Denied: true}
	errAgent    = &profiles.Error{Code: profiles.SecurityPolicy, Detail: "agent_id", Text: "relay: the topic is of an agent_id that is not for this identity", Denied: true}
	errEnding   = profiles.Busy("closed", "relay: this endpoint is shutting down")
)

// refusals convert errors to RELAY_ERR and back.
var refusals = p1.Refusals{
	Profile: Name, Type: TypeErr, Of: []uint64{TypePublish, TypeAck, TypeNack, TypeStatus},
	New: func() (p1.ErrMessage, p1.ErrFields) {
		m := new(Err)
		return m, p1.ErrFields{Code: &m.Code, Message: &m.Message}
	},
}
