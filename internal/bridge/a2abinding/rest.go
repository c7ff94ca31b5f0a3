package a2abinding

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// AppendREST appends the body of a REST answer that says the failure:
//
//	{"error":{"code":404,"status":"NOT_FOUND","message":"…","details":[…]}}
//
// details are the data of the failure, octet for octet where they are an array.
func (f *Failure) AppendREST(dst []byte) []byte { return f.AppendRESTAs(dst, f.Status()) }

// AppendRESTAs is AppendREST for an answer with a given HTTP status.
func (f *Failure) AppendRESTAs(dst []byte, status int) []byte {
	dst = fmt.Appendf(dst, `{"error":{"code":%d,"status":%q,"message":`, status, f.known().grpc)
	message, err := json.Marshal(f.Message)
	if err != nil { // a string can always be written
		message = []byte(`""`)
	}
	dst = append(dst, message...)
	dst = append(dst, `,"details":`...)
	switch data := bytes.TrimSpace(f.Data); {
	case len(data) == 0:
		dst = append(dst, errorInfo(ofCode(f.Code).reason, DomainA2A, "")...)
	case data[0] == '[':
		dst = append(dst, data...)
	default:
		dst = append(append(append(dst, '['), data...), ']')
	}
	return append(dst, "}}"...)
}

// ParseREST reads the body of a REST answer that says a failure. Its details become
// the data, octet for octet, and ErrorInfo.reason the code.
func ParseREST(body []byte) (*Failure, error) {
	var answer struct {
		Error *struct {
			Message string          `json:"message"`
			Details json.RawMessage `json:"details"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Error == nil {
		return nil, fmt.Errorf("a2abinding: a REST answer without an error: %.100q", body)
	}
	f := &Failure{Code: CodeInternal, Message: answer.Error.Message, Data: answer.Error.Details}
	if bytes.Equal(f.Data, []byte("null")) {
		f.Data = nil
	}
	if i := f.info(); i != nil && i.Domain == DomainA2A {
		for _, k := range codes {
			if k.reason == i.Reason {
				f.Code = k.code
			}
		}
	}
	return f, nil
}
