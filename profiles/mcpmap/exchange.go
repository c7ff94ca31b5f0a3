package mcpmap

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/room"
	"github.com/slimwire/swp/profiles"
)

// Details of failures on the way to a server.
const (
	detailDeadline  = "mcp_deadline"
	detailCancelled = "mcp_cancelled"
	detailLink      = "mcp_link_lost"
	detailSession   = "mcp_session"
)

// Exchange is one request of a peer at a Server: the request, its notifications, one
// response. Its methods do not wait, and any goroutine may call them. The first call that
// ends the exchange counts.
type Exchange struct {
	// Message is the request, valid until the exchange has ended. A function
	// given to OnCancel may still use it.
	Message Message

	m          *Mapping
	conn       *conn
	session    *serverSession // nil in the modern era
	target     string         // name of the server
	list       *list          // the requested list; nil for other requests
	req        *profiles.Request
	w          profiles.Responder
	began      time.Time
	timeout    time.Duration // without a message
	limit      time.Duration // altogether
	long       bool
	key        string
	initialize bool
	keeps      profiles.EndToEnd // of the response
	from       Holder            // the process that has written the response, or nil

	mu      sync.Mutex
	over    bool
	window  profiles.Window // of the notifications
	room    room.Gate       // opened when the caller confirms some, and at the end
	uses    int             // present uses of the lane
	last    func()          // ends the held request when uses is zero
	timer   *time.Timer
	touched time.Time
	agreed  []string // changes that a subscriptions/listen is told of
	unwatch func() bool
	stays   func() bool // of profiles.OnDraining
	cancel  func(octets []byte)
}

