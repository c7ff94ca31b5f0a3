package a2a

import (
	"github.com/slimwire/swp/profiles"
)

// maxAsks is how often Events that are missing are asked for. An executor that
// has not sent them by then does not count as we do.
const maxAsks = 3

// event takes an Event of the executor.
func (d *Delivery) event(req *profiles.Request, m *EventBody) error {
	at, err := readPosition(req.Extensions)
	if err != nil {
		return err
	}
	number, numbered, first := at.number, at.numbered, at.firstHeld
	d.mu.Lock()
	if d.over {
		d.mu.Unlock()
		return d.after(nil)
	}
	d.heard = true
	if numbered && number <= d.last && number > 0 {
		d.mu.Unlock()
		return nil // it came before
	}
	room := d.to.room(len(m.Message)+len(m.Payload), numbered)
	next := !numbered || number == d.last+1 || first > d.last && first <= number || d.asks >= maxAsks
	switch {
	case !numbered && !room:
		d.mu.Unlock()
		d.end(errFull) // what has no number can not be asked for
		return nil
	case !next || !room:
		d.lack()
		d.mu.Unlock()
		return nil
	}
	d.behind, d.asked, d.asks = false, false, 0
	if numbered {
		d.last = number
	}
	d.mu.Unlock()
	return d.to.event(req, m, number, first)
}

// lack notes that an Event was dropped, and asks for it if there is room again. The
// caller holds mu.
func (d *Delivery) lack() {
	d.behind = true
	if !d.asked && d.to.wants() {
		d.ask()
	}
}

// ask has the Task sent again, to get what is missing. The caller holds mu.
func (d *Delivery) ask() {
	d.asked = true
	d.asks++
	d.wanted = true
	if d.again != nil {
		d.again()
	}
}

// catchUp asks for what was dropped, now that there may be room.
func (d *Delivery) catchUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.behind && !d.asked && !d.over {
		d.ask()
	}
}

// fallBehind takes back the Events after a number, because they could not be
// kept, and asks for them after a while.
func (d *Delivery) fallBehind(last uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return
	}
	d.last = min(d.last, last)
	d.behind, d.asked = true, false
	d.s.later(firstPause, d.catchUp)
}

// result takes a Result of the executor.
func (d *Delivery) result(req *profiles.Request, m *ResultBody, at position) error {
	last, first := at.number, at.firstHeld
	d.mu.Lock()
	switch {
	case d.over:
		d.mu.Unlock()
		sum := sumResult(m)
		return d.after(&sum)
	case last > d.last && first <= d.last && d.asks < maxAsks:
		d.lack()
		fallthrough
	case d.behind:
		d.heard = true
		d.mu.Unlock()
		return nil // it comes again, after what is missing
	}
	d.heard, d.over = true, true
	d.mu.Unlock()
	sum := sumResult(m)
	d.s.outbox.remove(d, &sum)
	return d.to.result(req, m, at)
}

// after takes an Event, or with sum a Result, that came after the end.
func (d *Delivery) after(sum *digest) error {
	known, err := d.s.outbox.late(d.at, sum)
	if !known {
		return errUnknown
	}
	return err
}

// close ends the Delivery for any reason but a Result. It reports whether it
// was open.
func (d *Delivery) close(cause error) bool {
	d.mu.Lock()
	first := !d.over
	d.over = true
	d.mu.Unlock()
	if first {
		d.s.outbox.remove(d, nil)
	}
	d.cancel(cause)
	return first
}

// end ends the Delivery because nothing more can come, or is to.
func (d *Delivery) end(err error) {
	if d.close(err) {
		d.to.lost(err)
	}
}

// abort ends the Delivery and tells the executor why.
func (d *Delivery) abort(m *ResultBody) bool {
	d.mu.Lock()
	if !d.over {
		d.farewell = m
	}
	d.mu.Unlock()
	return d.close(profiles.ErrFinished)
}
