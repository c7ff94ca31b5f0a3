package a2a

import (
	"bytes"
	"context"
	"errors"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Bounds of one read of a cursor. A slow initiator occupies no more memory than this.
const (
	batchEvents = 32
	batchOctets = 64 << 10
)

// finishAtOnce is the size up to which a Result that answers a Task is queued without
// waiting for room.
const finishAtOnce = 32 << 10

// cursor sends the Events of a task, then its Result, to the sender of the Task. It holds
// only a position: the data is in the store, or still in memory. Its goroutine waits while
// the peer is slow.
type cursor struct {
	t        *task
	session  profiles.Session
	w        profiles.Responder
	lane     profiles.Lane // usable as long as the exchange is open
	msgID    []byte        // of the Task
	next     uint64        // number of the next Event to send
	after    bool          // the task had ended when the Task arrived
	sent     bool          // an Event was sent
	gap      uint64        // Events before this number are no longer stored; not yet reported
	ctx      context.Context
	cancel   context.CancelFunc
	wake     chan struct{}   // one slot
	previous <-chan struct{} // closed at the end of the previous cursor on this session; nil if there is none
	done     chan struct{}
}

// attach makes the sender of a Task the receiver of its Events, starting at number from; 0
// means the next one to be stored. After the end of the task every Task is answered, one
// after the other.
func (t *task) attach(a *arrival, from uint64) {
	c := &cursor{
		t: t, session: a.session, w: a.w, lane: a.lane, msgID: a.msgID, wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(a.w.Context())
	s := t.s
	s.mu.Lock()
	if from == 0 || from > t.log.last+1 {
		from = t.log.last + 1
	}
	c.next, c.after = from, t.ended
	if isOperation(t.Kind) {
		t.initiator = nil
	}
	old := s.tasks.cursors[t.run]
	if s.closed {
		s.mu.Unlock()
		c.cancel()
		a.w.Fail(errClosed)
		return
	}
	t.cursor, s.tasks.cursors[t.run] = c, c
	if old != nil && old.session == c.session {
		c.previous = old.done
	}
	if !c.after {
		old.stop() // before an Event for c is stored
	}
	if s.leaving() && !c.after && !t.exec.ending() {
		c.stop() // as Drain does: the task was stored after it
	}
	s.work.Go(c.run)
	s.mu.Unlock()
}

// notify wakes the cursor. c may be nil.
func (c *cursor) notify() {
	if c == nil {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// stop ends the exchange without a Result. c may be nil.
func (c *cursor) stop() {
	if c != nil {
		c.cancel()
	}
}

// run sends until the Result is sent, another cursor takes over, or the receiver has
// disconnected. Then it ends the exchange of the Task and stops using its lane.
func (c *cursor) run() {
	defer c.leave()
	defer context.AfterFunc(c.t.s.ctx, c.cancel)()
	if c.previous != nil {
		<-c.previous // otherwise an Event could be sent twice
	}
	for {
		events, ending, err := c.due()
		if err == nil {
			err = c.send(events)
		}
		switch {
		case err == errSize:
			// A repeated request gets the same answer.
			c.t.fail(reasonSize)
			c.finish(c.t.oversized())
			return
		case err != nil:
			c.end(err)
			return
		case len(events) > 0:
			continue
		case ending != nil:
			c.finish(ending)
			return
		}
		select {
		case <-c.wake:
		case <-c.ctx.Done():
			c.end(nil)
			return
		}
	}
}

// leave gives up the place to the next cursor.
func (c *cursor) leave() {
	c.cancel()
	s := c.t.s
	s.mu.Lock()
	if s.tasks.cursors[c.t.run] == c {
		delete(s.tasks.cursors, c.t.run)
	}
	s.mu.Unlock()
	close(c.done)
}

// end ends the exchange without an answer. No error is sent to a peer that has
// disconnected, or has sent the Task again elsewhere. A stream is closed a moment before ctx ends.
func (c *cursor) end(err error) {
	if c.ctx.Err() != nil || errors.Is(err, profiles.ErrFinished) {
		err = nil
	}
	if err != nil {
		c.t.s.report(c.t, err)
		err = profiles.Unavailable(err)
	}
	c.w.Fail(err)
}

// due returns the next Events, or, without any, the ending of the task.
func (c *cursor) due() ([]tailEvent, *ending, error) {
	s, t := c.t.s, c.t
	s.mu.Lock()
	last, e := t.log.last, (*ending)(nil)
	if t.ended {
		e = t.ending
	}
	var events []tailEvent
	for _, event := range t.log.tail {
		if event.seq >= c.next && (len(events) > 0 || event.seq == c.next) {
			events = append(events, event)
		}
	}
	s.mu.Unlock()
	if len(events) > 0 || c.next > last {
		return events, e, nil
	}
	events, err := c.read(last)
	if err == nil && len(events) == 0 {
		// All of them have expired. The next Event or the Result reports that.
		c.next = last + 1
		c.gap = c.next
	}
	return events, e, err
}

// read reads the next Events from the store, up to a fault or a hole in their numbers, which
// the next read finds.
func (c *cursor) read(last uint64) (events []tailEvent, err error) {
	err = retry(c.ctx, func() error {
		size := 0
		err := c.t.s.opts.Store.Read(c.ctx, spaceEvents, c.t.run, c.next-1, func(seq uint64, _ string, data []byte) bool {
			if seq > last || len(events) > 0 && seq != events[len(events)-1].seq+1 {
				return false
			}
			events = append(events, tailEvent{seq, bytes.Clone(data)})
			size += len(data)
			return len(events) < batchEvents && size < batchOctets
		})
		if len(events) > 0 {
			return nil
		}
		return err
	}, nil)
	if len(events) > 0 && events[0].seq > c.next {
		c.next = events[0].seq
		c.gap = c.next
	}
	return events, err
}

// send sends Events with their numbers.
func (c *cursor) send(events []tailEvent) error {
	for _, event := range events {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		ext := e1.AppendExtensionUvarint(make(e1.Extensions, 0, 16), ExtSequence, event.seq)
		if c.gap > 0 {
			ext = e1.AppendExtensionUvarint(ext, ExtFirstHeld, c.gap)
		}
		payload, keeps, err := cutKeeps(event.payload)
		if err != nil {
			return err
		}
		env := e1.Envelope{ProfileID: ProfileID, MsgType: TypeEvent, Extensions: ext, Payload: payload}
		if len(payload) > profiles.Room(c.lane, len(ext)) {
			return errSize
		}
		keeps.Put(&env)
		profiles.Sending(c.w, &env, false)
		if err := c.lane.Send(c.ctx, env); err != nil {
			return err
		}
		c.next, c.gap, c.sent = event.seq+1, 0, true
	}
	return nil
}

// finish sends the Result. If it answers the Task, it has the msg_id of the Task; if the
// executor ended the task, it is a new message (SWP profiles §2).
func (c *cursor) finish(e *ending) {
	if e.By == byInitiator && !c.after || c.ctx.Err() != nil {
		if e.By == byInitiator && c.ctx.Err() == nil {
			profiles.Ended(c.w, profiles.OutcomeCancelled)
		}
		c.end(nil) // the initiator ended the task, or gets the Result elsewhere
		return
	}
	env := e1.Envelope{ProfileID: ProfileID, MsgType: TypeResult, Payload: e.Result}
	if last := c.next - 1; last > 0 {
		env.Extensions = e1.AppendExtensionUvarint(env.Extensions, ExtSequence, last)
	}
	if c.gap > 0 {
		env.Extensions = e1.AppendExtensionUvarint(env.Extensions, ExtFirstHeld, c.gap)
	}
	endpoint := e.Endpoint
	if e.By == byUs {
		endpoint = []byte(c.t.s.opts.Identity)
	}
	if len(endpoint) > 0 {
		env.Extensions = e1.AppendExtension(env.Extensions, profiles.ExtEndpoint, endpoint)
	}
	if short := c.t.oversized(); len(e.Result) > max(len(short.Result), profiles.Room(c.lane, len(env.Extensions))) {
		c.finish(short) // the Result was stored when the limits were larger
		return
	}
	e.Keeps.Put(&env)
	profiles.Ended(c.w, e.outcome())
	answer := !c.sent && (c.after || e.By == byUs)
	if answer && len(e.Result) <= finishAtOnce {
		_ = c.w.Finish(env) // it cannot be sent if the session has ended
		return
	}
	if answer {
		env.MsgID = c.msgID
	}
	profiles.Sending(c.w, &env, true)
	c.end(c.lane.Send(c.ctx, env))
}

// errSize says that the next Event is above the limits for messages: it was stored when they
// were larger, or came under larger ones.
var errSize = errors.New("a2a: an event is too large to be sent")

// oversized returns the ending that the initiator gets in place of an ending that cannot be sent.
func (t *task) oversized() *ending {
	m := ResultBody{TaskID: t.ID, ErrorMessage: []byte(reasonSize)}
	return &ending{By: byUs, Result: m.Append(nil)}
}

// outcome returns the outcome for metrics and the access log.
func (e *ending) outcome() profiles.Outcome {
	var m ResultBody
	switch err := m.Decode(e.Result); {
	case err == nil && m.OK:
		return profiles.OutcomeOK
	case e.By == byUs && string(m.ErrorMessage) == reasonDenied:
		return profiles.OutcomeDenied
	case e.By == byInitiator:
		return profiles.OutcomeCancelled
	}
	return profiles.OutcomeFailed
}
