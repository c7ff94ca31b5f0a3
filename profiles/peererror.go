package profiles

import "strings"

// PeerError is what a peer answered with the error message of a profile, such as
// STATE_ERR.
type PeerError struct {
	Profile  string // its short name
	Code     string // one of the Code constants of the profile, or the alias of a canonical code
	Message  string // for people
	Endpoint string // identity of the endpoint that wrote it (extension 53); empty: it does not say

	// Later says that the same message may be accepted later, in the words of the
	// profile: by a field of the message, or by its Code. See Retryable.
	Later bool
}

func (e *PeerError) Error() string {
	text := e.Profile + ": " + e.Code
	if message := strings.TrimPrefix(e.Message, e.Profile+": "); message != "" {
		text += ": " + message
	}
	return text
}

// Retryable reports whether the same message may be accepted later: the peer says so,
// or it has no room or no time now (RATE_LIMIT_EXCEEDED).
func (e *PeerError) Retryable() bool {
	code, _ := ParseCode(e.Code)
	return e.Later || code == RateLimitExceeded
}

// Unwrap returns the canonical code that Code names as an *Error, or nil if it names
// none. A peer that says no has not broken the protocol: the *Error is of the Domain.
func (e *PeerError) Unwrap() error {
	code, ok := ParseCode(e.Code)
	if !ok {
		return nil
	}
	return &Error{Code: code, Text: e.Message, Domain: true, Retryable: e.Retryable()}
}
