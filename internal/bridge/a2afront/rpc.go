package a2afront

import (
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// rpc serves one request of JSON-RPC. Its id stays here and is returned octet
// for octet.
func (f *Front) rpc(w http.ResponseWriter, r *http.Request, link Link, at *place, held *memory.Hold) {
	body, status, refused := f.body(w, r, held)
	if refused != nil {
		f.counts.refused.Add(1)
		f.writeRPC(w, status, nil, refused.Append(nil))
		return
	}
	var m mcpmap.Message // used as a parser of JSON-RPC
	if refused := scan(&m, body); refused != nil {
		f.counts.refused.Add(1)
		// Who cannot be told by an id is told by the status too.
		f.writeRPC(w, http.StatusBadRequest, nil, refused.Append(nil))
		return
	}
	c := &call{agent: at.agent, input: m.Params(), params: f.serviceParams(r)}
	out := &rpcAnswer{f: f, events: f.newEvents(w, held), id: m.ID()}
	fault := f.prepare(r, link, c, string(m.Method()))
	switch {
	case fault != nil:
	case len(c.input) == 0 || string(c.input) == "null":
		c.input = []byte("{}")
	case c.input[0] != '{':
		fault = a2abinding.Fail(a2abinding.CodeInvalidParams, "params is not an object")
	}
	if fault != nil {
		f.counts.refused.Add(1)
		status := http.StatusOK
		if errors.Is(fault, errHeaders) {
			status = http.StatusRequestHeaderFieldsTooLarge
		}
		out.fail(w, c, status, failureOf(fault).Append(nil))
		return
	}
	if c.event = out.event; c.operation.Streams {
		c.idle = out.events.comment
		_ = out.events.start() // what fails later is told in the stream
	}
	f.counts.rpc.Add(1)
	ended, err := f.do(r.Context(), link, c)
	switch {
	case err != nil: // the client is gone
	case ended.failure != nil:
		out.fail(w, c, http.StatusOK, ended.object)
	case c.operation.Streams:
	case !held.Answer(2 * len(ended.output)): // they and the answer around them
		out.fail(w, c, http.StatusOK, noRoom.Append(nil))
	case len(ended.output) == 0:
		f.writeJSON(w, http.StatusOK, result(out.id, []byte("{}")))
	default:
		f.writeJSON(w, http.StatusOK, result(out.id, ended.output))
	}
}

// scan reads the outline of a request. Whatever parsers disagree about is refused
// (ABUSE GW-06).
func scan(m *mcpmap.Message, body []byte) *a2abinding.Failure {
	err := m.Scan(body)
	if err == nil {
		err = m.Check(mcpmap.Request)
	}
	if err == nil {
		return nil
	}
	return a2abinding.Fail(mcpmap.Malformed(err), profiles.AsError(err).Text)
}

// errHeaders: the service parameters have no room in a frame.
var errHeaders = a2abinding.Own(a2abinding.TooLarge, "the service parameters are too large")

// prepare finds the operation and applies the checks that all operations share.
func (f *Front) prepare(r *http.Request, link Link, c *call, name string) error {
	o, ok := a2abinding.Named(name)
	if !ok {
		return a2abinding.Fail(a2abinding.CodeUnknownMethod, "method not found")
	}
	c.operation = o
	if !checkParams(c.params, c.agent) {
		return errHeaders
	}
	if err := checkVersion(r); err != nil {
		return err
	}
	return f.checkExtensions(r.Context(), r, link, c.agent)
}

// failureOf is the failure that an error is, or one of this side.
func failureOf(err error) *a2abinding.Failure {
	if f, ok := errors.AsType[*a2abinding.Failure](err); ok {
		return f
	}
	return a2abinding.Own(a2abinding.LinkLost, "the request was given up")
}

// noRoom replaces an answer for which there is no room.
var noRoom = a2abinding.Own(a2abinding.TooLarge, "there is no room for the answer")

// body reads the body of a request, within its bounds in octets and time and as far as there is
// room for it.
func (f *Front) body(w http.ResponseWriter, r *http.Request, held *memory.Hold) ([]byte, int, *a2abinding.Failure) {
	switch kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); {
	case r.ContentLength == 0 && r.Header.Get("Content-Type") == "":
	case err != nil || kind != typeJSON && !strings.HasSuffix(kind, "+json"):
		return nil, http.StatusUnsupportedMediaType, a2abinding.Fail(a2abinding.CodeContentType, "the body has to be "+typeJSON)
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, http.StatusUnsupportedMediaType, a2abinding.Fail(a2abinding.CodeContentType, "the body must not be encoded")
	}
	if (r.ContentLength < 0 || r.ContentLength > memory.Small) && !f.opts.Served(f.opts.Caller(r)) {
		w.Header().Set("Connection", "close")
		return nil, http.StatusForbidden, a2abinding.Own(a2abinding.Denied, "no access rule lets this caller use an agent")
	}
	control, deadline := http.NewResponseController(w), time.Now().Add(f.opts.Body)
	_ = control.SetReadDeadline(deadline) // where there is one
	body, err := held.ReadAll(r.Context(), memory.Body{
		Reader: http.MaxBytesReader(w, r.Body, f.opts.MaxBody), Announced: r.ContentLength, Twice: true, Conn: control,
		Waited: func(d time.Duration) { _ = control.SetReadDeadline(deadline.Add(d)) },
	})
	var long *http.MaxBytesError
	switch {
	case errors.Is(err, memory.ErrFull):
		w.Header().Set("Connection", "close")
		w.Header().Set("Retry-After", "1")
		return nil, http.StatusServiceUnavailable, a2abinding.Own(a2abinding.LinkLost, "too many octets in flight")
	case errors.As(err, &long):
		return nil, http.StatusRequestEntityTooLarge,
			a2abinding.Own(a2abinding.TooLarge, "the body is longer than "+strconv.FormatInt(f.opts.MaxBody, 10)+" octets")
	case err != nil:
		return nil, http.StatusBadRequest, a2abinding.Fail(a2abinding.CodeParse, "the body did not come whole, or not in time")
	}
	_ = control.SetReadDeadline(time.Time{})
	return body, 0, nil
}

// result is the response to a request, around unchanged octets.
func result(id, octets []byte) []byte { return wrap(id, `,"result":`, octets) }

func wrap(id []byte, member string, octets []byte) []byte {
	if id == nil {
		id = []byte("null")
	}
	out := make([]byte, 0, len(id)+len(octets)+40)
	out = append(append(append(out, `{"jsonrpc":"2.0","id":`...), id...), member...)
	return append(append(out, octets...), '}')
}

// writeRPC answers with an error object.
func (f *Front) writeRPC(w http.ResponseWriter, status int, id, object []byte) {
	f.writeJSON(w, status, wrap(id, `,"error":`, object))
}

// rpcAnswer is the response to a request of JSON-RPC.
type rpcAnswer struct {
	f      *Front
	events *events
	id     []byte
}

func (a *rpcAnswer) event(octets []byte) error { return a.events.write(result(a.id, octets)) }

// fail says an error: in a stream, if it was asked for one, since that is where its
// clients look for it.
func (a *rpcAnswer) fail(w http.ResponseWriter, c *call, status int, object []byte) {
	if !c.operation.Streams || status != http.StatusOK {
		a.f.writeRPC(w, status, a.id, object)
		return
	}
	_ = a.events.write(wrap(a.id, `,"error":`, object)) // or the client is gone
}
