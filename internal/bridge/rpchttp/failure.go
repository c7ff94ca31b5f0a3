package rpchttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/profiles/rpc"
)

// fail ends a call that got no proper response.
func (m *method) fail(p *work, err error) {
	if p.Context().Err() != nil {
		p.Fail(err) // which changes nothing, unless this endpoint stops
		return
	}
	m.trouble(m.name, err)
	p.Fail(m.explain(err))
}

// unknown is appended where a call may or may not have had an effect.
const unknown = "; whether the call had an effect is not known"

// backEnd names the server for a peer.
func (m *method) backEnd() string { return "back end " + m.server }

// explain says an error of the bridge in words for the peer. They contain the name of the
// server, and never its address.
func (m *method) explain(err error) error {
	server := m.backEnd()
	switch {
	case errors.Is(err, upstream.ErrBusy):
		return &rpc.Error{Code: rpc.CodeUnavailable, Message: "too many calls to " + server, Retryable: true}
	case errors.Is(err, upstream.ErrUnreached):
		return &rpc.Error{Code: rpc.CodeUnavailable, Message: server + " cannot be reached", Retryable: true}
	case errors.Is(err, upstream.ErrLost):
		return m.uncertain(rpc.CodeUnavailable, "the connection to "+server+" was lost")
	case errors.Is(err, io.EOF):
		return m.uncertain(rpc.CodeUnavailable, server+" ended the stream without a result")
	case errors.Is(err, upstream.ErrSilent), errors.Is(err, upstream.ErrTotal):
		return m.uncertain(rpc.CodeTimeout, server+" took too long")
	case errors.Is(err, upstream.ErrTooLarge):
		return &rpc.Error{Code: rpc.CodeInternal, Message: "the answer of " + server + " is too large"}
	case errors.Is(err, upstream.ErrBroken):
		return &rpc.Error{Code: rpc.CodeInternal, Message: server + " gave no proper answer"}
	}
	return err
}

// uncertain is a failure after the server may have acted.
func (m *method) uncertain(code, message string) *rpc.Error {
	if m.repeatable {
		return &rpc.Error{Code: code, Message: message, Retryable: true}
	}
	return &rpc.Error{Code: code, Message: message + unknown}
}

// statusError is the ERR for a response that is not 2xx. own says that the response has none and its status stands for it.
func (m *method) statusError(p *work, r *upstream.Response) (failure *rpc.Error, own bool) {
	if r.MediaType() == "application/json" {
		if body, err := r.Body(); err == nil {
			if failure, ok := parseError(body); ok {
				return failure, false
			}
		}
	}
	return m.ofStatus(p, r), true
}

// ofStatus is the ERR for a status that is not 2xx.
func (m *method) ofStatus(p *work, r *upstream.Response) *rpc.Error {
	failure := &rpc.Error{Code: rpc.CodeInvalidRequest, Message: fmt.Sprintf("%s answered with status %d", m.backEnd(), r.Status)}
	switch {
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden:
		failure.Code = rpc.CodeUnauthorized
	case r.Status == http.StatusNotFound:
		failure.Code = rpc.CodeUnknownMethod
	case r.Status == http.StatusRequestTimeout:
		failure.Code, failure.Retryable = rpc.CodeTimeout, true
	case r.Status == http.StatusTooManyRequests, r.Status == http.StatusServiceUnavailable:
		failure.Code, failure.Retryable = rpc.CodeUnavailable, true
	case r.Status == http.StatusGatewayTimeout:
		return m.uncertain(rpc.CodeTimeout, failure.Message)
	case r.Status == http.StatusBadGateway && p.IdempotencyKey() == "":
		failure.Code, failure.Retryable = rpc.CodeUnavailable, true
	case r.Status == http.StatusBadGateway:
		return m.uncertain(rpc.CodeUnavailable, failure.Message)
	case r.Status >= 500, r.Status < 400:
		failure.Code = rpc.CodeInternal
	}
	return failure
}

// Bounds on the error of a server, in octets.
const (
	maxCode    = 128
	maxMessage = 1024
)

// parseError reads {"code", "message", "retryable"}. Members of other names are
// of no interest; a code is required.
func parseError(octets []byte) (_ *rpc.Error, ok bool) {
	var e struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		Retryable bool   `json:"retryable"`
	}
	ok = json.Unmarshal(octets, &e) == nil && e.Code != "" && len(e.Code) <= maxCode
	if len(e.Message) > maxMessage {
		e.Message = strings.ToValidUTF8(e.Message[:maxMessage], "")
	}
	return &rpc.Error{Code: e.Code, Message: e.Message, Retryable: e.Retryable}, ok
}
