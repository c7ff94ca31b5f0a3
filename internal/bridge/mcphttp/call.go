package mcphttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpheader"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// backCall is one request on its way to the server: a POST, and the response or the
// stream of events that answers it. What answers a request is known by the POST; by
// its id it is only checked.
type backCall struct {
	b        *Backend
	x        *mcpmap.Exchange
	who      string         // the identity of its client
	session  *backSession   // nil in the stateless era
	msg      mcpmap.Message // over its own octets
	params   [][]byte
	key      string // of the id
	progress string // of the progress token, or ""
	long     bool   // without a timeout
	timeout  time.Duration
	trace    profiles.Trace

	ctx   context.Context
	stop  context.CancelCauseFunc
	timer *time.Timer
	begun atomic.Bool // it is being sent, or will never be
}

func newBackCall(b *Backend, x *mcpmap.Exchange, s *backSession, who string, long bool) *backCall {
	c := &backCall{
		b: b, x: x, who: who, session: s, msg: x.Message.On(bytes.Clone(x.Message.Octets())),
		timeout: b.opts.Timeouts.Timeout(&x.Message), key: x.Key(), progress: mcpmap.TokenKey(x.Message.ProgressToken()), long: long,
		trace: profiles.TraceOf(x.Context()),
	}
	for _, p := range x.Params() {
		c.params = append(c.params, bytes.Clone(p))
	}
	ctx := b.ctx
	if s != nil {
		ctx = s.ctx
	}
	c.ctx, c.stop = context.WithCancelCause(ctx)
	if !c.long {
		c.timer = time.AfterFunc(forever, c.quiet) // it starts with the request
	}
	return c
}

// claim decides whether the call is sent or given up before: the first who claims it
// gets true.
func (c *backCall) claim() bool { return c.begun.CompareAndSwap(false, true) }

// end is called once nothing of the call is under way any more.
func (c *backCall) end() {
	c.stop(errGone)
	if c.timer != nil {
		c.timer.Stop()
	}
	c.b.finished(c)
}

// stateless is a call of the stateless era.
func (c *backCall) stateless() {
	defer c.end()
	era, err := c.b.learn(c.ctx)
	switch {
	case err != nil:
		c.fail(err)
	case !era.modern:
		c.x.FailVersion(era.supported)
	default:
		c.run(nil)
	}
}

// run makes the call. sent, if not nil, is called once the request is written.
func (c *backCall) run(sent func()) {
	if err := c.post(sent); err != nil {
		c.fail(err)
	}
}

// fail ends the exchange, unless that is over.
func (c *backCall) fail(err error) {
	if cause := context.Cause(c.ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, errGone) {
		return
	}
	if errors.Is(err, context.Canceled) {
		err = errBackClosed
	}
	if !errors.As(err, new(*profiles.Error)) && !errors.Is(err, upstream.ErrBusy) && !errors.Is(err, errSessionOver) {
		c.b.trouble(err) // else the server has not failed
	}
	fault := c.b.explain(err)
	if errors.Is(err, errSessionOver) {
		c.x.FailStatus(fault, http.StatusNotFound)
		return
	}
	c.x.Fail(fault)
}

func (c *backCall) post(sent func()) error {
	h, err := c.b.posted()
	if err != nil {
		return err
	}
	if c.session != nil {
		c.session.mark(h)
	}
	if c.session == nil || c.msg.Modern() { // an initialize that names a version without sessions is for the server to refuse
		if err := mirror(h, &c.msg, c.params); err != nil {
			return err
		}
		if why := c.b.tools.Mismatch(h, c.who, "", &c.msg, false); why != "" {
			return &profiles.Error{Code: profiles.InvalidEnvelope, Detail: "mcp_param", Text: why}
		}
	}
	for name, value := range map[string]string{"Traceparent": c.trace.Parent, "Tracestate": c.trace.State} {
		if visible(value) {
			h.Set(name, value)
		}
	}
	ctx, client := c.ctx, c.b.calls
	if sent != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { sent() }})
	}
	if c.long {
		client = c.b.streams
	}
	c.heard()
	r, err := client.Post(ctx, c.b.opts.URL, h, c.msg.Octets())
	if err != nil {
		return err
	}
	return c.answer(r)
}

