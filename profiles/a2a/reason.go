package a2a

import (
	"strings"

	"github.com/slimwire/swp/profiles"
)

// The reasons in Results of this endpoint.
const (
	reasonUnsupported = "unsupported capability"
	reasonDenied      = "denied"
	reasonMalformed   = "malformed task input"
	reasonHops        = "the task has passed too many endpoints"
	reasonUnknown     = "the task is unknown, or no longer known"
	reasonDeadline    = "deadline exceeded"
	reasonFailed      = "the worker failed"
	reasonRefused     = "the worker refused the task"
	reasonGone        = "the worker did not come back"
	reasonAway        = "the partner cannot be reached now"
	reasonRemoved     = "the partner was removed"
	reasonRestarted   = "the worker was restarted"
	reasonInterrupted = "interrupted by a restart"
	reasonEvents      = "the task has too many events"
	reasonSize        = "the output is too large"
	reasonCancelled   = "cancelled"
	reasonLost        = "the state of the task cannot be read or written"
	reasonChain       = "the task " + profiles.ChainOfNoUse
	reasonHint        = profiles.Stopped
	reasonQuota       = "what is stored for this identity has reached its limit"
)

// The reasons of an endpoint for the end of a task that its agent did not end, for
// conversion to other protocols. The supported capabilities follow ReasonUnsupported,
// and details follow ReasonMalformed, ReasonChain and ReasonHint.
const (
	ReasonUnsupported = reasonUnsupported
	ReasonDenied      = reasonDenied
	ReasonMalformed   = reasonMalformed
	ReasonHops        = reasonHops
	ReasonDeadline    = reasonDeadline
	ReasonEvents      = reasonEvents
	ReasonSize        = reasonSize
	ReasonChain       = reasonChain
	ReasonHint        = reasonHint
)

// Refusal is a task that a partner has refused.
type Refusal struct {
	Owner    string // identity of the sender of the task
	Name     string // in rules: partner/agent/kind
	Code     profiles.Code
	Endpoint string // identity that the refusing endpoint states
}

// RefusalCode returns the code for the reason of a Result, if endpoints refuse tasks
// for that reason.
func RefusalCode(reason string) (code profiles.Code, ok bool) {
	head, _, _ := strings.Cut(reason, ":") // details may follow
	switch head {
	case reasonDenied, reasonChain, reasonHint:
		return profiles.SecurityPolicy, true
	case reasonUnsupported:
		return profiles.NotFound, true
	case reasonMalformed, reasonHops:
		return profiles.InvalidProfilePayload, true
	case reasonQuota, reasonAway:
		return profiles.RateLimitExceeded, true
	}
	return profiles.OK, false
}

// isOperation reports whether tasks of a kind are operations of A2A 1.0. They get Events
// of the executor only, and a Result of the initiator ends the delivery only (mcp-a2a
// mapping §4).
func isOperation(kind string) bool { return strings.HasPrefix(kind, "a2a/1.0/") }
