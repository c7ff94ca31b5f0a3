package relay

import (
	"fmt"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// State is how a delivery stands, as RELAY_STATUS spells it.
type State string

// The states. The set is closed.
const (
	Queued    State = "queued"      // the first attempt is due or under way
	Retry     State = "retry"       // an attempt failed, the next one is due or under way
	Acked     State = "acked"       // a consumer has processed it
	DeadState State = "dead-letter" // it is not delivered any more
	Duplicate State = "duplicate"   // answer to a RELAY_PUBLISH of a delivery that is known
)

// Reason is why a delivery is dead, as the reason_code of a RELAY_NACK to its
// publisher spells it.
type Reason string

// The reasons. The set is closed.
const (
	MaxAttempts   Reason = "max_attempts"   // every attempt failed
	TTLExpired    Reason = "ttl_expired"    // the ttl_ms of the publisher, or the relay's default, has passed
	Rejected      Reason = "rejected"       // a consumer said that another attempt is of no use
	NoConsumer    Reason = "no_consumer"    // nobody has taken it for as long as the relay keeps deliveries
	LimitExceeded Reason = "limit_exceeded" // it could not be delivered for as long as the relay keeps deliveries
)

// The values of RELAY_ERR's code that have a meaning of their own. For what is
// refused otherwise it is the alias of the canonical code, such as
// INVALID_PROFILE_PAYLOAD; RATE_LIMIT_EXCEEDED means that there is no room now
// and the same message may be accepted later.
const (
	CodeConflict = "CONFLICT"  // the delivery_id stands for another delivery
	CodeNotFound = "NOT_FOUND" // no such delivery of this publisher, or nothing is relayed here
)

// The details of the errors of this profile. Those of payloads that are
// malformed are p1's.
const (
	DetailSize      = "relay_size"        // a field is too long
	DetailHops      = "relay_hops"        // it has passed as many endpoints as it may
	DetailPublisher = "relay_publisher"   // it names another publisher than the peer
	DetailBound     = "relay_bound"       // too many attachments
	DetailInbox     = "relay_inbox"       // more deliveries than were asked for
	DetailConflict  = "relay_id_conflict" // see CodeConflict
	DetailUnknown   = "relay_unknown"     // see CodeNotFound
)

func invalid(detail, format string, args ...any) *profiles.Error {
	return &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: detail, Text: "relay: " + fmt.Sprintf(format, args...)}
}

// domain is a refusal that the profile defines as an ordinary answer.
func domain(code profiles.Code, detail, answerCode, text string) *profiles.Error {
	return &profiles.Error{Code: code, Detail: detail, Text: "relay: " + text, Domain: true, Answer: refusals.Answer(answerCode, text, false)}
}

var (
	errConflict = domain(profiles.InvalidProfilePayload, DetailConflict, CodeConflict, "the delivery_id stands for another delivery")
	errUnknown  = domain(profiles.NotFound, DetailUnknown, CodeNotFound, "no such delivery")
	errNoRelay  = domain(profiles.NotFound, DetailUnknown, CodeNotFound, "nothing is relayed here")
	errDenied   = &profiles.Error{Code: profiles.SecurityPolicy, Text: "relay: not allowed on this topic", Denied: true}
	errEnding   = profiles.Busy("closed", "relay: this endpoint is shutting down")
)

// refusals are the RELAY_ERRs for messages that were refused, and those of peers.
var refusals = p1.Refusals{
	Profile: Name, Type: TypeErr, Of: []uint64{TypePublish, TypeAck, TypeNack, TypeStatus},
	New: func() (p1.ErrMessage, p1.ErrFields) {
		m := new(Err)
		return m, p1.ErrFields{Code: &m.Code, Message: &m.Message}
	},
}
