package a2a

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// Bounds of the Events of a task in memory.
const (
	maxQueue     = 64       // Events that wait to be stored
	maxQueueSize = 1 << 20  // and their octets
	maxTail      = maxQueue // last Events, for the cursor: those of one write
	maxTailSize  = 16 << 10 // and their octets
)

// eventLog stores the Events of a task in order, so that a failure leaves no gap. Events that come
// during a write are stored together by the next one. Events of several tasks share a commit.
type eventLog struct {
	t *task

	// The fields from here on are guarded by the mu of the Service.
	queue  []entry  // Events that are not stored yet; the first ones are being written
	size   int      // their octets
	idle   []func() // called when the queue is empty; no further Event is accepted
	count  int      // Events stored or queued in this process
	octets int      // and their size
	last   uint64   // number of the last Event that is stored
	remote uint64   // the agent's number of its last stored Event
	tail   []tailEvent
	kept   int // octets of tail

	// The fields from here on belong to the present write.
	failures int                         // failed writes
	appended func(store.AppendAllResult) // finish, bound once
}

// entry is an Event that is not yet stored.
type entry struct {
	payload []byte
	id      string                 // id in the store; repeated writes store it once
	number  uint64                 // number from the agent, or 0
	before  func(done func(error)) // stores data that must precede the Event; may be nil
	done    func(error)
}

// tailEvent is a stored Event that is still in memory.
type tailEvent struct {
	seq     uint64
	payload []byte
}

// uniqueID returns an id for an Event without one.
func uniqueID() string { return "~" + newNonce() }

var (
	errOver    = errors.New("a2a: the task is over")
	errTooMany = errors.New("a2a: the task has too many events")
)

// errQueue refuses an Event of an agent that is faster than the store. The Event is
// requested again later.
var errQueue = profiles.Busy("event_queue", "too many events of this task are waiting to be stored")

// add stores an Event. It calls done of the entry when the Event is stored, or with the
// error.
func (l *eventLog) add(e entry) {
	s := l.t.s
	s.mu.Lock()
	if err := l.refusal(len(e.payload)); err != nil {
		s.mu.Unlock()
		e.done(err)
		if err == errTooMany {
			l.t.fail(reasonEvents)
		}
		return
	}
	l.queue = append(l.queue, e)
	l.size += len(e.payload)
	l.count++
	l.octets += len(e.payload)
	first := len(l.queue) == 1
	if first {
		l.failures = 0
	}
	s.mu.Unlock()
	if first {
		l.write()
	}
}

// refusal returns the error for an Event of a size that cannot be accepted, or nil. The
// caller holds mu.
func (l *eventLog) refusal(size int) error {
	t, opts := l.t, &l.t.s.opts
	switch {
	case t.s.closed:
		return errClosed
	case t.over || len(l.idle) > 0:
		return errOver
	case l.count >= opts.Events || l.octets+size > opts.EventBytes:
		return errTooMany
	case !l.fits(size):
		return errQueue
	}
	return nil
}

// note stores an Event of this endpoint.
func (l *eventLog) note(id, message string) {
	l.add(entry{payload: l.t.event(message, nil), id: id, done: func(error) {}})
}

// progress stores an Event of a Worker and waits for that. The error for one above the limit
// is a *Failure.
func (l *eventLog) progress(message string, payload []byte) error {
	if message == "" && len(payload) == 0 {
		return errors.New("a2a: event without a message and without a payload")
	}
	body := l.t.event(strings.ToValidUTF8(message, "\uFFFD"), payload)
	if len(body) > l.t.s.opts.MaxPayload {
		return &Failure{Reason: reasonSize}
	}
	done := make(chan error, 1)
	l.add(entry{payload: body, id: uniqueID(), done: func(err error) { done <- err }})
	select {
	case err := <-done:
		return err
	case <-l.t.ctx.Done():
		return errOver
	}
}

// fits reports whether the queue has room for an Event of a size. The caller holds mu.
func (l *eventLog) fits(size int) bool {
	return len(l.queue) == 0 || len(l.queue) < maxQueue && l.size+size <= maxQueueSize
}

// halfEmpty reports whether half of the queue is free, so that dropped Events can be
// requested again. The caller holds mu.
func (l *eventLog) halfEmpty() bool { return len(l.queue) <= maxQueue/2 && l.size <= maxQueueSize/2 }

// write submits the first Event of the queue, and the Events behind it that have no before.
func (l *eventLog) write() {
	t := l.t
	t.s.mu.Lock()
	if len(l.queue) == 0 { // the task was abandoned
		t.s.mu.Unlock()
		return
	}
	var batch []store.Entry
	before := l.queue[0].before
	for _, e := range l.queue {
		if e.before != nil {
			break
		}
		batch = append(batch, store.Entry{ID: e.id, Data: e.payload})
	}
	t.s.mu.Unlock()
	if before == nil {
		if l.appended == nil {
			l.appended = func(r store.AppendAllResult) { l.finish(r.Seqs, r.Err) }
		}
		t.s.opts.Store.AppendAll(spaceEvents, t.run, t.Owner, batch, t.Expires, l.appended)
		return
	}
	before(func(err error) {
		if err != nil {
			l.finish(nil, err)
			return
		}
		t.s.mu.Lock()
		if len(l.queue) > 0 {
			l.queue[0].before = nil
		}
		t.s.mu.Unlock()
		l.write()
	})
}

