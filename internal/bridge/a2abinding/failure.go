package a2abinding

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/slimwire/swp/profiles/a2a"
)

// Codes of errors: those of JSON-RPC, and the nine of A2A.
const (
	CodeParse           = -32700
	CodeInvalidRequest  = -32600
	CodeUnknownMethod   = -32601
	CodeInvalidParams   = -32602
	CodeInternal        = -32603
	CodeTaskNotFound    = -32001
	CodeNotCancelable   = -32002
	CodeNoPush          = -32003
	CodeUnsupported     = -32004
	CodeContentType     = -32005
	CodeInvalidResponse = -32006
	CodeNoExtendedCard  = -32007
	CodeNeedsExtension  = -32008
	CodeVersion         = -32009
)

// Domains of ErrorInfo.
const (
	DomainA2A = "a2a-protocol.org"
	domainOwn = "slimwire"
)

// typeErrorInfo marks the detail that says why.
const typeErrorInfo = "type.googleapis.com/google.rpc.ErrorInfo"

// Reason says why this side failed, as ErrorInfo.reason in its own domain.
type Reason string

// The reasons of a CodeInternal that is not the agent's.
const (
	NoRoute  Reason = "NO_ROUTE"
	Denied   Reason = "DENIED"
	LinkLost Reason = "LINK_LOST"
	Deadline Reason = "DEADLINE"
	TooLarge Reason = "TOO_LARGE"
)

var ownStatus = map[Reason]int{
	NoRoute: http.StatusBadGateway, Denied: http.StatusForbidden, LinkLost: http.StatusServiceUnavailable,
	Deadline: http.StatusGatewayTimeout, TooLarge: http.StatusRequestEntityTooLarge,
}

// known is what the other bindings say for a code.
type known struct {
	code   int
	reason string // ErrorInfo.reason in DomainA2A
	status int    // of HTTP
	grpc   string // status of google.rpc
}

var codes = [...]known{
	{CodeParse, "PARSE_ERROR", http.StatusBadRequest, "INVALID_ARGUMENT"},
	{CodeInvalidRequest, "INVALID_REQUEST", http.StatusBadRequest, "INVALID_ARGUMENT"},
	{CodeUnknownMethod, "METHOD_NOT_FOUND", http.StatusNotImplemented, "UNIMPLEMENTED"},
	{CodeInvalidParams, "INVALID_PARAMS", http.StatusBadRequest, "INVALID_ARGUMENT"},
	{CodeInternal, "INTERNAL_ERROR", http.StatusInternalServerError, "INTERNAL"},
	{CodeTaskNotFound, "TASK_NOT_FOUND", http.StatusNotFound, "NOT_FOUND"},
	{CodeNotCancelable, "TASK_NOT_CANCELABLE", http.StatusBadRequest, "FAILED_PRECONDITION"},
	{CodeNoPush, "PUSH_NOTIFICATION_NOT_SUPPORTED", http.StatusBadRequest, "FAILED_PRECONDITION"},
	{CodeUnsupported, "UNSUPPORTED_OPERATION", http.StatusBadRequest, "FAILED_PRECONDITION"},
	{CodeContentType, "CONTENT_TYPE_NOT_SUPPORTED", http.StatusBadRequest, "INVALID_ARGUMENT"},
	{CodeInvalidResponse, "INVALID_AGENT_RESPONSE", http.StatusInternalServerError, "INTERNAL"},
	{CodeNoExtendedCard, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", http.StatusBadRequest, "FAILED_PRECONDITION"},
	{CodeNeedsExtension, "EXTENSION_SUPPORT_REQUIRED", http.StatusBadRequest, "FAILED_PRECONDITION"},
	{CodeVersion, "VERSION_NOT_SUPPORTED", http.StatusBadRequest, "FAILED_PRECONDITION"},
}

// reasons are those of errors about the credentials of a caller, for which A2A has no code of JSON-RPC.
// Agents choose one.
var reasons = [...]known{
	{0, "UNAUTHENTICATED", http.StatusUnauthorized, "UNAUTHENTICATED"},
	{0, "UNAUTHORIZED", http.StatusForbidden, "PERMISSION_DENIED"},
	{0, "PERMISSION_DENIED", http.StatusForbidden, "PERMISSION_DENIED"},
}

// known returns what the other bindings say for the failure: by its code if A2A has that, else by its
// reason.
func (f *Failure) known() known {
	k := ofCode(f.Code)
	if k.reason != "" && f.Code != CodeInternal {
		return k
	}
	if info := f.info(); info != nil && info.Domain == DomainA2A {
		for _, r := range reasons {
			if r.reason == info.Reason {
				return r
			}
		}
	}
	return k
}

func ofCode(code int) known {
	for _, k := range codes {
		if k.code == code {
			return k
		}
	}
	return known{code: code, status: http.StatusInternalServerError, grpc: "INTERNAL"}
}

// Failure is how an operation fails: the error object of JSON-RPC.
type Failure struct {
	Code    int
	Message string

	// Data is the member data, unchanged, or nil.
	Data []byte
}

func (f *Failure) Error() string { return fmt.Sprintf("a2a: %s (error %d)", f.Message, f.Code) }

// Fail returns a Failure with a code of A2A or JSON-RPC, and the ErrorInfo that
// belongs to it.
func Fail(code int, message string) *Failure { return fail(code, message, "") }

// Own returns a Failure of this side (mcp-a2a mapping R6).
func Own(reason Reason, message string) *Failure { return own(reason, message, "") }

func fail(code int, message, endpoint string) *Failure {
	return &Failure{Code: code, Message: message, Data: errorInfo(ofCode(code).reason, DomainA2A, endpoint)}
}

func own(reason Reason, message, endpoint string) *Failure {
	return &Failure{Code: CodeInternal, Message: message, Data: errorInfo(string(reason), domainOwn, endpoint)}
}

// errorInfo is the detail that says why, and which endpoint says so unless that is
// empty.
func errorInfo(reason, domain, endpoint string) []byte {
	data := fmt.Appendf(nil, `[{"@type":%q,"reason":%q,"domain":%q`, typeErrorInfo, reason, domain)
	if by, err := json.Marshal(endpoint); endpoint != "" && err == nil {
		data = append(append(append(data, `,"metadata":{"endpoint":`...), by...), '}')
	}
	return append(data, "}]"...)
}

// Append appends the error object. Members stand in the order code, message, data.
func (f *Failure) Append(dst []byte) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(f.Code), 10)
	dst = append(dst, `,"message":`...)
	message, err := json.Marshal(f.Message)
	if err != nil { // a string can always be written
		message = []byte(`""`)
	}
	dst = append(dst, message...)
	if f.Data != nil {
		dst = append(append(dst, `,"data":`...), f.Data...)
	}
	return append(dst, '}')
}

