package mcpfront

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpheader"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// post takes one message of a client.
func (f *Front) post(w http.ResponseWriter, r *http.Request, target string) {
	switch {
	case !sendsJSON(r):
		f.refuse(w, http.StatusUnsupportedMediaType, invalid("the body has to be "+mcpheader.JSON+", not encoded"))
		return
	case !accepts(r, mcpheader.JSON, mcpheader.Events):
		f.refuse(w, http.StatusNotAcceptable, invalid("Accept has to name "+mcpheader.JSON+" and "+mcpheader.Events))
		return
	}
	held := f.opts.Memory.Hold(f.opts.Caller(r))
	passed := false // to the call of a session, which goes on without the client
	defer func() {
		if !passed {
			held.Release()
		}
	}()
	octets, ok := f.body(w, r, held)
	if !ok {
		return
	}
	var m mcpmap.Message
	err := m.Scan(octets)
	if err == nil {
		err = m.Check(m.Kind())
	}
	switch {
	case err != nil:
		f.refuse(w, http.StatusBadRequest, malformed(&m, err))
	case m.Kind() == mcpmap.Request && (m.Modern() || modern(r)):
		f.modern(w, r, target, &m, held)
	case m.Kind() == mcpmap.Notification && modern(r):
		f.notify(w, r, target, "", octets)
	default:
		passed = f.legacy(w, r, target, &m, held)
	}
}

// body reads the body of a request, within its bounds in octets and time and as far as there is
// room for it.
func (f *Front) body(w http.ResponseWriter, r *http.Request, held *memory.Hold) (octets []byte, ok bool) {
	limit := f.opts.MaxBody
	long := func() {
		w.Header().Set("Connection", "close") // the rest is not read
		f.refuse(w, http.StatusRequestEntityTooLarge, invalid("the body is longer than "+strconv.FormatInt(limit, 10)+" octets"))
	}
	size := r.ContentLength
	if size > limit {
		long()
		return nil, false
	}
	if (size < 0 || size > memory.Small) && !f.opts.Served(f.opts.Caller(r)) {
		w.Header().Set("Connection", "close")
		f.refuse(w, http.StatusForbidden, refusal{
			code: mcpmap.CodeInternal, text: "no access rule lets this caller use a server", swp: profiles.SecurityPolicy,
		})
		return nil, false
	}
	if size < 0 {
		size = limit
	}
	rc := http.NewResponseController(w)
	deadline := time.Now().Add(f.opts.Body + time.Duration(size)*time.Second/(64<<10))
	_ = rc.SetReadDeadline(deadline)
	octets, err := held.ReadAll(r.Context(), memory.Body{
		Reader: http.MaxBytesReader(w, r.Body, limit), Announced: r.ContentLength, Twice: true, Conn: rc,
		Waited: func(d time.Duration) { _ = rc.SetReadDeadline(deadline.Add(d)) },
	})
	if errors.Is(err, memory.ErrFull) {
		w.Header().Set("Connection", "close")
		w.Header().Set("Retry-After", "1")
		f.refuse(w, http.StatusServiceUnavailable, busy(nil, "too many octets in flight"))
		return nil, false
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		long()
		return nil, false
	}
	if err != nil { // the deadline stays: the rest is not waited for
		w.Header().Set("Connection", "close")
		f.refuse(w, http.StatusRequestTimeout, invalid("the body did not arrive"))
		return nil, false
	}
	_ = rc.SetReadDeadline(time.Time{})
	return octets, true
}

