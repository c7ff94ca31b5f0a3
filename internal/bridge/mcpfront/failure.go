package mcpfront

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// Codes of MCP that this front answers with, or makes a status of, beside those of mcpmap.
const (
	codeHeaderMismatch = -32020
	codeMissingCap     = -32021
)

// refusal is what is wrong with a request, before any of it was passed on.
type refusal struct {
	code int
	text string
	id   []byte        // of the request, octet for octet; nil is null
	swp  profiles.Code // the code of it in SWP; OK is none

	retryable bool
}

// invalid is a request that HTTP or MCP does not allow.
func invalid(text string) refusal { return refusal{code: mcpmap.CodeInvalidRequest, text: text} }

// malformed is a body that is no JSON-RPC message of the kind that it seems to be
// (ABUSE GW-06). m is its outline, as far as there is one.
func malformed(m *mcpmap.Message, err error) refusal {
	out := refusal{code: mcpmap.CodeInternal, text: "the body is not a JSON-RPC message", swp: profiles.InvalidMCPPayload}
	if e, ok := errors.AsType[*profiles.Error](err); ok {
		out.text, out.code = e.Text, mcpmap.Malformed(e)
	}
	if m.Kind() == mcpmap.Request {
		out.id = m.ID()
	}
	return out
}

// busy is a bound that is reached.
func busy(id []byte, text string) refusal {
	return refusal{code: mcpmap.CodeInternal, text: text, id: id, swp: profiles.RateLimitExceeded, retryable: true}
}

// maxErrorID bounds an id that is repeated in an error.
const maxErrorID = 150

// append appends the JSON-RPC error.
func (e *refusal) append(dst []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if len(e.id) > 0 && len(e.id) <= maxErrorID {
		dst = append(dst, e.id...)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.code), 10)
	dst = append(dst, `,"message":`...)
	text, err := json.Marshal(e.text)
	if err != nil {
		text = []byte(`""`) // a string can be written
	}
	dst = append(dst, text...)
	if e.swp != profiles.OK {
		dst = append(dst, `,"data":{"code":"`...)
		dst = append(dst, e.swp.String()...)
		dst = append(dst, `","retryable":`...)
		dst = strconv.AppendBool(dst, e.retryable)
		dst = append(dst, '}')
	}
	return append(dst, "}}"...)
}

// failure is the answer to a request that has failed here.
func (f *Front) failure(id []byte, err error) []byte {
	return mcpmap.AppendFailureOf(nil, id, err, f.opts.Identity)
}

// refuse answers a request that goes no further.
func (f *Front) refuse(w http.ResponseWriter, status int, e refusal) {
	f.counts.refused.Add(1)
	f.writeJSON(w, status, e.append(nil))
}

// statusOf is the HTTP status of the answer to a modern request that came without
// one (MCP mapping §3).
func statusOf(response []byte) int {
	var m mcpmap.Message
	if m.Scan(response) != nil || m.Error() == nil {
		return http.StatusOK
	}
	var e struct {
		Code json.Number `json:"code"`
	}
	if json.Unmarshal(m.Error(), &e) != nil {
		return http.StatusOK
	}
	code, err := e.Code.Int64()
	switch {
	case err != nil:
		return http.StatusOK
	case code == mcpmap.CodeMethodNotFound:
		return http.StatusNotFound
	case code == mcpmap.CodeInvalidRequest, code == mcpmap.CodeInvalidParams, code <= codeHeaderMismatch && code >= mcpmap.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