// newExchange holds a request of a session, or of none, to a server. msg is its outline.
// Until the call of watch the octets of the request stay valid.
func (m *Mapping) newExchange(c *conn, s *serverSession, target string, server Server, req *profiles.Request, msg *Message) (*Exchange, error) {
	ms, bounded, err := profiles.Uvarint(req.Extensions, profiles.ExtDeadline)
	if err != nil {
		return nil, err
	}
	long := msg.Is(MethodListen)
	hold := req.Hold
	if long {
		hold = req.HoldLong
	}
	window, _, err := profiles.Uvarint(req.Extensions, ExtWindow)
	if err != nil {
		return nil, err
	}
	held, w, err := hold()
	if err != nil {
		return nil, err
	}
	now, timeout := time.Now(), m.timeout(server, msg)
	x := &Exchange{
		Message: msg.On(held.Payload),
		m:       m, conn: c, session: s, target: target, list: listOf(msg), req: held, w: w,
		long: long, key: TokenKey(msg.ID()), initialize: msg.Is(MethodInitialize), uses: 1,
		window: profiles.Window{Size: window}, began: now, touched: now, timeout: timeout, limit: profiles.WholeWork(timeout),
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

// watch starts the timeout of an exchange and ends it when its peer disconnects. It is
// called once, after a Server has accepted the exchange.
func (x *Exchange) watch() {
	defer x.unpin()
	x.mu.Lock()
	if !x.over {
		x.unwatch = context.AfterFunc(x.w.Context(), func() { x.abandon(nil, nil) })
		if x.long {
			x.stays = profiles.OnDraining(x.req.Session, func() { x.abandon(nil, errDraining) })
		} else {
			x.timer = time.AfterFunc(min(x.timeout, x.limit), x.late)
		}
	}
	x.mu.Unlock()
	if x.long && x.m.draining.Load() { // Drain may have missed it
		x.abandon(nil, errDraining)
	}
}

// Peer is the sender of the request.
func (x *Exchange) Peer() *profiles.Peer { return x.req.Peer() }

// Context carries the trace context, the hints and so on of the request. It ends when the
// peer cannot be answered any more.
func (x *Exchange) Context() context.Context { return x.w.Context() }

// Passage has the request's hops and deadline. Without a deadline the one of this endpoint
// applies; a subscriptions/listen has none. It may be called until the exchange has ended.
func (x *Exchange) Passage() profiles.Passage {
	p := profiles.PassageOf(x.req.Extensions, x.began)
	if deadline := x.began.Add(x.limit); !x.long && (p.Deadline.IsZero() || deadline.Before(p.Deadline)) {
		p.Deadline = deadline
	}
	return p
}

// view returns what the peer may see of the server.
func (x *Exchange) view() view {
	return view{access: x.m.opts.Access, tasks: x.m.tasks, identity: x.Peer().Identity, server: x.target}
}

// Key is the TokenKey of the request's id.
func (x *Exchange) Key() string { return x.key }

// Initialize reports whether the request opens a session.
func (x *Exchange) Initialize() bool { return x.initialize }

// Params returns the "name:value" parameters of the request (extension 19), in order. They
// are valid as long as Message is.
func (x *Exchange) Params() [][]byte {
	var list [][]byte
	for typ, value := range x.req.Extensions.All() {
		if typ == ExtMCPParam {
			list = append(list, value)
		}
	}
	return list
}

// OnCancel registers f, which is called at most once, if the exchange ends without Finish
// or Fail. octets is the client's cancellation, to be forwarded, or nil if the client has
// disconnected or the time is up; it is valid until f returns. f must not wait. Later
// messages of the server about the request must be dropped. If the exchange has ended
// already, f is called at once.
func (x *Exchange) OnCancel(f func(octets []byte)) {
	x.mu.Lock()
	over := x.over
	x.cancel = f
	x.mu.Unlock()
	if over {
		f(nil)
	}
}

// Pace applies backpressure: it waits until Notify can send without losing a notification.
// It fails at the end of ctx or of the exchange. The reader of a server calls it before each
// notification, so that the server waits for the client.
//
// A caller may say with its request how many octets of notifications it keeps until it has
// taken them, counting perMessage more for each (ExtWindow). Above that number Pace waits until
// the caller has confirmed some of them. Backpressure of the connection is not enough: many
// clients share it, so it cannot wait for one client.
func (x *Exchange) Pace(ctx context.Context) error {
	x.mu.Lock()
	for !x.over && x.window.Full() {
		if err := x.room.Wait(ctx, &x.mu); err != nil {
			x.mu.Unlock()
			return err
		}
	}
	x.mu.Unlock()
	return x.w.Pace(ctx, 0)
}

// Overrun ends the exchange with an error because its client does not take the notifications
// of a server that cannot wait for it.
func (x *Exchange) Overrun() { x.Fail(errOverrun) }

// confirmed handles a confirmation of notifications (ExtTaken), and reports whether the message
// is one.
func (c *conn) confirmed(req *profiles.Request) (bool, error) {
	n, ok, err := profiles.Uvarint(req.Extensions, ExtTaken)
	if err != nil || !ok {
		return false, err
	}
	id, of := req.Extensions.Lookup(ExtRelated)
	if !of {
		session, _ := req.Extensions.Lookup(ExtSession)
		if s := c.m.session(string(session), req.Peer(), ""); s != nil {
			s.confirm(n)
		}
		return true, nil
	}
	c.mu.Lock()
	x := c.exchanges[string(id)]
	c.mu.Unlock()
	if x != nil {
		x.confirm(n)
	}
	return true, nil
}

// confirm notes that the caller has taken the notifications up to a weight.
func (x *Exchange) confirm(n uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.window.Confirm(n) {
		x.touched = time.Now()
		x.room.Open()
	}
}

// Notify forwards a notification of the request and restarts the timeout. It reports whether
// the notification was sent or left out as one about a list that the peer may not see; it is
// lost if a slow peer leaves no room, and after the end of the exchange. octets may be reused
// after the return.
func (x *Exchange) Notify(octets []byte) bool { return x.Forward(octets, profiles.EndToEnd{}) }

// Forward is Notify for a notification of another endpoint, with the data that it keeps.
func (x *Exchange) Forward(octets []byte, keeps profiles.EndToEnd) bool {
	told := x.view().concerns(octets)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		x.m.stats.dropped.Add(1)
		return false
	}
	x.touched = time.Now()
	if x.long && x.agreed == nil {
		x.agreed = acknowledged(octets)
	}
	return !told || x.notify(octets, keeps)
}

// notify sends a notification. The caller holds mu and has checked that the exchange is
// open.
func (x *Exchange) notify(octets []byte, keeps profiles.EndToEnd) bool {
	ext := e1.AppendExtension(nil, ExtRelated, x.req.MsgID)
	sent, mark := x.window.After(weightOf(len(octets)))
	if mark {
		ext = e1.AppendExtensionUvarint(ext, ExtWindow, sent)
	}
	if x.session != nil {
		ext = e1.AppendExtension(ext, ExtSession, []byte(x.session.id))
	}
	env := e1.Envelope{MsgType: uint64(Notification), MsgID: profiles.NewMsgID(), Extensions: ext, Payload: octets}
	keeps.Put(&env)
	if err := x.w.Offer(env); err != nil {
		x.m.stats.dropped.Add(1)
		return false
	}
	x.window.Sent(sent, mark)
	return true
}

// touch restarts the timeout.
func (x *Exchange) touch() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.touched = time.Now()
}

