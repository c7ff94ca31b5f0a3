package mcpmap

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Details of failures on the way to a server.
const (
	detailDeadline  = "mcp_deadline"
	detailCancelled = "mcp_cancelled"
	detailLink      = "mcp_link_lost"
	detailSession   = "mcp_session"
	detailAccess    = "access" // the same in every profile
)

// Exchange is one request of a peer on its way through a Server: the request,
// the notifications that belong to it, one response. Its methods do not wait,
// and may be called by any goroutine; the first end counts.
type Exchange struct {
	// Message is the request, valid until the exchange has ended. A function
	// given to OnCancel may still use it.
	Message Message

	m          *Mapping
	conn       *conn
	session    *session // nil in the modern era
	target     string   // name of the server
	list       *list    // that is asked for; nil: none
	req        *profiles.Request
	w          profiles.Responder
	began      time.Time
	limit      time.Duration
	long       bool
	key        string
	initialize bool

	mu      sync.Mutex
	over    bool
	pins    int    // uses of the lane under way
	last    func() // what ends the held request, once nothing is pinned
	timer   *time.Timer
	touched time.Time
	agreed  []string // changes that a subscriptions/listen is to be told of
	unwatch func() bool
	cancel  func(octets []byte)
}

// newExchange holds a request of a session, or of none, to a server. msg is its
// outline. Until watch is called the octets of the request stay valid.
func (m *Mapping) newExchange(c *conn, s *session, target string, req *profiles.Request, msg *Message) (*Exchange, error) {
	ms, bounded, err := profiles.Uvarint(req.Extensions, profiles.ExtDeadline)
	if err != nil {
		return nil, err
	}
	long := msg.Is(MethodListen)
	hold := req.Hold
	if long {
		hold = req.HoldLong
	}
	held, w, err := hold()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	x := &Exchange{
		Message: msg.On(held.Payload),
		m:       m, conn: c, session: s, target: target, list: listOf(msg), req: held, w: w,
		long: long, key: TokenKey(msg.ID()), initialize: msg.Is(MethodInitialize), pins: 1,
		began: now, touched: now, limit: m.opts.CallLimit,
	}
	if bounded && ms < uint64(x.limit.Milliseconds()) {
		x.limit = time.Duration(ms) * time.Millisecond
	}
	if s != nil {
		s.add(x)
	}
	c.add(x)
	return x, nil
}

// watch starts the clock of an exchange and has it end with its peer. It is
// called once whoever serves it has taken it over.
func (x *Exchange) watch() {
	defer x.unpin()
	x.mu.Lock()
	if !x.over {
		x.unwatch = context.AfterFunc(x.w.Context(), func() { x.abandon(nil, nil) })
		if !x.long {
			x.timer = time.AfterFunc(min(x.m.opts.CallTimeout, x.limit), x.late)
		}
	}
	x.mu.Unlock()
	if x.long && x.m.draining.Load() { // Drain may not have seen it
		x.abandon(nil, errDraining)
	}
}

// Peer is who sent the request.
func (x *Exchange) Peer() *profiles.Peer { return x.req.Session.Peer() }

// Context carries what came with the request, its trace context and hints among
// it. It ends when the peer can no longer be answered.
func (x *Exchange) Context() context.Context { return x.w.Context() }

// Passage has the request's hops and deadline. Without a deadline that of this
// endpoint applies; a subscriptions/listen has none. It may be called before the
// exchange is over.
func (x *Exchange) Passage() profiles.Passage {
	p := profiles.PassageOf(x.req.Extensions, x.began)
	if deadline := x.began.Add(x.limit); !x.long && (p.Deadline.IsZero() || deadline.Before(p.Deadline)) {
		p.Deadline = deadline
	}
	return p
}

// view is what the peer may see of the server.
func (x *Exchange) view() view {
	return view{access: x.m.opts.Access, identity: x.conn.sess.Peer().Identity, server: x.target}
}

// Key is the TokenKey of the request's id.
func (x *Exchange) Key() string { return x.key }

// Initialize says whether the request is to open a session.
func (x *Exchange) Initialize() bool { return x.initialize }

// Params returns the "name:value" parameters that came beside the request
// (extension 19), in order. They are valid as long as Message is.
func (x *Exchange) Params() [][]byte {
	var list [][]byte
	for typ, value := range x.req.Extensions.All() {
		if typ == ExtMCPParam {
			list = append(list, value)
		}
	}
	return list
}

// OnCancel has f called, at most once, if the exchange ends without Finish or
// Fail. octets is the notification by which the client cancelled it, to be
// passed on, or nil if the client is gone or the time is up; it is valid until
// f returns. f must not wait, and later messages of the server about the
// request must be dropped. If the exchange is over already, f is called at
// once.
func (x *Exchange) OnCancel(f func(octets []byte)) {
	x.mu.Lock()
	over := x.over
	x.cancel = f
	x.mu.Unlock()
	if over {
		f(nil)
	}
}

// Pace applies backpressure: it waits until the peer has taken enough for Notify
// not to lose a notification, or until ctx ends. A reader of a server for this
// exchange alone calls it before each one, so that the server waits for the
// client.
func (x *Exchange) Pace(ctx context.Context) {
	_ = x.w.Pace(ctx, 0) // an exchange that is over has no use for notifications
}

