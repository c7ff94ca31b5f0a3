package rpc

import (
	"context"
	"errors"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// The values of error_code.
const (
	CodeUnknownMethod  = "unknown_method"
	CodeInvalidRequest = "invalid_request"
	CodeUnauthorized   = "unauthorized"
	CodeTimeout        = "timeout"
	CodeUnavailable    = "unavailable"
	CodeCancelled      = "cancelled"
	CodeInternal       = "internal"
)

// Error is the failure of a call: a method returns it as its answer, and Call and Stream
// return it for an RPC_ERR.
type Error struct {
	Code    string // one of the Code constants, or the method's own
	Message string // for people; reaches the peer

	// Retryable says that the same call may succeed later. A method may set it only if
	// repeating it is harmless: with an idempotency_key the call runs again when it is
	// repeated.
	Retryable bool

	// Endpoint is the identity of the endpoint that refused the call (extension 53). Empty:
	// the method failed, or the endpoint has not given its identity.
	Endpoint string

	// Keeps is what the RPC_ERR keeps when it is forwarded.
	Keeps profiles.EndToEnd
}

func (e *Error) Error() string { return "rpc: " + e.Code + ": " + e.Message }

// The failures that this package returns itself.
var (
	errUnknownMethod = &Error{Code: CodeUnknownMethod, Message: "unknown method"}
	errCancelled     = &Error{Code: CodeCancelled, Message: "cancelled by the caller"}
	errTimeout       = &Error{Code: CodeTimeout, Message: "the method took too long", Retryable: true}
	errUnauthorized  = &Error{Code: CodeUnauthorized, Message: "not allowed to call this method"}
	errKeyDenied     = &Error{Code: CodeUnauthorized, Message: "not allowed to call this method with an idempotency_key"}
	errKey           = &Error{Code: CodeInvalidRequest, Message: "idempotency_key is not supported for this method"}
	errKeyLength     = &Error{Code: CodeInvalidRequest, Message: "idempotency_key has more than 256 octets"}
	errConflict      = &Error{Code: CodeInvalidRequest, Message: "idempotency_key was used with another method or other params"}

	// Final failures of calls with an idempotency_key.
	errExpired = &Error{Code: CodeTimeout, Message: "the method took too long; whether it had an effect is not known"}
	errCutOff  = &Error{Code: CodeInternal, Message: "outcome unknown: the endpoint stopped while the call ran"}
	errUnkept  = &Error{Code: CodeInternal, Message: "the call has ended, but its outcome cannot be kept under an idempotency_key"}
)

// detailInUse is the detail for an rpc_id in use. The refusal gets no RPC_ERR, because that
// would end the call which uses the rpc_id.
const detailInUse = "rpc_id_in_use"

// errUnknownCall refuses an answer without a call.
var errUnknownCall = &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: "unknown_rpc_id", Text: "rpc: answer to no call of this side"}

func errInUse() error {
	return &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: detailInUse, Text: "rpc: rpc_id is in use on this connection"}
}

// failure classifies the error of a method: an answer of the profile, or an error that the
// endpoint reports and answers (see refusal).
func failure(err error) (*Error, *profiles.Error) {
	var answer *Error
	var own *profiles.MethodError
	var fault *profiles.Error
	switch {
	case errors.As(err, &answer):
		return answer, nil
	case errors.As(err, &own):
		return &Error{Code: own.Code, Message: own.Message}, nil
	case errors.As(err, &fault):
		return nil, fault
	case errors.Is(err, context.DeadlineExceeded):
		return errTimeout, nil
	}
	return nil, &profiles.Error{Code: profiles.Internal, Text: "internal error", Cause: err, Domain: true}
}

// inWords converts a refusal into an *Error.
func inWords(fault *profiles.Error) *Error {
	code, retryable := codeOf(fault)
	text := fault.Text
	if text == "" {
		text = fault.Code.String()
	}
	return &Error{Code: code, Message: p1.Clip(text, wordsBytes), Retryable: retryable}
}

// wordsBytes bounds the message of a stored refusal, so that it is not cut again when it is
// sent with an rpc_id of the usual size.
const wordsBytes = 256

// refusal builds the RPC_ERR for a request that the endpoint refused. There is none if the
// rpc_id is unreadable or too long, or if its msg_id or rpc_id is in use, because the
// RPC_ERR would seem to end another call.
func refusal(req *profiles.Request, fault *profiles.Error) (e1.Envelope, bool) {
	if req.MsgType != TypeReq || fault.Code == profiles.DuplicateMsgID || fault.Detail == detailInUse {
		return e1.Envelope{}, false
	}
	var in Req
	if _ = in.Decode(req.Payload); len(in.RPCID) == 0 { // other faults are in fault
		return e1.Envelope{}, false
	}
	e := inWords(fault)
	m := Err{RPCID: in.RPCID, ErrorCode: []byte(e.Code), Retryable: e.Retryable, ErrorMessage: []byte(e.Message)}
	if over := m.Size() - p1.MaxRefusal; over > 0 {
		if over >= len(e.Message) {
			return e1.Envelope{}, false
		}
		m.ErrorMessage = p1.Clip(m.ErrorMessage, len(e.Message)-over)
	}
	return e1.Envelope{MsgType: TypeErr, Payload: m.Append(make([]byte, 0, m.Size()))}, true
}

// codeOf returns the error_code for a refusal.
func codeOf(fault *profiles.Error) (code string, retryable bool) {
	switch fault.Code {
	case profiles.SecurityPolicy:
		return CodeUnauthorized, fault.Retryable
	case profiles.RateLimitExceeded:
		return CodeUnavailable, true
	case profiles.Internal:
		if fault.Detail == "deadline" {
			return CodeTimeout, true
		}
		return CodeInternal, fault.Retryable
	}
	return CodeInvalidRequest, fault.Retryable
}
