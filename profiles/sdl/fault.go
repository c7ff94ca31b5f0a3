package sdl

import (
	"errors"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// The error codes of A2A-SDL §9.
const (
	CodeEncoding = "UNSUPPORTED_ENCODING"
	CodeCT       = "UNSUPPORTED_CT"
	CodeSchema   = "SCHEMA_INVALID"
	CodeSecurity = "SECURITY_UNSUPPORTED"
	CodeRequest  = "BAD_REQUEST"
	CodeInternal = "INTERNAL"
)

// Values of details.reason that a code has (A2A-SDL §9).
const (
	ReasonReplayed    = "replay_detected"
	ReasonExpired     = "replay_expired"
	ReasonFull        = "replay_full" // no room for another nonce; it is not forgotten, it is refused
	ReasonRate        = "rate_limit"
	ReasonConcurrency = "concurrency_limit"
)

// DetailMismatch is the detail of refusals of an envelope whose type differs from
// that of its message.
const DetailMismatch = "sdl_type"

// Fault is why a message is refused, in the terms of the language.
type Fault struct {
	Code      string // of the language
	Reason    string // details.reason; may be empty
	Text      string // details.text, for people; may be empty
	Retryable bool
	Security  bool  // what is wrong is the security of the message, whatever its code
	Denied    bool  // the access rules said no; for those who watch
	Mismatch  bool  // the envelope has another type than the message; there is no answer
	Cause     error // for the log; may be nil
}

// errSilent is the cause of a request that its Server did not answer.
var errSilent = errors.New("sdl: the server gave no answer")

// detailOf is the detail of refusals with a code, from a fixed set.
func detailOf(code string) string {
	switch code {
	case CodeEncoding, CodeCT, CodeSchema, CodeSecurity, CodeRequest, CodeInternal:
		return "sdl_" + strings.ToLower(code)
	}
	return "sdl"
}

// verdict returns the *Error of a message, with the answer to a request.
func (f *Fault) verdict(msgType uint64, answer []byte) error {
	e := &profiles.Error{
		Code: profiles.InvalidProfilePayload, Detail: detailOf(f.Code), Text: "sdl: " + f.Code, Cause: f.Cause, Retryable: f.Retryable, Denied: f.Denied,
	}
	switch {
	case f.Mismatch:
		e.Detail, e.Text = DetailMismatch, "sdl: the envelope has another type than the message"
		return e
	case f.Code == CodeRequest && (f.Reason == ReasonReplayed || f.Reason == ReasonExpired):
		e.Code, e.Detail = profiles.SecurityPolicy, "sdl_"+f.Reason
	case f.Code == CodeRequest && f.Reason == ReasonFull:
		e.Code, e.Detail, e.Pace = profiles.SecurityPolicy, "sdl_"+f.Reason, true
	case f.Code == CodeRequest && (f.Reason == ReasonRate || f.Reason == ReasonConcurrency):
		e.Code, e.Detail, e.Pace = profiles.RateLimitExceeded, "sdl_"+f.Reason, true
	case f.Code == CodeSecurity, f.Code == CodeRequest && f.Security:
		e.Code = profiles.SecurityPolicy
	case f.Code == CodeCT:
		e.Domain = true
	case f.Code == CodeInternal:
		e.Code = profiles.Internal
	}
	if msgType == TypeReq && len(answer) > 0 {
		e.Answer = e1.Envelope{MsgType: TypeRes, Payload: answer}
	}
	return e
}

// faultOf says in the terms of the language why a request is refused unread.
func faultOf(e *profiles.Error) *Fault {
	f := &Fault{Code: CodeRequest, Retryable: e.Retryable, Cause: e}
	switch e.Code {
	case profiles.SecurityPolicy:
		f.Code = CodeSecurity
	case profiles.RateLimitExceeded:
		f.Reason = ReasonConcurrency
	case profiles.Internal:
		f.Code = CodeInternal
	}
	if e.Domain { // of the way to a partner: the language has no words for it
		f.Reason, f.Text = e.Detail, e.Text
	}
	return f
}
