package a2a

import (
	"errors"

	"github.com/slimwire/swp/profiles"
)

// Bounds of what is kept in memory of the Events of a task.
const (
	maxQueue     = 64       // Events that wait for the one before to be stored
	maxQueueSize = 1 << 20  // and their octets
	maxTail      = 8        // last Events, for whoever is being sent to
	maxTailSize  = 16 << 10 // and their octets
)

// entry is an Event on its way into the log.
type entry struct {
	payload []byte
	id      string                 // under which it is stored once, however often that is tried
	number  uint64                 // that an agent gave it, or 0
	first   func(done func(error)) // what is to be stored before it; nil: nothing
	done    func(error)
}

// anonymous is the id of an Event that has no other.
func anonymous() string { return "~" + newNonce() }

var (
	errOver    = errors.New("a2a: the task is over")
	errTooMany = errors.New("a2a: the task has too many events")
)

// errQueue refuses an Event of an agent that is faster than the store. The
// agent is asked for it again.
var errQueue = profiles.Busy("event_queue", "too many events of this task are waiting to be stored")

// add stores an Event. They are stored one after the other, so that a failure
// leaves no hole; those of many tasks share a commit.
func (t *task) add(e entry) {
	s := t.s
	s.mu.Lock()
	var refused error
	switch {
	case s.closed:
		refused = errClosed
	case t.over || t.drained != nil:
		refused = errOver
	case t.count >= s.opts.Events || t.octets+len(e.payload) > s.opts.EventBytes:
		refused = errTooMany
	case !t.fits(len(e.payload)):
		refused = errQueue
	}
	if refused != nil {
		s.mu.Unlock()
		e.done(refused)
		if refused == errTooMany {
			t.fail(reasonEvents)
		}
		return
	}
	t.queue = append(t.queue, e)
	t.size += len(e.payload)
	t.count++
	t.octets += len(e.payload)
	start := !t.writing
	t.writing = true
	s.mu.Unlock()
	if start {
		t.write(e, 0)
	}
}

// fits reports whether the queue has room for an Event of a size. The caller holds mu.
func (t *task) fits(size int) bool {
	return len(t.queue) == 0 || len(t.queue) < maxQueue && t.size+size <= maxQueueSize
}

// drains reports whether half of the queue is free, so that it is worth while to ask
// for what had no room. The caller holds mu.
func (t *task) drains() bool { return len(t.queue) <= maxQueue/2 && t.size <= maxQueueSize/2 }

// write submits the first Event of the queue, and tries again until it is
// stored: nobody knows whether a write that failed was carried out.
func (t *task) write(e entry, failures int) {
	if e.first != nil {
		e.first(func(err error) {
			if err != nil {
				t.unwritten(e, failures, err)
				return
			}
			e.first = nil
			t.write(e, failures)
		})
		return
	}
	t.s.opts.Store.Append(spaceEvents, t.run, e.id, t.Owner, e.payload, t.Expires, func(seq uint64, _, _ bool, err error) {
		if err != nil {
			t.unwritten(e, failures, err)
			return
		}
		t.wrote(e, seq)
	})
}

// unwritten has an Event written again, or if that is of no use ends the task.
func (t *task) unwritten(e entry, failures int, err error) {
	s := t.s
	if !passing(err) {
		s.report(t, err)
		t.fail(reasonOf(err))
		t.wrote(e, 0)
		return
	}
	if failures == 0 {
		s.report(t, err)
	}
	s.later(storePauses.After(failures), func() { t.write(e, failures+1) })
}

// wrote goes on after an Event was stored under a number, or with 0 never will
// be.
func (t *task) wrote(e entry, seq uint64) {
	s := t.s
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return // abandon tells
	}
	t.queue = t.queue[1:]
	t.size -= len(e.payload)
	if seq > 0 {
		t.seen = max(t.seen, e.number)
	}
	if seq > t.last {
		t.last = seq
		t.keep(tailEvent{seq, e.payload})
	}
	var dropped []entry
	if t.over {
		dropped, t.queue, t.size = t.queue, nil, 0
	}
	var next *entry
	if len(t.queue) > 0 {
		next = &t.queue[0]
	}
	t.writing = next != nil
	var drained func()
	var submit *ending
	if next == nil {
		t.queue = nil
		drained, t.drained = t.drained, nil
		if t.over {
			submit = t.ending
		}
	}
	var out *Delivery
	if t.drains() {
		out = t.out
	}
	t.cursor.poke()
	s.mu.Unlock()

	if out != nil {
		out.catchUp()
	}
	if seq > 0 {
		e.done(nil)
	} else {
		e.done(errOver)
	}
	for _, d := range dropped {
		d.done(errOver)
	}
	if drained != nil {
		drained()
	}
	switch {
	case next != nil:
		t.write(*next, 0)
	case submit != nil:
		t.submit(submit, 0)
	}
}

// tailEvent is a stored Event that is still in memory.
type tailEvent struct {
	seq     uint64
	payload []byte
}

// keep remembers a stored Event for the one who is being sent to. The caller
// holds mu.
func (t *task) keep(e tailEvent) {
	t.tail = append(t.tail, e)
	size := 0
	for _, e := range t.tail {
		size += len(e.payload)
	}
	for len(t.tail) > 0 && (len(t.tail) > maxTail || size > maxTailSize) {
		size -= len(t.tail[0].payload)
		t.tail[0] = tailEvent{}
		t.tail = t.tail[1:]
	}
}

// drain calls f once every Event that was added is stored.
func (t *task) drain(f func()) {
	s := t.s
	s.mu.Lock()
	if t.writing {
		t.drained = f
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	f()
}
