package rpc

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
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

// Error is the failure of a call: what a method returns to be answered with
// it, and what Call and Stream return for an RPC_ERR.
type Error struct {
	Code      string // one of the Code constants, or the method's own
	Message   string // for people; reaches the peer
	Retryable bool   // the same call may succeed later
}

func (e *Error) Error() string { return "rpc: " + e.Code + ": " + e.Message }

// The failures that this package answers with itself.
var (
	errUnknownMethod = &Error{Code: CodeUnknownMethod, Message: "unknown method"}
	errCancelled     = &Error{Code: CodeCancelled, Message: "cancelled by the caller"}
	errTimeout       = &Error{Code: CodeTimeout, Message: "the method took too long", Retryable: true}
	errKey           = &Error{Code: CodeInvalidRequest, Message: "idempotency_key is not supported for this method"}
)

// detailInUse marks the refusal of an rpc_id that is in use. It gets no
// RPC_ERR: that would be read as the end of the call that is using it.
const detailInUse = "RPC_ID_IN_USE"

func errInUse() error {
	return &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: detailInUse, Text: "rpc: rpc_id is in use on this connection"}
}

// failure sorts the error of a method: an answer of the domain, or one that the
// endpoint has to report and answer (see refusal).
func failure(err error) (*Error, *profiles.Error) {
	var answer *Error
	var fault *profiles.Error
	switch {
	case errors.As(err, &answer):
		return answer, nil
	case errors.As(err, &fault):
		return nil, fault
	case errors.Is(err, context.DeadlineExceeded):
		return errTimeout, nil
	}
	return nil, &profiles.Error{Code: profiles.Internal, Text: "internal error", Cause: err, Domain: true}
}

// refusalBytes keeps an answer of the endpoint within 512 octets as a frame,
// with an envelope around it whose msg_id has 64 octets.
const refusalBytes = 400

// refusal builds the RPC_ERR for a request that the endpoint refused. There is
// none where the rpc_id can not be read, where it is too long to be repeated,
// and where an RPC_ERR would seem to end another call: under a msg_id or an
// rpc_id that is in use.
func refusal(req *profiles.Request, fault *profiles.Error) (e1.Envelope, bool) {
	if req.MsgType != TypeReq || fault.Code == profiles.DuplicateMsgID || fault.Detail == detailInUse {
		return e1.Envelope{}, false
	}
	var in Req
	if _ = in.Decode(req.Payload); len(in.RPCID) == 0 { // what else is wrong with it is in fault
		return e1.Envelope{}, false
	}
	code, retryable := codeOf(fault)
	text := fault.Text
	if text == "" {
		text = fault.Code.String()
	}
	m := Err{RPCID: in.RPCID, ErrorCode: []byte(code), Retryable: retryable, ErrorMessage: []byte(text)}
	if over := m.Size() - refusalBytes; over > 0 {
		if over >= len(text) {
			return e1.Envelope{}, false
		}
		m.ErrorMessage = clip(m.ErrorMessage, len(text)-over)
	}
	return e1.Envelope{MsgType: TypeErr, Payload: m.Append(make([]byte, 0, m.Size()))}, true
}

// clip shortens UTF-8 text to at most n octets.
func clip(text []byte, n int) []byte {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// codeOf says a refusal in the words of this profile.
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