// heard renews the time that the server has.
func (c *backCall) heard() {
	if c.timer != nil {
		c.timer.Reset(c.timeout)
	}
}

// quiet gives a call up of which nothing was heard for too long. While the client is
// being asked something, it is not the server that is waited for.
func (c *backCall) quiet() {
	switch {
	case c.ctx.Err() != nil:
	case c.session != nil && c.session.asks.Load() > 0:
		c.heard()
	default:
		c.stop(fmt.Errorf("%w: %v", errQuiet, c.timeout))
	}
}

// answer reads a response to its end, or to the end of the call.
func (c *backCall) answer(r *upstream.Response) error {
	c.heard()
	good := r.Status >= 200 && r.Status <= 299
	if c.session != nil && good {
		if err := c.session.opened(c, r.Header); err != nil {
			r.Close()
			return err
		}
	}
	if good && r.MediaType() == mcpheader.Events {
		return c.follow(r)
	}
	defer r.Close()
	body, err := c.document(r)
	if err == nil && c.finish(body, r.Status) {
		if c.session != nil && r.Status == http.StatusNotFound {
			c.session.lost()
		}
		return nil
	}
	if !good {
		c.refuse(r.Status)
		return nil
	}
	if err == nil {
		err = errShape
	}
	return err
}

// maxRefusal bounds the answer to a subscription without a stream, which is an error, in octets.
const maxRefusal = 64 << 10

// document reads a body that is one JSON document. Lines of JSON may go on without an end. So a call fails at a first
// object other than a response, and a subscription ends with its first object. The server has Brief to send that.
func (c *backCall) document(r *upstream.Response) ([]byte, error) {
	if !c.long {
		return r.Document(isResponse)
	}
	timeout := c.b.opts.Brief
	defer time.AfterFunc(timeout, func() { c.stop(fmt.Errorf("%w: %v", errQuiet, timeout)) }).Stop()
	var first json.RawMessage
	err := json.NewDecoder(io.LimitReader(r, maxRefusal)).Decode(&first)
	if errors.As(err, new(*json.SyntaxError)) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = errShape
	}
	return first, err
}

// isResponse returns an error unless a document is a JSON-RPC response.
func isResponse(document []byte) error {
	var msg mcpmap.Message
	if msg.Scan(document) != nil || msg.Check(mcpmap.Response) != nil {
		return errShape
	}
	return nil
}

// refuse ends the exchange with a status that came with no message.
func (c *backCall) refuse(status int) {
	c.b.trouble(statusFault(status))
	fault, told := c.b.explainStatus(status)
	gone := c.session != nil && status == http.StatusNotFound && c.session.known()
	if gone {
		fault = &profiles.Error{Code: profiles.NotFound, Detail: "mcp_session", Text: "the server does not know the session any more"}
	}
	if told == 0 {
		c.x.Fail(fault)
	} else {
		c.x.FailStatus(fault, told)
	}
	if gone {
		c.session.lost()
	}
}

