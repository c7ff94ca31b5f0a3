package profiles

import "strings"

// PeerError is an error message of a profile that a peer has sent, such as STATE_ERR.
type PeerError struct {
	Profile  string // its short name
	Code     string // one of the Code constants of the profile, or the alias of a canonical code
	Message  string // for people
	Endpoint string // identity of the endpoint that wrote it (extension 53); empty: it does not say

	// Later says that the profile marks the failure as temporary, by a field of the message
	// or by its Code. See Retryable.
	Later bool
}

func (e *PeerError) Error() string {
	text := e.Profile + ": " + e.Code
	if message := strings.TrimPrefix(e.Message, e.Profile+": "); message != "" {
		text += ": " + message
	}
	return text
}

// Retryable reports whether the same message may succeed later: the peer says so, or its
// code is RATE_LIMIT_EXCEEDED.
func (e *PeerError) Retryable() bool {
	code, _ := ParseCode(e.Code)
	return e.Later || code == RateLimitExceeded
}

// Unwrap returns the canonical code that Code names, as an *Error with Domain set: an error
// message does not violate the protocol. It returns nil if Code names none.
func (e *PeerError) Unwrap() error {
	code, ok := ParseCode(e.Code)
	if !ok {
		return nil
	}
	return &Error{Code: code, Text: e.Message, Domain: true, Retryable: e.Retryable()}
}
