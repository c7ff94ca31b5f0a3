package profiles

import (
	"errors"
	"fmt"

	"github.com/slimwire/swp/e1"
)

// ErrFinished is returned for messages sent after an exchange has ended.
var ErrFinished = errors.New("profiles: the exchange has ended")

// Error refuses a message. Its text is sent to the peer and must not contain private data.
// Its cause is only logged.
type Error struct {
	Code   Code   // canonical
	Detail string // finer name for logs and metrics, from a fixed set; may be empty
	Text   string // for the peer
	Cause  error  // for the log; may be nil

	// Answer is the error message of the profile. If its MsgType is zero, Profile.Refusal
	// builds the message, if the profile has that function.
	Answer e1.Envelope

	// Domain marks a failure that the profile defines as an ordinary answer. Its code is
	// reported, but it does not violate the protocol and does not count against the error
	// budget.
	Domain bool

	// Pace marks a refusal for reasons of rate or capacity. It has its own,
	// larger error budget.
	Pace bool

	// Excused marks a refusal for lack of room although its sender is within its share. It
	// does not count against an error budget.
	Excused bool

	// Retryable tells the peer that the same message may succeed later.
	Retryable bool

	// Denied marks a refusal by the access rules of this endpoint, even if the
	// peer gets another reason. It is for logs and metrics.
	Denied bool
}

// Deny returns a copy of fault that is marked as Denied.
func Deny(fault *Error) *Error {
	denied := *fault
	denied.Denied = true
	return &denied
}

func (e *Error) Error() string {
	s := e.Code.String()
	if e.Detail != "" {
		s += " · " + e.Detail
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf returns an *Error with a code and a text for the peer.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Busy returns the *Error for a bound that is reached: retryable, with Pace set.
func Busy(detail, text string) *Error {
	return &Error{Code: RateLimitExceeded, Detail: detail, Text: text, Pace: true, Retryable: true}
}

// AsError returns err as an *Error. Any other error becomes Internal; its text is not sent
// to the peer.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: Internal, Text: "internal error", Cause: err}
}

// Errors of a store: the quota of the owner or the store is used up, the volume is
// full, others use the room of the owner, stored data cannot be read.
const (
	quotaDetail   = "store_quota"
	fullDetail    = "store_full"
	shareDetail   = "store_share"
	damagedDetail = "store_damaged"
)

// Unavailable returns the *Error for a store that refused or failed, with Pace set. It is
// retryable if the store says so. The text of err is not sent to the peer. An *Error is
// returned unchanged.
func Unavailable(err error) *Error {
	if fault, ok := errors.AsType[*Error](err); ok {
		return fault
	}
	var kind interface {
		StoreDetail() string
		Retryable() bool
	}
	if !errors.As(err, &kind) {
		return &Error{Code: Internal, Detail: "store", Text: "internal error", Cause: err}
	}
	text := "the state of this endpoint cannot be written now"
	switch detail := kind.StoreDetail(); {
	case detail == damagedDetail:
		text = "this is damaged in the store of this endpoint and is not served; its operator finds it in the log"
	case !kind.Retryable():
		text = "the state of this endpoint cannot be read or written"
	case detail == quotaDetail:
		text = "no room: this identity or this endpoint keeps as much as it may, which its operator can raise as quota"
	case detail == shareDetail:
		text = "no room: other identities use what this one shares with them; it is free again later"
	case detail == fullDetail:
		text = "the volume of this endpoint's store is full; nothing is kept until its operator has made room on the disk"
	}
	if !kind.Retryable() {
		return &Error{Code: Internal, Detail: kind.StoreDetail(), Text: text, Cause: err}
	}
	return &Error{
		Code: RateLimitExceeded, Detail: kind.StoreDetail(), Text: text,
		Cause: err, Pace: true, Retryable: true, Excused: kind.StoreDetail() == shareDetail || kind.StoreDetail() == fullDetail,
	}
}
