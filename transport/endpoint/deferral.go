package endpoint

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
)

// deferrals are the messages of one stream that were accepted but whose commit is not
// finished, and the functions that wait for them, in the order of arrival. It is an
// intrusive list: queueing a message allocates nothing.
type deferrals struct {
	open    atomic.Int32 // messages that are not done; written with mu
	mu      sync.Mutex
	first   *deferral
	last    *deferral
	unpaid  *deferral     // the message for which the budget had no room; reading pauses then
	running bool          // a goroutine is running the waiting functions, one after the other
	room    chan struct{} // closed when a message is done; nil unless the loop waits
}

// deferral is a message, or a function that waits for all earlier messages.
type deferral struct {
	caller string // of the message, in the shares of its session
	next   *deferral
	done   bool
	size   int     // octets of the message
	paid   bool    // they are in the budget; guarded by mu of the deferrals
	then   func()  // nil for a message
	id     []byte  // msg_id of a message
	await  []*wait // functions that wait for this message only, not for all earlier ones
}

// wait is a function that waits for some messages.
type wait struct {
	left int
	then func()
}

// add queues a message, and takes its octets from a share if that has room for them.
func (d *deferrals) add(m *deferral, share *memory.Share) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.push(m)
	d.open.Add(1)
	if m.paid = share.Try(m.size, memory.Of(m.size)); !m.paid {
		d.unpaid = m
	}
}

// short reports whether there is still no room for a message.
func (d *deferrals) short(share *memory.Share) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.unpaid
	if m != nil && share.Try(m.size, memory.Of(m.size)) {
		m.paid, d.unpaid = true, nil
	}
	return d.unpaid != nil
}

func (d *deferrals) push(m *deferral) {
	if d.first == nil {
		d.first = m
	} else {
		d.last.next = m
	}
	d.last = m
}

// after queues f behind the open messages and the waiting functions; it returns false if
// there are none. With msg_ids f waits only for the open ones of these messages.
func (d *deferrals) after(f func(), of [][]byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(of) > 0 {
		w := &wait{then: f}
		for m := d.first; m != nil; m = m.next {
			if !m.done && slices.ContainsFunc(of, func(id []byte) bool { return bytes.Equal(id, m.id) }) {
				m.await = append(m.await, w)
				w.left++
			}
		}
		return w.left > 0
	}
	if d.first == nil && !d.running {
		return false
	}
	d.push(&deferral{done: true, then: f})
	return true
}

// finish marks a message done and runs the functions that waited for it last. If another
// goroutine runs functions already, that goroutine runs these, too.
func (d *deferrals) finish(m *deferral, share *memory.Share) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m.done = true
	if m.paid {
		share.Give(m.size, memory.Of(m.size))
	}
	if d.unpaid == m {
		d.unpaid = nil
	}
	d.open.Add(-1)
	if d.room != nil {
		close(d.room)
		d.room = nil
	}
	for _, w := range m.await {
		if w.left--; w.left == 0 {
			d.mu.Unlock()
			w.then()
			d.mu.Lock()
		}
	}
	if d.running {
		return
	}
	d.running = true
	for d.first != nil && d.first.done {
		ready := d.first
		if d.first = ready.next; d.first == nil {
			d.last = nil
		}
		if ready.then != nil {
			d.mu.Unlock()
			ready.then()
			d.mu.Lock()
		}
	}
	d.running = false
}

// full returns a channel that is closed when a message is done, or nil if fewer than limit
// messages are open.
func (d *deferrals) full(limit int32) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open.Load() < limit {
		return nil
	}
	if d.room == nil {
		d.room = make(chan struct{})
	}
	return d.room
}

// awaitDeferred pauses reading while too many messages are deferred. This is the
// backpressure of a slow store on publishers. The limit is Bounds.Deferred messages of this
// stream. If the octets of the connection are at their bound, or the budget has no room for
// the last message, the limit is one message, so that each stream makes progress. A stream
// that pauses keeps its read buffer, which is in the budget: no other stream gets that room.
func (l *lane) awaitDeferred() {
	limit := int32(min(l.s.opts.Bounds.Deferred, 1<<30))
	for !l.stopped {
		open := l.deferrals.open.Load()
		if open == 0 || open < limit && !l.deferredTooMuch() {
			return
		}
		room := l.deferrals.full(min(open, limit))
		if room == nil {
			continue
		}
		l.out.flush()
		// The context of the stream is not used: a peer that takes no answers may still
		// send.
		select {
		case <-room:
		case <-l.s.ctx.Done():
			l.stopped = true
		case <-l.s.conn.Context().Done():
			l.stopped = true
		}
	}
}

