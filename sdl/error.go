package sdl

import (
	"fmt"
	"strings"

	"github.com/slimwire/swp/sdl/canonical"
)

// Code is an error code of A2A-SDL.
type Code string

// The error codes.
const (
	UnsupportedEncoding Code = "UNSUPPORTED_ENCODING" // cannot be parsed
	UnsupportedCT       Code = "UNSUPPORTED_CT"       // another content type may be accepted
	SchemaInvalid       Code = "SCHEMA_INVALID"       // another schema or payload may be accepted
	SecurityUnsupported Code = "SECURITY_UNSUPPORTED" // not trusted, or not understood
	BadRequest          Code = "BAD_REQUEST"          // can be parsed, but is invalid
	Internal            Code = "INTERNAL"             // a fault of this side
)

// codes are the codes of error.v1, in the order of its schema.
var codes = []string{
	string(UnsupportedEncoding), string(UnsupportedCT), string(SchemaInvalid),
	string(SecurityUnsupported), string(BadRequest), string(Internal),
}

// Error says why an envelope is refused. Code, Retryable and Details are sent to the peer.
// Reason is only logged (§9), except for an error with a Member.
type Error struct {
	Code      Code
	Retryable bool
	Details   canonical.Value // an object, or null for an empty one
	Reason    string

	// Member is the path of the member that is at fault, such as "from.agent_id", if the
	// structure of the message is. It is sent with Reason: both describe what the peer wrote.
	Member string
}

func (e *Error) Error() string { return fmt.Sprintf("sdl: %s: %s", e.Code, e.Reason) }

// Payload returns the payload of error.v1 for e. Its message names the code only.
func (e *Error) Payload() canonical.Value {
	details := e.Details
	if details.IsNull() {
		details = canonical.Object()
	}
	if e.Member != "" {
		details = details.With("member", canonical.String(e.Member)).With("text", canonical.String(bounded(e.Reason)))
	}
	return object(
		member("code", canonical.String(string(e.Code))),
		member("message", canonical.String(messages[e.Code])),
		member("details", details),
		member("retryable", canonical.Bool(e.Retryable)),
	)
}

// messages are the texts that a peer gets with the codes.
var messages = map[Code]string{
	UnsupportedEncoding: "the body cannot be read",
	UnsupportedCT:       "the content type is not supported",
	SchemaInvalid:       "the payload or its schema is not valid",
	SecurityUnsupported: "the security of the message is not accepted",
	BadRequest:          "the message is not valid",
	Internal:            "the message could not be processed",
}

// Refuse returns an error that is not retryable. reason is for the log.
func Refuse(code Code, reason string, args ...any) *Error {
	return &Error{Code: code, Reason: fmt.Sprintf(reason, args...)}
}

// Insecure returns a SECURITY_UNSUPPORTED that names the supported security. Set retryable
// only if another structure of sec would be accepted (§6.2).
func Insecure(retryable bool, reason string, args ...any) *Error {
	return &Error{Code: SecurityUnsupported, Retryable: retryable, Details: supported, Reason: fmt.Sprintf(reason, args...)}
}

// ReasonNoAnswerKey is details.reason of NoAnswerKey.
const ReasonNoAnswerKey = "no_answer_key"

// NoAnswerKey returns the error for an encrypted request of an agent to which no answer can be
// encrypted.
func NoAnswerKey(agent string) *Error {
	return &Error{
		Code: SecurityUnsupported, Reason: fmt.Sprintf("no key to encrypt answers to %.100q", agent),
		Details: supported.With("reason", canonical.String(ReasonNoAnswerKey)).
			With("text", canonical.String("the receiver has no key of the sender to which it could encrypt the answer")),
	}
}

// Replayed returns the error for a nonce that is expired or was used before: ReplayExpired
// or ReplayDetected.
func Replayed(what string) *Error {
	return &Error{Code: BadRequest, Details: object(member("reason", canonical.String(what))), Reason: what}
}

// Values of details.reason for a replay (§6.6).
const (
	ReplayExpired  = "replay_expired"
	ReplayDetected = "replay_detected"
)

// NoHandler returns the UNSUPPORTED_CT for a known content type without a handler. It names
// the implemented content types, sorted.
func NoHandler(ct string, implemented []string) *Error {
	list := canonical.Strings(implemented...)
	return &Error{Code: UnsupportedCT, Retryable: true, Details: object(member("supported_ct", list), member("implemented", list)), Reason: fmt.Sprintf("nothing answers %q", ct)}
}

// bad returns a BAD_REQUEST for a member. reason continues the sentence that its path begins.
func bad(path, reason string, args ...any) *Error {
	e := Refuse(BadRequest, path+" "+reason, args...)
	e.Member = path
	return e
}

// overLimit returns a BAD_REQUEST for a message above a limit, which has the name that it has in
// cap.limits.
func overLimit(name string, limit int, reason string, args ...any) *Error {
	e := Refuse(BadRequest, reason, args...)
	e.Details = object(member(name, canonical.Int(int64(limit))))
	return e
}

// badSchema returns a SCHEMA_INVALID for a member, as bad does.
func badSchema(path, reason string, args ...any) *Error {
	return &Error{Code: SchemaInvalid, Retryable: true, Member: path, Reason: fmt.Sprintf(path+" "+reason, args...)}
}

// badSec returns a SECURITY_UNSUPPORTED for the structure of sec, as bad does.
func badSec(path, reason string, args ...any) *Error {
	e := Insecure(true, path+" "+reason, args...)
	e.Member = path
	return e
}

// maxText bounds the reason in details, in octets. The reason of a schema may quote the payload.
const maxText = 500

func bounded(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// supported lists the supported security mechanisms.
var supported = object(member("supported", object(
	member("enc", canonical.Strings(AlgX25519)),
	member("modes", canonical.Strings(modes...)),
	member("sig", canonical.Strings(AlgEd25519)),
)))

func object(members ...canonical.Member) canonical.Value { return canonical.Object(members...) }

func member(name string, v canonical.Value) canonical.Member {
	return canonical.Member{Name: name, Value: v}
}