// Parse reads an error object.
func Parse(octets []byte) (*Failure, error) {
	var object struct {
		Code    *int            `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(octets, &object); err != nil || object.Code == nil {
		return nil, fmt.Errorf("a2abinding: an error without a code: %.100q", octets)
	}
	f := &Failure{Code: *object.Code, Message: object.Message, Data: object.Data}
	if bytes.Equal(f.Data, []byte("null")) {
		f.Data = nil
	}
	return f, nil
}

// Result returns the error by which a Worker ends a Task so (R5).
func (f *Failure) Result() *a2a.Failure {
	reason := f.Message
	if reason == "" {
		reason = ofCode(f.Code).reason
	}
	return &a2a.Failure{Reason: reason, Output: f.Append(nil)}
}

// OfResult returns how the Result of a Task with ok = false has failed. octets is the
// error object as it came, for those that pass it on. A Result without one is an
// endpoint's own, on this side or the other: metadata of its ErrorInfo names it, if the
// Result does.
func OfResult(r *a2a.Result) (f *Failure, octets []byte) {
	if f, err := Parse(r.Output); err == nil {
		return f, r.Output
	}
	f = ofReason(r.Reason, r.Endpoint)
	return f, f.Append(nil)
}

// ofReason is a failure that an endpoint said in words. endpoint is who, empty if that
// is not known.
func ofReason(reason, endpoint string) *Failure {
	switch reason {
	case a2a.ReasonHops:
		return own(NoRoute, reason, endpoint)
	case a2a.ReasonDenied:
		return own(Denied, reason, endpoint)
	case a2a.ReasonDeadline:
		return own(Deadline, reason, endpoint)
	case a2a.ReasonSize, a2a.ReasonEvents:
		return own(TooLarge, reason, endpoint)
	}
	if strings.HasPrefix(reason, a2a.ReasonUnsupported) {
		return own(NoRoute, reason, endpoint)
	}
	if strings.HasPrefix(reason, a2a.ReasonChain) || strings.HasPrefix(reason, a2a.ReasonHint) {
		return own(Denied, reason, endpoint)
	}
	if strings.HasPrefix(reason, a2a.ReasonMalformed) {
		return fail(CodeInvalidParams, reason, endpoint)
	}
	return own(LinkLost, reason, endpoint)
}

// Status is the HTTP status for the failure.
func (f *Failure) Status() int {
	if f.Code == CodeInternal {
		if info := f.info(); info != nil && info.Domain == domainOwn {
			if status, ok := ownStatus[Reason(info.Reason)]; ok {
				return status
			}
		}
	}
	return f.known().status
}

// OfExtension reports whether a message was refused because it breaks the rules of an extension:
// the ErrorInfo names the extension.
func (f *Failure) OfExtension() bool {
	info := f.info()
	return f.Code == CodeInvalidParams && info != nil && info.Domain == DomainA2A && info.Metadata.Extension != ""
}

// info is the subset of ErrorInfo that is looked at.
type info struct {
	Type     string `json:"@type"`
	Reason   string `json:"reason"`
	Domain   string `json:"domain"`
	Metadata struct {
		Extension string `json:"extension"`
	} `json:"metadata"`
}

func (f *Failure) info() *info {
	var details []json.RawMessage
	if json.Unmarshal(f.Data, &details) != nil {
		return nil
	}
	for _, d := range details {
		var i info
		if json.Unmarshal(d, &i) == nil && i.Type == typeErrorInfo {
			return &i
		}
	}
	return nil
}