// notify passes a notification on.
func (f *Front) notify(w http.ResponseWriter, r *http.Request, target, session string, octets []byte) {
	link, err := f.opts.Connect(r.Context(), f.opts.Caller(r))
	if err == nil {
		err = link.MCP.Notify(r.Context(), target, session, octets)
	}
	if err != nil {
		f.writeJSON(w, http.StatusServiceUnavailable, f.failure(nil, err))
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// modern passes a request without session on. When the client closes the response,
// the request is cancelled.
func (f *Front) modern(w http.ResponseWriter, r *http.Request, target string, m *mcpmap.Message, held *memory.Hold) {
	if e, wrong := mismatch(r, m); wrong {
		f.refuse(w, http.StatusBadRequest, e)
		return
	}
	caller := f.opts.Caller(r)
	if why := f.tools.Mismatch(r.Header, caller, target, m, true); why != "" {
		f.refuse(w, http.StatusBadRequest, refusal{code: codeHeaderMismatch, text: why, id: m.ID()})
		return
	}
	list, ok := params(r)
	if !ok {
		f.refuse(w, http.StatusRequestHeaderFieldsTooLarge, refusal{
			code: mcpmap.CodeInvalidRequest, id: m.ID(), text: "the " + mcpheader.Param + " headers have more than " + strconv.Itoa(maxParams) + " octets",
		})
		return
	}
	f.counts.modern.Add(1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if m.Is(mcpmap.MethodListen) {
		defer context.AfterFunc(f.ctx, cancel)()
	}
	out := newResponse(f, w, held, cancel, prefersEvents(r))
	defer out.end()
	link, err := f.opts.Connect(ctx, caller)
	var result *mcpmap.Result
	if err == nil {
		result, err = link.MCP.Do(f.onward(ctx, r), &mcpmap.Call{
			Target: target, Params: list, Octets: m.Octets(), Events: mcpmap.Events{Notification: out.notify},
		})
	}
	if err == nil && m.Is("tools/list") {
		f.tools.Learn(caller, target, result.Octets)
	}
	switch {
	case ctx.Err() != nil: // nobody listens
	case err != nil:
		octets := f.failure(m.ID(), err)
		out.finish(m.ID(), statusOf(octets), octets)
	case result.Status != 0:
		out.finish(m.ID(), result.Status, result.Octets)
	default:
		out.finish(m.ID(), statusOf(result.Octets), result.Octets)
	}
}

// response is the response to a modern request: one JSON document if the answer is
// the first message and comes soon, unless the client prefers events, else events.
type response struct {
	events bool // a successful answer is always an event
	cancel context.CancelFunc
	timer  *time.Timer
	held   *memory.Hold // used with mu held

	mu   sync.Mutex
	over bool
	out  eventWriter
}

func newResponse(f *Front, w http.ResponseWriter, held *memory.Hold, cancel context.CancelFunc, events bool) *response {
	p := &response{cancel: cancel, events: events, held: held, out: eventWriter{f: f, w: w}}
	p.mu.Lock() // alive does not begin before it has its timer
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(f.opts.KeepAlive, p.alive)
	return p
}

// alive shows the client, and proxies on the way, that the request is still in
// progress.
func (p *response) alive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.out.comment()
		p.flush()
	}
}

// notify sends a message that belongs to the request.
func (p *response) notify(octets []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	both := 2 * len(octets) // they and their event
	switch {
	case p.over:
	case !p.held.Add(both):
		p.out.f.counts.dropped.Add(1)
		p.over = true // a gap would not be seen
		p.cancel()
	default:
		p.out.add("", octets)
		p.flush()
		p.held.Sub(both)
	}
}

func (p *response) flush() {
	if p.out.flush() != nil {
		p.over = true
		p.cancel()
		return
	}
	p.timer.Reset(p.out.f.opts.KeepAlive)
}

// errAnswer replaces an answer for which there is no room. It is not retryable, because the
// request was executed.
var errAnswer = &profiles.Error{Code: profiles.RateLimitExceeded, Detail: "in_flight_bytes", Text: "there is no room for the answer", Pace: true}

// finish sends the answer to the request with an id.
func (p *response) finish(id []byte, status int, octets []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over:
	case !p.held.Answer(len(octets)): // given back with the request
		p.out.f.counts.dropped.Add(1)
		octets = p.out.f.failure(id, errAnswer)
		if p.out.begun || p.events {
			p.out.add("", octets)
			_ = p.out.flush()
			break
		}
		p.out.f.writeJSON(p.out.w, http.StatusOK, octets)
	case p.out.begun, p.events && status == http.StatusOK:
		p.out.add("", octets)
		_ = p.out.flush() // a client that is gone has cancelled nothing any more
	default:
		p.out.f.writeJSON(p.out.w, status, octets)
	}
	p.over = true
}

// end is called before the handler returns.
func (p *response) end() {
	p.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.out.end()
}