// deferredTooMuch reports whether the octets of deferred messages have reached the bound of
// the connection, which is counted apart from the one for octets in flight, or there is no
// room for the last one of this stream in the share of its identity.
func (l *lane) deferredTooMuch() bool {
	return l.s.deferred.Load() >= int64(l.s.opts.Bounds.InFlightBytesPerConn) || l.deferrals.short(l.s.share)
}

// countDeferred adds to the octets of deferred messages.
func (s *Session) countDeferred(n int) {
	s.deferred.Add(int64(n))
	s.ep.deferred.Add(int64(n))
}

// commits are the deferred messages of a connection that is its only stream. Above its share a
// caller is refused, because a pause in reading would hold up all callers, and the answers to
// pings. On a multiplexed connection others have other streams.
//
// They share three quarters of the bounds at which reading pauses. The rest is for callers without
// a deferred message, which are never refused.
type commits struct{ count, octets fair.Shares }

func newCommits(b *Bounds) commits {
	return commits{fair.NewOwn(b.Deferred - b.Deferred/4), fair.NewOwn(b.InFlightBytesPerConn - b.InFlightBytesPerConn/4)}
}

var errCommits = profiles.Busy("deferred", "too many messages wait to be stored or passed on")

// mayDefer refuses a message of a caller that has deferred more messages than its share.
func (l *lane) mayDefer() error {
	s := l.s
	if l.req.Caller == nil || s.conn.Multiplexed() || l.deferrals.open.Load() == 0 || l.typ.Role&(profiles.Concluding|profiles.Within) != 0 {
		return nil
	}
	who := profiles.For(l.req.Caller.Identity)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.count.Of(who) == 0 {
		return nil
	}
	for _, answer := range [...]fair.Answer{s.waiting.count.Ask(who, 1), s.waiting.octets.Ask(who, l.size)} {
		if fault := answer.Refuse(errCommits); fault != nil {
			return fault
		}
	}
	return nil
}

// countCommit adds to the deferred messages of a caller, or subtracts.
func (s *Session) countCommit(d *deferral, begins bool) {
	if s.conn.Multiplexed() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if begins {
		s.waiting.count.Force(d.caller, 1)
		s.waiting.octets.Force(d.caller, d.size)
		return
	}
	s.waiting.count.Give(d.caller, 1)
	s.waiting.octets.Give(d.caller, d.size)
}

// deferred is the exchange of a deferred message. It needs one allocation.
type deferred struct {
	exchange
	deferral
	octets [e1.DefaultMaxMsgID]byte // of the msg_id
}

// Defer implements profiles.Exchange. The message becomes an exchange that is not in the
// table of requests in flight. Its octets are counted, because the code that commits the
// message keeps them. If there are too many, the message is not refused: reading pauses
// instead, see awaitDeferred.
func (x *exchanger) Defer(*profiles.Request) (done func(error)) {
	l := (*lane)(x)
	if l.taken != nil || l.ended {
		panic(errTaken)
	}
	s := l.s
	profile, _ := s.opts.Registry.Lookup(l.req.ProfileID)
	d := &deferred{exchange: exchange{
		s: s, l: l, profile: profile, req: l.req, seq: l.seq, size: l.size, mode: refuses, ctx: l.reqCtx, ended: l.traced,
		account: l.account,
	}}
	e := &d.exchange
	e.place = &d.deferral
	e.req.MsgID = append(d.octets[:0], l.req.MsgID...)
	d.deferral.id = e.req.MsgID
	e.req.Extensions, e.req.Payload = nil, nil
	e.req.Exchange = taken{}
	s.mu.Lock()
	s.exchanges++
	s.mu.Unlock()
	s.countDeferred(e.size)
	l.hold()
	l.taken, l.traced, l.account.record = e, nil, nil
	e.place.size = e.size
	if l.req.Caller != nil {
		e.place.caller = profiles.For(l.req.Caller.Identity)
	}
	s.countCommit(e.place, true)
	l.deferrals.add(e.place, s.share)
	return func(err error) { e.end(err, true) }
}

// leaveQueue ends a deferred message in the queue of its stream.
func (e *exchange) leaveQueue() {
	e.s.countDeferred(-e.size)
	e.s.countCommit(e.place, false)
	e.l.deferrals.finish(e.place, e.s.share)
}

// After implements profiles.Exchange.
func (x *exchanger) After(f func(), of ...[]byte) bool { return x.deferrals.after(f, of) }

// Defer implements profiles.Exchange. A request that was detached or held has lost its
// place in the order of the stream, so Defer panics.
func (taken) Defer(*profiles.Request) func(error) { panic(errTaken) }

// After implements profiles.Exchange.
func (taken) After(func(), ...[]byte) bool { return false }
