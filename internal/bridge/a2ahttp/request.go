package a2ahttp

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2ajson"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/profiles/a2a"
)

// address is where an agent is, and how it is spoken to.
type address struct {
	binding Binding
	url     string
}

// request is one request of an agent. It knows how to read what is answered.
type request struct {
	operation a2abinding.Operation
	method    string
	url       string
	header    http.Header
	body      []byte
	id        string // of JSON-RPC, empty for REST
}

// newRequest returns the request of an operation. octets are its raw input,
// input the decoded one.
func newRequest(at address, o a2abinding.Operation, octets []byte, input a2ajson.Object) (*request, error) {
	if at.binding == REST {
		return restRequest(at.url, o, octets, input)
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	q := &request{operation: o, method: http.MethodPost, url: at.url, id: hex.EncodeToString(random[:])}
	q.body = fmt.Appendf(make([]byte, 0, len(octets)+128), `{"jsonrpc":"2.0","id":%q,"method":%q,"params":`, q.id, o.Name)
	q.body = append(append(q.body, octets...), '}')
	return q, nil
}

// answered is a failure that the agent said, with the octets of its error object.
type answered struct {
	code    int
	failure a2a.Failure
}

func (a *answered) Error() string { return "a2ahttp: the agent answered: " + a.failure.Reason }

// errRefused: the agent answered with a status that says no, and no error of A2A.
var errRefused = errors.New("a2ahttp: request refused")

// invalid is the failure for an answer that an agent must not give.
func invalid(what string) error {
	return a2abinding.Fail(a2abinding.CodeInvalidResponse, "invalid agent response: "+what)
}

// read reads an answer that is not a stream.
func (q *request) read(r *upstream.Response) ([]byte, error) {
	body, err := r.Body()
	if err != nil {
		return nil, err
	}
	good := r.Status >= 200 && r.Status <= 299
	if good && q.operation.Empty && len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	var output []byte
	switch {
	case q.id != "":
		output, err = q.result(body)
	case !good:
		err = restError(body)
	case !json.Valid(body):
		err = invalid("it is not JSON")
	default:
		output = body
	}
	if _, said := errors.AsType[*answered](err); err != nil && !good && !said {
		return nil, fmt.Errorf("%w: status %d", errRefused, r.Status)
	}
	if q.operation.Empty {
		output = nil
	}
	return output, err
}

// restError is the failure that a REST answer says.
func restError(body []byte) error {
	f, err := a2abinding.ParseREST(body)
	if err != nil {
		return err
	}
	return &answered{f.Code, *f.Result()}
}

// result returns the octets of the result in a response of JSON-RPC.
func (q *request) result(body []byte) ([]byte, error) {
	response, err := a2ajson.Parse(body)
	if err != nil {
		return nil, invalid("it is not a JSON object")
	}
	raw, err := response.Find("id")
	result, fault := response.Find("result")
	failure, other := response.Find("error")
	if err := errors.Join(err, fault, other); err != nil {
		return nil, invalid("a member of it: " + err.Error())
	}
	var id string
	switch {
	case raw == nil || bytes.Equal(raw, []byte("null")):
		if failure == nil {
			return nil, invalid("it has no id")
		}
	case json.Unmarshal(raw, &id) != nil || id != q.id:
		return nil, invalid("its id is another")
	}
	switch {
	case failure != nil && !bytes.Equal(failure, []byte("null")):
		f, err := a2abinding.Parse(failure)
		if err != nil {
			return nil, invalid("its error has no code")
		}
		told := f.Result()
		told.Output = failure
		return nil, &answered{f.Code, *told}
	case result == nil && q.operation.Empty && !q.operation.Streams: // as the SDK for Go writes it
		return nil, nil
	case result == nil:
		return nil, invalid("it has neither result nor error")
	}
	return result, nil
}

// streams reports whether a response is a stream of events.
func streams(r *upstream.Response) bool {
	return r.MediaType() == "text/event-stream" && r.Status == http.StatusOK
}

// restRequest returns the request of an operation by REST: members that the table
// of the mapping assigns to path and query go there; the input is the body, if
// the operation has one.
func restRequest(base string, o a2abinding.Operation, octets []byte, input a2ajson.Object) (*request, error) {
	route := routes[o.Name]
	q := &request{operation: o, method: route.method}
	if route.method == http.MethodPost {
		q.body = octets
	}
	path, err := segment(input, "tenant", true)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(route.path, "/"), "/") {
		name, rest, isName := strings.Cut(strings.TrimPrefix(part, "{"), "}")
		if !strings.HasPrefix(part, "{") || !isName {
			path += "/" + part
			continue
		}
		s, err := segment(input, name, false)
		if err != nil {
			return nil, err
		}
		path += s + rest
	}
	query := make(url.Values)
	for _, name := range route.query {
		value, err := input.Scalar(name)
		if err != nil {
			return nil, err
		}
		if value != "" {
			query.Set(name, value)
		}
	}
	q.url = strings.TrimSuffix(base, "/") + path
	if len(query) > 0 {
		q.url += "?" + query.Encode()
	}
	return q, nil
}

// route is where an operation is in REST. Names in braces are members of its input.
type route struct {
	method, path string
	query        []string
}

const configs = "/tasks/{taskId}/pushNotificationConfigs"

var routes = map[string]route{
	a2abinding.SendMessage:          {http.MethodPost, "/message:send", nil},
	a2abinding.SendStreamingMessage: {http.MethodPost, "/message:stream", nil},
	a2abinding.GetTask:              {http.MethodGet, "/tasks/{id}", []string{"historyLength"}},
	a2abinding.ListTasks: {http.MethodGet, "/tasks", []string{
		"contextId", "status", "pageSize", "pageToken", "historyLength", "statusTimestampAfter", "includeArtifacts",
	}},
	a2abinding.CancelTask:           {http.MethodPost, "/tasks/{id}:cancel", nil},
	a2abinding.SubscribeToTask:      {http.MethodPost, "/tasks/{id}:subscribe", nil},
	a2abinding.CreatePushConfig:     {http.MethodPost, configs, nil},
	a2abinding.GetPushConfig:        {http.MethodGet, configs + "/{id}", nil},
	a2abinding.ListPushConfigs:      {http.MethodGet, configs, []string{"pageSize", "pageToken"}},
	a2abinding.DeletePushConfig:     {http.MethodDelete, configs + "/{id}", nil},
	a2abinding.GetExtendedAgentCard: {http.MethodGet, "/extendedAgentCard", nil},
}

// segment is a member of the input as a segment of a path, with the slash before it.
// A value that would lead elsewhere names nothing, also at a server that takes escaped slashes
// for slashes.
func segment(input a2ajson.Object, name string, optional bool) (string, error) {
	value, err := input.Text(name)
	switch {
	case err != nil:
		return "", err
	case value == "" && optional:
		return "", nil
	case value == "" || leadsElsewhere(value):
		return "", a2abinding.Fail(a2abinding.CodeInvalidParams, name+" is missing, or is none")
	}
	return "/" + strings.ReplaceAll(url.PathEscape(value), ":", "%3A"), nil
}

// leadsElsewhere reports whether a value has control characters, or segments of a path that go
// up or stay.
func leadsElsewhere(value string) bool {
	for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == "." || part == ".." {
			return true
		}
	}
	return strings.ContainsFunc(value, unicode.IsControl)
}
