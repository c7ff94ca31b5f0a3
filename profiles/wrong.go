package profiles

import (
	"errors"
	"fmt"
)

// DetailRemote is the Detail of an *Error that the peer has said by the error path: it
// refuses what it was sent.
const DetailRemote = "remote"

// Misanswered reports whether the error of an answer means that the peer has broken the
// protocol with it: it is malformed, or no answer to the request. That a peer refuses is
// none.
func Misanswered(err error) bool {
	fault, ok := errors.AsType[*Error](err)
	if !ok || fault.Domain || fault.Pace || fault.Retryable || fault.Detail == DetailRemote {
		return false
	}
	return fault.Code == InvalidProfilePayload || fault.Code == InvalidMCPPayload
}

// Broken returns what a caller is told of an answer with which a partner has broken the
// protocol. err says what is wrong with it, see Misanswered.
func Broken(partner string, err error) *Error {
	return &Error{
		Code: Internal, Detail: "partner_wrong", Domain: true, Cause: err,
		Text: fmt.Sprintf("partner %s broke the protocol with its answer: %s", partner, AsError(err).Text),
	}
}