// finish ends the exchange with octets if they are its response, or an error
// without an id.
func (c *backCall) finish(octets []byte, status int) bool {
	var m mcpmap.Message
	if m.Scan(octets) != nil || m.Check(mcpmap.Response) != nil {
		return false
	}
	if key := mcpmap.TokenKey(m.ID()); key != c.key && key != "" {
		return false
	}
	if c.session != nil && c.x.Initialize() {
		c.session.agreed(m.Result())
	}
	if c.session == nil && c.msg.Is("tools/list") {
		c.b.tools.Learn(c.who, "", octets)
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden || status >= http.StatusInternalServerError {
		c.b.trouble(statusFault(status)) // its message is passed on
	} else {
		c.b.opts.Answered()
	}
	if status == http.StatusOK || !mcpmap.IsAnswerStatus(status) {
		status = 0 // as the answer implies
	}
	if m.Error() != nil {
		c.x.FinishFailed(octets, status)
	} else {
		c.x.FinishStatus(octets, status)
	}
	return true
}

// maxResumes is how often a stream is taken up again in a row without an event of it.
const maxResumes = 5

// follow reads the events of the call until it is answered. A stream that breaks is
// taken up again where the server gave it ids.
func (c *backCall) follow(r *upstream.Response) error {
	var at upstream.Position
	for failures := 0; ; failures++ {
		answered, err := c.listen(r, &at)
		switch {
		case answered:
			return nil
		case !errors.Is(err, io.EOF) && !errors.Is(err, upstream.ErrLost), c.session == nil, at.ID == "":
			return err
		case at.Moved:
			at.Moved, failures = false, 0
		}
		if r, err = c.session.resume(c.ctx, c.b.calls, &at, &failures, maxResumes); err != nil {
			return err
		}
		c.heard()
	}
}

// listen reads the events of one response, and closes it.
func (c *backCall) listen(r *upstream.Response, at *upstream.Position) (answered bool, err error) {
	defer r.Close()
	stream := r.Events(c.b.opts.MaxMessage, at)
	for {
		ev, err := stream.Next()
		if err != nil {
			return false, err
		}
		if !isMessage(&ev) {
			continue
		}
		c.heard()
		if answered, err = c.take(ev.Data); answered || err != nil {
			return answered, err
		}
	}
}

// isMessage says whether an event is of the kind in which MCP sends messages, and has
// one: an event without data only says where the stream is.
func isMessage(e *upstream.Event) bool {
	return len(e.Data) > 0 && (e.Kind == "" || e.Kind == "message")
}

// take routes a message of the server.
func (c *backCall) take(octets []byte) (answered bool, err error) {
	var m mcpmap.Message
	if !scanMessage(&m, octets) {
		if m.Method() == nil && mcpmap.TokenKey(m.ID()) == c.key {
			return false, errShape
		}
		c.b.stats.noise.Add(1)
		return false, nil
	}
	switch m.Kind() {
	case mcpmap.Response:
		if c.finish(octets, http.StatusOK) {
			return true, nil
		}
		c.b.stats.dropped.Add(1) // the answer to another question
	case mcpmap.Notification:
		c.notification(&m)
	case mcpmap.Request:
		if c.session == nil {
			c.b.stats.dropped.Add(1) // there is nobody to answer it in this era
			break
		}
		c.session.ask(c.x, &m)
	}
	return false, nil
}

// scanMessage scans a message, and reports whether it is valid for its kind.
func scanMessage(m *mcpmap.Message, octets []byte) bool {
	return m.Scan(octets) == nil && m.Check(m.Kind()) == nil
}

// notification passes a notification on to the exchange that it says it is about.
// One about another exchange goes there if that is of the same session. In the
// stateless era it may be anybody's, and goes nowhere.
func (c *backCall) notification(m *mcpmap.Message) {
	of := c
	if token := mcpmap.TokenKey(m.Progressed()); token != "" && token != c.progress && m.Is(mcpmap.MethodProgress) {
		of = nil
		if c.session != nil {
			of = c.session.progressing(token, c)
		}
	}
	if id := mcpmap.TokenKey(m.SubscriptionID()); c.session == nil && id != "" && id != c.key {
		of = nil
	}
	if of == nil {
		c.b.stats.dropped.Add(1)
		return
	}
	of.notify(c.ctx, m.Octets())
}

// notify brings a notification to the client. It applies backpressure: while the
// client is slow, the server waits. ctx is the reader's context.
func (c *backCall) notify(ctx context.Context, octets []byte) {
	if c.timer != nil {
		c.timer.Stop()
	}
	_ = c.x.Pace(ctx)
	c.heard()
	if !c.x.Notify(octets) {
		c.b.stats.dropped.Add(1)
	}
}

// trouble counts and tells that a request got no proper response.
func (b *Backend) trouble(err error) {
	b.stats.failed.Add(1)
	b.opts.Trouble(err)
}
