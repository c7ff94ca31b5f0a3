package a2a

import (
	"strings"

	"github.com/slimwire/swp/profiles"
)

// What the Results of this endpoint say.
const (
	reasonUnsupported = "unsupported capability"
	reasonDenied      = "denied"
	reasonMalformed   = "malformed task input"
	reasonHops        = "the task has passed too many endpoints"
	reasonUnknown     = "the task is not known, or no longer"
	reasonDeadline    = "deadline exceeded"
	reasonFailed      = "the worker failed"
	reasonRefused     = "the worker refused the task"
	reasonGone        = "the worker did not come back"
	reasonAway        = "the partner can not be reached now"
	reasonRestarted   = "the worker was restarted"
	reasonInterrupted = "interrupted by a restart"
	reasonEvents      = "the task has too many events"
	reasonSize        = "the output is too large"
	reasonCancelled   = "cancelled"
	reasonLost        = "the state of the task can not be read or written"
	reasonChain       = "the task names a chain of credentials that is of no use here now"
	reasonQuota       = "what is stored for this identity has reached its limit"
)

// The reasons by which an endpoint ends a task that its agent did not end, for those
// who have to say them in another protocol. ReasonUnsupported is
// followed by what there is, ReasonMalformed and ReasonChain by what is wrong.
const (
	ReasonUnsupported = reasonUnsupported
	ReasonDenied      = reasonDenied
	ReasonMalformed   = reasonMalformed
	ReasonHops        = reasonHops
	ReasonDeadline    = reasonDeadline
	ReasonEvents      = reasonEvents
	ReasonSize        = reasonSize
	ReasonChain       = reasonChain
)

// Refusal is a task that was passed on to a partner and refused there.
type Refusal struct {
	Owner    string // identity of whoever sent it here
	Name     string // as rules know it: partner/agent/kind
	Code     profiles.Code
	Endpoint string // identity of the endpoint that refused, as it says itself
}

// RefusalCode returns the code that the reason of a Result comes to, if an endpoint
// refuses tasks with it.
func RefusalCode(reason string) (code profiles.Code, ok bool) {
	head, _, _ := strings.Cut(reason, ":") // what is wrong with it may follow
	switch head {
	case reasonDenied, reasonChain:
		return profiles.SecurityPolicy, true
	case reasonUnsupported:
		return profiles.NotFound, true
	case reasonMalformed, reasonHops:
		return profiles.InvalidProfilePayload, true
	case reasonQuota:
		return profiles.RateLimitExceeded, true
	}
	return profiles.OK, false
}

// delegated reports whether tasks of a kind are operations of A2A 1.0: they
// get no Event that is not the executor's, and a Result of the initiator ends
// the delivery only (mcp-a2a mapping §4).
func delegated(kind string) bool { return strings.HasPrefix(kind, "a2a/1.0/") }
