package endpoint

import (
	"bytes"
	"sync"

	"github.com/slimwire/swp/profiles"
)

// deferrals are the messages of one stream that were accepted but are not done:
// their commit is under way. What was asked to wait for them stands between
// them, in the order of arrival.
type deferrals struct {
	mu    sync.Mutex
	queue []*deferral
	open  int           // of the queue, messages that are not done
	room  chan struct{} // closed when the loop may read on; nil unless it waits
}

// deferral is a message, or what waits for all that came before it.
type deferral struct {
	done bool
	then func() // nil for a message
}

func (d *deferrals) add() *deferral {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := new(deferral)
	d.queue = append(d.queue, m)
	d.open++
	return m
}

// after queues f behind the messages that are open, unless there are none.
func (d *deferrals) after(f func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == 0 {
		return false
	}
	d.queue = append(d.queue, &deferral{done: true, then: f})
	return true
}

// finish marks a message done and runs what waited for nothing else.
func (d *deferrals) finish(m *deferral) {
	d.mu.Lock()
	m.done = true
	d.open--
	n := 0
	for n < len(d.queue) && d.queue[n].done {
		n++
	}
	ready := d.queue[:n:n]
	d.queue = d.queue[n:]
	if len(d.queue) == 0 {
		d.queue = nil
	}
	if d.room != nil {
		close(d.room)
		d.room = nil
	}
	d.mu.Unlock()
	for _, e := range ready {
		if e.then != nil {
			e.then()
		}
	}
}

// full returns a channel to wait for while limit messages are open, else nil.
func (d *deferrals) full(limit int) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open < limit {
		return nil
	}
	if d.room == nil {
		d.room = make(chan struct{})
	}
	return d.room
}

// awaitDeferred pauses reading while too many messages are not done. That is
// how a slow store slows down who publishes.
func (l *lane) awaitDeferred() {
	for !l.stopped {
		room := l.deferrals.full(l.s.ep.opts.Bounds.Deferred)
		if room == nil {
			return
		}
		l.out.flush()
		select {
		case <-room:
		case <-l.ctx.Done():
			return
		}
	}
}

// Defer implements profiles.Exchange. The message becomes an exchange without a
// place in the table of what is in flight.
func (x *exchanger) Defer(*profiles.Request) (done func(error)) {
	l := (*lane)(x)
	if l.taken != nil || l.ended {
		panic(errTaken)
	}
	profile, _ := l.s.ep.opts.Registry.Lookup(l.req.ProfileID)
	e := &exchange{
		s: l.s, l: l, profile: profile, req: l.req, seq: l.seq, size: l.size, mode: refuses, ctx: l.ctx, ended: l.traced,
	}
	e.req.MsgID = bytes.Clone(l.req.MsgID)
	e.req.Extensions, e.req.Payload = nil, nil
	e.req.Exchange = taken{}
	l.s.mu.Lock()
	l.s.exchanges++
	l.s.mu.Unlock()
	l.hold()
	l.taken = e
	d := &l.deferrals
	m := d.add()
	return func(err error) {
		l.hold() // e.end gives up its reference
		e.end(err, true)
		d.finish(m)
		l.release()
	}
}

// After implements profiles.Exchange.
func (x *exchanger) After(f func()) bool { return x.deferrals.after(f) }

// Defer implements profiles.Exchange: what was handed over has no order left to
// keep, and is refused.
func (taken) Defer(*profiles.Request) func(error) { panic(errTaken) }

// After implements profiles.Exchange.
func (taken) After(func()) bool { return false }