// Notify passes a notification on that belongs to the request. It renews the
// deadline. One for which a slow peer leaves no room is dropped, and so is one about a
// list of which the peer may see nothing. octets are free again when it returns.
func (x *Exchange) Notify(octets []byte) {
	told := x.view().concerns(octets)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		x.m.stats.dropped.Add(1)
		return
	}
	x.touched = time.Now()
	if x.long && x.agreed == nil {
		x.agreed = acknowledged(octets)
	}
	if told {
		x.notify(octets)
	}
}

// notify sends a notification. The caller holds mu, and knows that the exchange is
// not over.
func (x *Exchange) notify(octets []byte) {
	ext := e1.AppendExtension(nil, ExtRelated, x.req.MsgID)
	if x.session != nil {
		ext = e1.AppendExtension(ext, ExtSession, []byte(x.session.id))
	}
	err := x.w.Offer(e1.Envelope{
		MsgType: uint64(Notification), MsgID: profiles.NewMsgID(), Extensions: ext, Payload: octets,
	})
	if err != nil {
		x.m.stats.dropped.Add(1)
	}
}

// touch renews the deadline.
func (x *Exchange) touch() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.touched = time.Now()
}

// Finish ends the exchange with the server's response, octet for octet; of a list it
// leaves out the elements that the caller may not use. octets are free again when it
// returns.
func (x *Exchange) Finish(octets []byte) { x.FinishStatus(octets, 0) }

// FinishFailed is FinishStatus with a response that is an error.
func (x *Exchange) FinishFailed(octets []byte, status int) {
	profiles.Ended(x.w, profiles.OutcomeFailed)
	x.FinishStatus(octets, status)
}

// FinishStatus is Finish with the HTTP status of the answer (extension 20)
// where it is not what the response implies; 0 means it is.
//
// From the answer to a list request, entries that the access rules forbid to the peer
// are removed. If that cannot be told, the exchange fails.
func (x *Exchange) FinishStatus(octets []byte, status int) {
	if x.list != nil {
		shown, err := x.view().cut(x.list, octets)
		if err != nil {
			x.Fail(err)
			return
		}
		octets = shown
	}
	if !x.end() {
		return
	}
	var ext e1.Extensions
	if status > 0 {
		ext = e1.AppendExtensionUvarint(ext, ExtHTTPStatus, uint64(status))
	}
	if x.session != nil {
		ext = x.session.answered(x, octets, ext)
	}
	x.close(octets, func(octets []byte) {
		_ = x.w.Finish(e1.Envelope{MsgType: uint64(Response), Extensions: ext, Payload: octets})
	})
}

// Fail ends the exchange with a JSON-RPC error of our own that carries the
// request's id. The failure is reported under its code and costs the peer
// nothing: it is the server's, not the peer's.
func (x *Exchange) Fail(err *profiles.Error) {
	if !x.end() {
		return
	}
	if x.session != nil {
		x.session.answered(x, nil, nil)
	}
	fault := *err
	fault.Domain = true
	x.close(nil, func([]byte) { x.w.Fail(&fault) })
}

// abandon ends the exchange and tells whoever serves it: octets is the
// client's cancellation or nil. The peer is answered with err, or with nothing.
func (x *Exchange) abandon(octets []byte, err *profiles.Error) {
	if !x.end() {
		return
	}
	x.mu.Lock()
	cancel := x.cancel
	x.mu.Unlock()
	if cancel != nil {
		cancel(octets) // before the request's octets are given back
	}
	if x.session != nil {
		x.session.answered(x, nil, nil)
	}
	x.close(nil, func([]byte) {
		if err == nil {
			if octets != nil {
				profiles.Ended(x.w, profiles.OutcomeCancelled)
			}
			x.w.Fail(nil) // a nil *Error would not be a nil error
			return
		}
		x.w.Fail(err)
	})
}

// end marks the exchange as over; only the first caller gets true, and must
// call close.
func (x *Exchange) end() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return false
	}
	x.over = true
	if x.timer != nil {
		x.timer.Stop()
	}
	if x.unwatch != nil {
		x.unwatch()
	}
	return true
}

// close gives the held request back with its last word, at once or when nobody
// uses its lane any more.
func (x *Exchange) close(octets []byte, last func(octets []byte)) {
	x.conn.forget(x)
	x.mu.Lock()
	if x.pins > 0 {
		octets = slices.Clone(octets)
		x.last = func() { last(octets) }
		x.mu.Unlock()
		return
	}
	x.mu.Unlock()
	last(octets)
}

// pin keeps the lane of the exchange from being given back until unpin. It
// fails once the exchange is over.
func (x *Exchange) pin() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return false
	}
	x.pins++
	return true
}

func (x *Exchange) unpin() {
	x.mu.Lock()
	x.pins--
	last := x.last
	if x.pins > 0 {
		last = nil
	}
	x.mu.Unlock()
	if last != nil {
		last()
	}
}

// late ends an exchange of which nothing was heard for too long, or that has
// taken too long altogether (ABUSE §1: 60 s without a message of that call,
// renewed by progress, at most 1 h). While the client is being asked something
// the wait is its own.
func (x *Exchange) late() {
	opts := &x.m.opts
	patience := opts.CallTimeout
	if x.session != nil && x.session.asking() {
		patience = opts.LongIdle
	}
	x.mu.Lock()
	now := time.Now()
	left := min(patience-now.Sub(x.touched), x.limit-now.Sub(x.began))
	if left > 0 && !x.over {
		x.timer.Reset(min(left, opts.CallTimeout))
		x.mu.Unlock()
		return
	}
	x.mu.Unlock()
	x.abandon(nil, &profiles.Error{
		Code: profiles.Internal, Detail: detailDeadline, Text: "the server did not answer in time", Domain: true,
	})
}
