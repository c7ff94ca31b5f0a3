package sdl

import (
	"errors"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Error codes of A2A-SDL §9.
const (
	CodeEncoding = "UNSUPPORTED_ENCODING"
	CodeCT       = "UNSUPPORTED_CT"
	CodeSchema   = "SCHEMA_INVALID"
	CodeSecurity = "SECURITY_UNSUPPORTED"
	CodeRequest  = "BAD_REQUEST"
	CodeInternal = "INTERNAL"
)

// Values of details.reason for codes (A2A-SDL §9).
const (
	ReasonReplayed    = "replay_detected"
	ReasonExpired     = "replay_expired"
	ReasonFull        = "replay_full" // no room for another nonce, so the message is refused
	ReasonRate        = "rate_limit"
	ReasonConcurrency = "concurrency_limit"
)

// DetailNotServed is the detail for a request to an endpoint without a Server, and its
// details.reason.
const DetailNotServed = "sdl_not_served"

// DetailMismatch is the detail for an envelope whose type differs from the type of its message.
const DetailMismatch = "sdl_type"

// Fault is the reason for a refusal, in terms of A2A-SDL.
type Fault struct {
	Code      string // code of A2A-SDL
	Reason    string // details.reason; may be empty
	Text      string // details.text, for people; may be empty
	Retryable bool
	Security  bool  // a security violation, whatever the code
	Denied    bool  // refused by the access rules; for observers
	Mismatch  bool  // the types of envelope and message differ; not answered
	Cause     error // for the log; may be nil
}

// errSilent is the cause if a Server returned no answer to a request.
var errSilent = errors.New("sdl: the server gave no answer")

// detailOf returns the detail for a code, from a fixed set.
func detailOf(code string) string {
	switch code {
	case CodeEncoding, CodeCT, CodeSchema, CodeSecurity, CodeRequest, CodeInternal:
		return "sdl_" + strings.ToLower(code)
	}
	return "sdl"
}

// verdict returns the *Error for a message, with the answer if it is a request.
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

// faultOf converts the refusal of an unread request to a Fault.
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
	if e.Domain || e.Code == profiles.SecurityPolicy && !e.Denied {
		// A2A-SDL has no code for forwarding, hints, credentials and callers, and for peers
		// without the language.
		f.Reason, f.Text = e.Detail, e.Text
	}
	switch e.Detail {
	case profiles.DetailLinkDown, profiles.DetailLinkLost, profiles.DetailLinkSilent:
		f.Code = CodeInternal
	}
	return f
}
