package a2a

import (
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// maxRequests is how often missing Events are requested. An executor that has not sent them
// after that uses another numbering.
const maxRequests = 3

// sequence records the received Events of an executor. The mu of its Delivery guards it.
type sequence struct {
	last      uint64 // number of the last Event taken
	missing   bool   // Events after last were dropped
	requested bool   // a request for them was sent, or will be
	requests  int    // requests since the last received Event
}

// taken reports whether an Event was received before.
func (q *sequence) taken(at position) bool {
	return at.numbered && 0 < at.number && at.number <= q.last
}

// follows reports whether an Event is the next one, as far as numbers show.
func (q *sequence) follows(at position) bool {
	return !at.numbered || at.number == q.last+1 || at.firstHeld > q.last && at.firstHeld <= at.number || q.requests >= maxRequests
}

// complete reports whether no Event is missing before a Result. Events that were requested
// in vain, or that the executor no longer has, do not count as missing.
func (q *sequence) complete(at position) bool {
	return at.number <= q.last || at.firstHeld > q.last || q.requests >= maxRequests
}

// take records an Event as received.
func (q *sequence) take(at position) {
	q.missing, q.requested, q.requests = false, false, 0
	if at.numbered {
		q.last = at.number
	}
}

// event handles an Event of the executor.
func (d *Delivery) event(req *profiles.Request, m *EventBody) error {
	at, err := d.position(&req.Envelope)
	if err != nil {
		return err
	}
	d.mu.Lock()
	if d.over {
		d.mu.Unlock()
		return d.afterEnd(nil, at)
	}
	d.answered = true
	if d.seq.taken(at) {
		d.mu.Unlock()
		return nil
	}
	room := d.to.room(len(m.Message)+len(m.Payload), at.numbered)
	switch {
	case !at.numbered && !room:
		d.mu.Unlock()
		d.end(errFull) // an Event without a number cannot be requested again
		return nil
	case !room || !d.seq.follows(at):
		d.drop()
		d.mu.Unlock()
		return nil
	}
	d.seq.take(at)
	d.mu.Unlock()
	return d.to.event(req, m, at)
}

// position reads the extensions of a message of the executor. An executor that numbers its
// Events can send them again.
func (d *Delivery) position(env *e1.Envelope) (position, error) {
	at, err := readPosition(env)
	if err == nil && at.numbered && !profiles.Heeds(d.session, ProfileID, ExtResume) {
		profiles.Learn(d.session, resumes)
	}
	return at, err
}

// drop records a missing Event, and requests it if there is room again. The caller holds
// mu.
func (d *Delivery) drop() {
	d.seq.missing = true
	if !d.seq.requested && d.to.wantsMissing() {
		d.resend()
	}
}

// resend sends the Task again, which requests the missing Events. The caller holds mu.
func (d *Delivery) resend() {
	d.seq.requested = true
	d.seq.requests++
	d.resendDue = true
	if d.interrupt != nil {
		d.interrupt()
	}
}

// requestMissing requests the dropped Events when there may be room.
func (d *Delivery) requestMissing() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seq.missing && !d.seq.requested && !d.over {
		d.resend()
	}
}

// takeBack records the Events after a number as missing, because they could not be kept,
// and requests them after a while.
func (d *Delivery) takeBack(last uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return
	}
	d.seq.last = min(d.seq.last, last)
	d.seq.missing, d.seq.requested = true, false
	d.s.later(firstPause, d.requestMissing)
}

// result handles a Result of the executor.
func (d *Delivery) result(req *profiles.Request, m *ResultBody, at position) error {
	sum := sumResult(m)
	d.mu.Lock()
	if d.over {
		d.mu.Unlock()
		return d.afterEnd(&sum, at)
	}
	d.answered = true
	if !d.seq.complete(at) {
		d.drop()
	}
	if d.seq.missing {
		d.mu.Unlock()
		return nil // it comes again, after what is missing
	}
	d.over = true
	ended := endedTask{&sum, d.seq.last}
	d.mu.Unlock()
	d.s.outbox.remove(d, ended)
	return d.to.result(req, m, at)
}

// afterEnd handles an Event, or with sum a Result, after the end.
func (d *Delivery) afterEnd(sum *digest, place position) error {
	known, err := d.s.outbox.late(d.at, sum, place)
	if !known {
		return errUnknown
	}
	return err
}

// close ends the Delivery without a Result. It reports whether it was open.
func (d *Delivery) close(cause error) bool {
	d.mu.Lock()
	first := !d.over
	d.over = true
	ended := endedTask{last: d.seq.last}
	d.mu.Unlock()
	if first {
		d.s.outbox.remove(d, ended)
	}
	d.cancel(cause)
	return first
}

// end ends the Delivery after a permanent error, or on request.
func (d *Delivery) end(err error) {
	if d.close(err) {
		d.to.lost(err)
	}
}

// abort ends the Delivery with a Result of this side for the executor.
func (d *Delivery) abort(m *ResultBody) bool {
	d.mu.Lock()
	if !d.over {
		d.farewell = m
	}
	d.mu.Unlock()
	return d.close(profiles.ErrFinished)
}
