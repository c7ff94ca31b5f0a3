package mcpmap

import (
	"context"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/slimwire/swp/profiles"
)

// Codes of JSON-RPC 2.0, and the code of MCP for an unsupported version.
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeUnsupportedVersion = -32022
)

// Bounds of an error answer: it is at most 512 octets (ABUSE RS-09).
const (
	maxErrorID   = 150 // a longer id is answered as null
	maxErrorText = 220 // octets of message, escaped
	maxEndpoint  = 128 // a longer identity is left out
	maxAnswer    = 512
)

// rpcCode maps a code to the code of a JSON-RPC error (SWP profiles §1). Codes that are
// details of another one are mapped like that one.
func rpcCode(c profiles.Code) int {
	switch c {
	case profiles.InvalidFrame, profiles.FrameTooLarge, profiles.InvalidUvarint:
		return CodeParse
	case profiles.UnsupportedVersion:
		return CodeInvalidRequest
	case profiles.UnknownProfile:
		return CodeMethodNotFound
	case profiles.InvalidEnvelope, profiles.MsgIDInvalid, profiles.PayloadTooLarge, profiles.ExtTooLarge:
		return CodeInvalidRequest
	}
	return CodeInternal
}

// Malformed returns the code of the JSON-RPC error for a request that is none. err is that of
// Message.Scan or Message.Check.
func Malformed(err error) int {
	if profiles.AsError(err).Detail == detailShape { // it is JSON
		return CodeInvalidRequest
	}
	return CodeParse
}

// AppendMalformed is AppendFailure for a request that is none, with the code of Malformed.
func AppendMalformed(dst, id []byte, err error) []byte {
	return appendFailure(dst, id, Malformed(err), profiles.AsError(err), "")
}

// AppendFailure appends the JSON-RPC error by which a caller learns that its
// request failed on our side of the server: err is what Client.Do returned, or
// any other error. id is the raw token of the request; null stands for an
// absent or very long one. The answer has at most 512 octets.
//
//	{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"…","data":{"code":"ERR_…","retryable":false}}}
func AppendFailure(dst, id []byte, err error) []byte { return AppendFailureOf(dst, id, err, "") }

// AppendFailureOf is AppendFailure with the identity of the endpoint that writes the error,
// as data.endpoint. With it a caller can distinguish errors of several endpoints on the
// way. An identity that is empty, or too long for the message, is left out.
func AppendFailureOf(dst, id []byte, err error, endpoint string) []byte {
	e := Failure(err)
	return appendFailure(dst, id, rpcCode(e.Code), e, endpoint)
}

func appendFailure(dst, id []byte, code int, e *profiles.Error, endpoint string) []byte {
	text := e.Text
	if text == "" {
		text = "request failed"
	}
	return appendData(appendErrorHead(dst, id, code, text, textRoom(id, endpoint)), e, endpoint)
}

// appendData appends the data of an error and closes the answer.
func appendData(dst []byte, e *profiles.Error, endpoint string) []byte {
	dst = append(dst, `,"data":{"code":"`...)
	dst = append(dst, e.Code.String()...)
	dst = append(dst, `","retryable":`...)
	dst = strconv.AppendBool(dst, e.Retryable)
	if endpoint != "" && len(endpoint) <= maxEndpoint {
		dst = append(dst, `,"endpoint":`...)
		dst = appendQuoted(dst, endpoint, maxEndpoint)
	}
	return append(dst, "}}}"...)
}

// textRoom is the room for the message of an answer.
func textRoom(id []byte, endpoint string) int {
	if endpoint == "" || len(endpoint) > maxEndpoint {
		return maxErrorText
	}
	const rest = 160 // the constant parts and the names of members
	return min(maxErrorText, maxAnswer-rest-min(len(id), maxErrorID)-len(endpoint))
}

// Failure returns the code of an error that ended a call, as returned by Client.Do.
func Failure(err error) *profiles.Error {
	var e *profiles.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return &profiles.Error{Code: profiles.Internal, Detail: detailDeadline, Text: "no answer in time", Cause: err}
	case errors.Is(err, context.Canceled):
		return &profiles.Error{Code: profiles.Internal, Detail: detailCancelled, Text: "cancelled", Cause: err}
	}
	// Not retryable: it is unknown whether the server executed the request, and a tool may
	// have effects where a repetition does harm.
	return &profiles.Error{Code: profiles.Internal, Detail: detailLink, Text: "connection lost", Cause: err}
}

// appendErrorHead appends an error answer up to its message, which is cut to room; the
// caller closes the error and the answer.
func appendErrorHead(dst, id []byte, code int, text string, room int) []byte {
	if len(id) == 0 || len(id) > maxErrorID {
		id = []byte("null")
	}
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	return appendQuoted(dst, text, room)
}

// appendError appends a JSON-RPC error without data.
func appendError(dst, id []byte, code int, text string) []byte {
	return append(appendErrorHead(dst, id, code, text, maxErrorText), "}}"...)
}

// appendQuoted appends text as a JSON string whose content has at most limit
// octets; longer text is cut.
func appendQuoted(dst []byte, text string, limit int) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	end := len(dst) + limit
	for _, r := range text {
		var piece [6]byte
		out := piece[:0]
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r < 0x20 || r == 0x7f:
			out = append(out, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			out = utf8.AppendRune(out, r)
		}
		if len(dst)+len(out) > end {
			break
		}
		dst = append(dst, out...)
	}
	return append(dst, '"')
}