// Keep sets what the response keeps, because it is that of another endpoint. It is called
// before Finish, by the same goroutine.
func (x *Exchange) Keep(keeps profiles.EndToEnd) { x.keeps = keeps }

// Finish ends the exchange with the server's response, octet for octet. Elements of lists
// that the caller may not use are removed. octets may be reused after the return.
func (x *Exchange) Finish(octets []byte) { x.FinishStatus(octets, 0) }

// FinishFailed is FinishStatus for a response that is an error.
func (x *Exchange) FinishFailed(octets []byte, status int) {
	x.FinishAs(profiles.OutcomeFailed, octets, status)
}

// FinishAs is FinishStatus for a response with another outcome than OK.
func (x *Exchange) FinishAs(o profiles.Outcome, octets []byte, status int) {
	profiles.Ended(x.w, o)
	x.FinishStatus(octets, status)
}

// FinishStatus is Finish with the HTTP status of the answer (extension 20); 0 means the
// status that the response implies.
//
// Entries of a list that the access rules forbid to the peer are removed. If the list
// cannot be checked, the exchange fails.
func (x *Exchange) FinishStatus(octets []byte, status int) {
	if x.list != nil {
		shown, err := x.view().cut(x.list, octets)
		if err != nil {
			x.Fail(err)
			return
		}
		octets = shown
	}
	kept, err := x.tasked(octets)
	switch {
	case err != nil:
		x.Fail(err)
	case kept != nil:
		octets = slices.Clone(octets)
		x.m.tasks.keep(kept, func(err error) {
			if err != nil {
				x.Fail(errKeep(err))
				return
			}
			x.finish(octets, status)
		})
	default:
		x.finish(octets, status)
	}
}

// finish sends the response.
func (x *Exchange) finish(octets []byte, status int) {
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
	env := e1.Envelope{MsgType: uint64(Response), Extensions: ext}
	x.keeps.Put(&env)
	x.close(octets, func(octets []byte) {
		env.Payload = octets
		_ = x.w.Finish(env)
	})
}

// Fail ends the exchange with a JSON-RPC error of this side with the request's id. The
// failure is reported under its code, but not charged to the peer, because it is a failure
// of the server.
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

// abandon ends the exchange and calls the function of OnCancel: octets is the client's
// cancellation or nil. The peer gets err as answer, or none.
func (x *Exchange) abandon(octets []byte, err *profiles.Error) {
	if !x.end() {
		return
	}
	x.mu.Lock()
	cancel := x.cancel
	x.mu.Unlock()
	if cancel != nil {
		cancel(octets) // before the request's octets are released
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

// end marks the exchange as ended. The first caller gets true and must call close.
func (x *Exchange) end() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return false
	}
	x.over = true
	x.room.Open()
	if x.timer != nil {
		x.timer.Stop()
	}
	if x.unwatch != nil {
		x.unwatch()
	}
	if x.stays != nil {
		x.stays()
	}
	return true
}

// close ends the held request with its last message, at once or when its lane is no longer
// in use.
func (x *Exchange) close(octets []byte, last func(octets []byte)) {
	x.conn.forget(x)
	x.mu.Lock()
	if x.uses > 0 {
		octets = slices.Clone(octets)
		x.last = func() { last(octets) }
		x.mu.Unlock()
		return
	}
	x.mu.Unlock()
	last(octets)
}

// pin keeps the lane of the exchange usable until unpin. It fails after the end of the
// exchange.
func (x *Exchange) pin() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return false
	}
	x.uses++
	return true
}

func (x *Exchange) unpin() {
	x.mu.Lock()
	x.uses--
	last := x.last
	if x.uses > 0 {
		last = nil
	}
	x.mu.Unlock()
	if last != nil {
		last()
	}
}

// late ends an exchange without a message for too long, or that has taken too long in total.
// While the client is being asked something, another timeout applies.
func (x *Exchange) late() {
	patience := x.timeout
	if x.session != nil && x.session.asking() {
		patience = max(patience, x.m.opts.LongIdle)
	}
	x.mu.Lock()
	now := time.Now()
	left := min(patience-now.Sub(x.touched), x.limit-now.Sub(x.began))
	if left > 0 && !x.over {
		x.timer.Reset(min(left, x.timeout))
		x.mu.Unlock()
		return
	}
	x.mu.Unlock()
	x.abandon(nil, &profiles.Error{
		Code: profiles.Internal, Detail: detailDeadline, Text: "the server did not answer in time", Domain: true,
	})
}