// finish is called after a write. After a temporary error the Events are written again: a write
// that failed may have been carried out. After a permanent error the task ends, after a *Failure of
// a Ward with that.
func (l *eventLog) finish(seqs []uint64, err error) {
	refused, isRefused := errors.AsType[*Failure](err)
	switch {
	case err == nil:
		l.advance(seqs)
	case isRefused:
		l.t.finish(&ending{By: byUs}, l.t.failure(refused), nil)
		l.advance(nil)
	case passing(err):
		l.failures++
		l.t.retryLater(l.failures-1, err, l.write)
	default:
		l.t.s.report(l.t, err)
		l.t.fail(reasonOf(err))
		l.advance(nil)
	}
}

// advance continues after the first Events were stored with these numbers, or, without numbers, the
// first was given up.
func (l *eventLog) advance(seqs []uint64) {
	t, s := l.t, l.t.s
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return // abandon calls done
	}
	n := max(len(seqs), 1)
	ended := l.queue[:n]
	l.queue = l.queue[n:]
	for i, e := range ended {
		l.size -= len(e.payload)
		if i >= len(seqs) {
			continue
		}
		l.remote = max(l.remote, e.number)
		if seqs[i] > l.last {
			l.last = seqs[i]
			l.keep(tailEvent{seqs[i], e.payload})
		}
	}
	var dropped []entry
	if t.over {
		dropped, l.queue, l.size = l.queue, nil, 0
	}
	var idle []func()
	more := len(l.queue) > 0
	if more {
		l.failures = 0
	} else {
		l.queue = nil
		idle, l.idle = l.idle, nil
	}
	var behind *Delivery
	if l.halfEmpty() {
		behind = t.exec.delivery
	}
	t.cursor.notify()
	s.mu.Unlock()

	if behind != nil {
		behind.requestMissing()
	}
	for i, e := range ended {
		if i < len(seqs) {
			e.done(nil)
		} else {
			e.done(errOver)
		}
	}
	for _, d := range dropped {
		d.done(errOver)
	}
	for _, f := range idle {
		f()
	}
	if more {
		l.write()
	}
}

// keep keeps a stored Event in memory for the cursor. The caller holds mu.
func (l *eventLog) keep(e tailEvent) {
	l.tail = append(l.tail, e)
	l.kept += len(e.payload)
	for len(l.tail) > maxTail || l.kept > maxTailSize {
		l.kept -= len(l.tail[0].payload)
		l.tail[0] = tailEvent{}
		l.tail = l.tail[1:]
	}
}

// busy reports whether an Event is being written. The caller holds mu.
func (l *eventLog) busy() bool { return len(l.queue) > 0 }

// drain calls f when every added Event is stored. Until then no Event is accepted.
func (l *eventLog) drain(f func()) {
	s := l.t.s
	s.mu.Lock()
	busy := l.busy()
	if busy {
		l.idle = append(l.idle, f)
	}
	s.mu.Unlock()
	if !busy {
		f()
	}
}

// restore reads from the store the state of the log in an earlier process.
func (l *eventLog) restore(ctx context.Context) error {
	store := l.t.s.opts.Store
	first, last, err := store.Span(ctx, spaceEvents, l.t.run)
	if err != nil {
		return err
	}
	l.last = last
	l.count = int(min(last, uint64(l.t.s.opts.Events)))
	if l.t.ended || first > last {
		return nil
	}
	// The last Event of the agent is the last entry, or the entry before an Event of this
	// endpoint.
	return store.Read(ctx, spaceEvents, l.t.run, max(first, last-min(last, 2)+1)-1, func(_ uint64, id string, _ []byte) bool {
		if n, err := strconv.ParseUint(id, 10, 64); err == nil {
			l.remote = max(l.remote, n)
		}
		return true
	})
}

// lastPayload reads the payload of the last Event, or nil.
func (l *eventLog) lastPayload() (payload []byte, err error) {
	t := l.t
	t.s.mu.Lock()
	last := l.last
	t.s.mu.Unlock()
	if last == 0 {
		return nil, nil
	}
	var fault error
	err = t.s.opts.Store.Read(t.ctx, spaceEvents, t.run, last-1, func(_ uint64, _ string, data []byte) bool {
		var m EventBody
		if fault = m.Decode(data); fault == nil {
			payload = bytes.Clone(m.Payload)
		}
		return false
	})
	return payload, errors.Join(err, fault)
}
