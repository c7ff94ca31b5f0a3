package a2a

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Event is progress of a task that was sent.
type Event struct {
	Seq     uint64 // its number, from 1 without gaps but for FirstHeld; 0 if the executor does not number
	Message string // for people
	Payload []byte // the caller's own

	// FirstHeld, if it is not 0, says that there were Events before this one
	// which the executor no longer holds: the first it holds has this number.
	FirstHeld uint64
}

// Result is how a task that was sent has ended.
type Result struct {
	OK     bool
	Output []byte // the caller's own
	Reason string // error_message, if not OK

	// Last is the number of the last Event; 0 if there was none or the executor
	// does not number.
	Last uint64

	// FirstHeld, if it is not 0, says that Events are no longer held, and none
	// came after them.
	FirstHeld uint64
}

const (
	// firstSilence is how long a Task may stay without an Event or a Result
	// before it is sent again; then twice as long each time, up to maxSilence.
	firstSilence = 3 * time.Second
	maxSilence   = 30 * time.Second

	// firstPause is how long to wait before a Task is sent again that was
	// refused, or that an Event of could not be kept; then twice as long each
	// time, up to maxSilence.
	firstPause = time.Second

	// maxAsks is how often Events that are missing are asked for. An executor
	// that has not sent them by then does not count as we do.
	maxAsks = 3

	// cancelWait bounds how long a slow peer is waited for that is told that a
	// task of ours is over.
	cancelWait = time.Second
)

// receiver is who a Delivery is for: an application, or a task that was passed
// on. Its methods do not block, and are called in the order of the Events.
type receiver interface {
	// task returns the Task to send, as payload and extensions but for 20.
	task(ctx context.Context) (payload []byte, ext e1.Extensions, err error)

	// room reports whether an Event can be taken now.
	room(size int) bool

	// event takes an Event. number is 0 if it has none.
	event(req *profiles.Request, m *EventBody, number, firstHeld uint64) error

	// result takes the Result; req is nil if it came in answer to the Task.
	result(req *profiles.Request, m *ResultBody, last, firstHeld uint64) error

	// lost says that nothing more comes, because the session is gone or refused
	// the Task.
	lost(err error)
}

// Delivery is a task that was sent, and what comes back. It lasts as long as
// its session: on another one the same Task is sent again, with Resume and the
// number of the last Event received.
type Delivery struct {
	s       *Service
	session profiles.Session
	at      address
	id      []byte
	kind    string
	to      receiver
	in      *inbox // the receiver, if it is an application
	ctx     context.Context
	cancel  context.CancelCauseFunc

	lane profiles.Lane // belongs to Send, then to run

	mu     sync.Mutex
	resume bool   // the Task was sent before
	last   uint64 // number of the last Event taken
	heard  bool   // something came since the Task was sent
	behind bool   // Events after last were dropped
	asked  bool   // they were asked for, or will be
	asks   int    // how often, since the last one that was taken
	wanted bool   // the Task is to be sent again
	again  func() // ends the wait for an answer, so that it is
	over   bool   // the Result was taken, or nothing more is wanted

	farewell *ResultBody   // of ours, sent in the end
	told     error         // why it could not be
	done     chan struct{} // closed when run has returned
}

// Send sends a Task and returns what comes back. Of t it reads ID (nil means 16
// fresh random octets), Kind, Input, Params and Deadline, and keeps what it
// needs until Close. It returns when the Task is queued for writing; ctx also
// carries the trace context of the task. The caller closes the Delivery.
//
// A Task that gets neither an Event nor a Result is sent again after a while,
// which executes nothing twice. A second Delivery of one task_id to one identity
// replaces the first, whose Recv then fails with profiles.ErrFinished.
func (s *Service) Send(ctx context.Context, session profiles.Session, t *Task, opts SendOptions) (*Delivery, error) {
	id := t.ID
	if id == nil {
		id = profiles.NewMsgID()
	}
	in := newInbox(s, id, t, opts)
	payload, _, _ := in.task(ctx)
	if err := new(TaskBody).Decode(payload); err != nil {
		return nil, err
	}
	d := s.newDelivery(profiles.WithTrace(s.ctx, profiles.TraceOf(ctx)), session, id, t.Kind, in)
	d.in, in.d = in, d
	d.resume, d.last = opts.Resume, opts.After
	if err := d.open(); err != nil {
		return nil, err
	}
	call, err := d.post(ctx)
	if err != nil {
		d.Close()
		return nil, err
	}
	if !s.spawn(func() { d.run(call) }) {
		call.Close()
		return nil, errClosed
	}
	return d, nil
}

func (s *Service) newDelivery(ctx context.Context, session profiles.Session, id []byte, kind string, to receiver) *Delivery {
	d := &Delivery{
		s: s, session: session, at: address{session.Peer().Identity, string(id)}, id: id, kind: kind, to: to,
		done: make(chan struct{}),
	}
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	return d
}

// open enters the Delivery in the table, in place of an older one.
func (d *Delivery) open() error {
	s := d.s
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	old := s.sent[d.at]
	s.sent[d.at] = d
	s.mu.Unlock()
	if old != nil {
		old.fail(profiles.ErrFinished)
	}
	return nil
}

// post sends the Task, on a lane of its own.
func (d *Delivery) post(ctx context.Context) (profiles.Call, error) {
	payload, ext, err := d.to.task(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	if d.resume {
		ext = e1.AppendExtensionUvarint(ext, profiles.ExtResume, d.last)
	}
	d.resume, d.heard, d.wanted = true, false, false
	d.mu.Unlock()
	if d.lane == nil {
		if d.lane, err = d.session.Open(ctx); err != nil {
			return nil, err
		}
	}
	if d.s.opts.Propagate != nil {
		_ = d.s.opts.Propagate(ctx, d.lane, d.id)
	}
	call, err := d.lane.Call(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypeTask, Extensions: ext, Payload: payload})
	if err != nil {
		_ = d.lane.Close()
		d.lane = nil
	}
	return call, err
}

// errFull ends a Delivery whose receiver is slower than an executor that does
// not number its Events.
var errFull = profiles.Busy("a2a_inbox", "events were not received in time, and have no numbers to be asked for")

var (
	errSilent = errors.New("a2a: neither an event nor a result came")
	errAsk    = errors.New("a2a: events are missing")
)

// run waits for the answer to the Task, and sends it again where that is what
// it takes, until the task is over or the session is gone. call is nil if the
// Task has not been sent.
func (d *Delivery) run(call profiles.Call) {
	defer close(d.done)
	defer d.part()
	for failures := 0; ; failures++ {
		var err error
		if call == nil {
			call, err = d.post(d.ctx)
		}
		if err == nil {
			err = d.listen(call, min(firstSilence<<min(failures, 4), maxSilence))
			call.Close()
			call = nil
		}
		if d.progress() {
			failures = 0
		}
		var refused *profiles.Error
		switch {
		case d.ctx.Err() != nil:
			return
		case d.session.Context().Err() != nil:
			d.end(context.Cause(d.session.Context()))
			return
		case errors.Is(err, errAsk), errors.Is(err, errSilent):
			continue
		case errors.As(err, &refused) && !refused.Retryable:
			d.end(err)
			return
		}
		if d.lane != nil { // the stream of the Task was reset
			_ = d.lane.Close()
			d.lane = nil
		}
		d.pause(firstPause << min(failures, 5))
	}
}

// progress reports whether anything came since the Task was sent.
func (d *Delivery) progress() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.heard
}

// part says the last word of this side, if there is one, and gives up the lane.
func (d *Delivery) part() {
	if d.lane == nil {
		d.told = profiles.ErrFinished
		return
	}
	d.mu.Lock()
	m := d.farewell
	d.mu.Unlock()
	if m != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), cancelWait)
		defer cancel()
		m.TaskID = d.id
		d.told = d.lane.Send(ctx, e1.Envelope{ProfileID: ProfileID, MsgType: TypeResult, Payload: m.Append(make([]byte, 0, m.Size()))})
	}
	_ = d.lane.Close()
}

func (d *Delivery) pause(wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.ctx.Done():
	case <-d.session.Context().Done():
	}
}

// listen takes the Results that come in answer to the Task, until it is to be
// sent again or nothing can come any more.
func (d *Delivery) listen(call profiles.Call, silence time.Duration) error {
	ctx, cancel := context.WithCancelCause(d.ctx)
	defer cancel(nil)
	d.mu.Lock()
	if d.wanted {
		d.mu.Unlock()
		return errAsk
	}
	d.again = func() { cancel(errAsk) }
	behind := d.behind
	d.mu.Unlock()
	if !delegated(d.kind) || behind {
		timer := time.AfterFunc(silence, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			switch {
			case d.behind && d.to.room(0):
				d.ask()
			case !d.heard:
				cancel(errSilent)
			}
		})
		defer timer.Stop()
	}
	for {
		env, err := call.Recv(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		var m ResultBody
		if err := m.Decode(env.Payload); err != nil {
			return err
		}
		if !bytes.Equal(m.TaskID, d.id) {
			return profiles.Errorf(profiles.InvalidProfilePayload, "a2a: result of another task in answer to a task")
		}
		_ = d.result(nil, &m, env.Extensions) // what it breaks is over by then
	}
}

// event takes an Event of the executor.
func (d *Delivery) event(req *profiles.Request, m *EventBody) error {
	number, numbered := req.Extensions.LookupUvarint(profiles.ExtSequence)
	first, _ := req.Extensions.LookupUvarint(profiles.ExtFirstHeld)
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
	room := d.to.room(len(m.Message) + len(m.Payload))
	next := !numbered || number == d.last+1 || first > d.last && first <= number || d.asks >= maxAsks
	switch {
	case !numbered && !room:
		d.mu.Unlock()
		d.fail(errFull) // what has no number can not be asked for
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

// lack notes that an Event was dropped, and asks for it if there is room. The
// caller holds mu.
func (d *Delivery) lack() {
	d.behind = true
	if !d.asked && d.to.room(0) {
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
func (d *Delivery) result(req *profiles.Request, m *ResultBody, ext e1.Extensions) error {
	last, _ := ext.LookupUvarint(profiles.ExtSequence)
	first, _ := ext.LookupUvarint(profiles.ExtFirstHeld)
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
	d.leave(&sum)
	return d.to.result(req, m, last, first)
}

// after takes what comes after the end. sum is that of a Result, nil for an
// Event.
func (d *Delivery) after(sum *digest) error {
	s := d.s
	s.mu.Lock()
	l := s.gone.get(d.at)
	s.mu.Unlock()
	if l == nil {
		return errUnknown
	}
	return s.afterwards(l, sum)
}

// leave takes the Delivery out of the table. sum is that of the executor's
// Result, nil if there was none.
func (d *Delivery) leave(sum *digest) {
	s := d.s
	s.mu.Lock()
	if s.sent[d.at] == d {
		delete(s.sent, d.at)
		s.gone.add(d.at, &left{sum: sum})
	}
	s.mu.Unlock()
}

// close ends the Delivery for any reason but a Result. It reports whether it
// was open.
func (d *Delivery) close(cause error) bool {
	d.mu.Lock()
	first := !d.over
	d.over = true
	d.mu.Unlock()
	if first {
		d.leave(nil)
	}
	d.cancel(cause)
	return first
}

// end ends the Delivery because nothing more can come.
func (d *Delivery) end(err error) {
	if d.close(err) {
		d.to.lost(err)
	}
}

// fail is end for a reason on this side.
func (d *Delivery) fail(err error) { d.end(err) }

// abort ends the Delivery and tells the executor why.
func (d *Delivery) abort(m *ResultBody) bool {
	d.mu.Lock()
	if !d.over {
		d.farewell = m
	}
	d.mu.Unlock()
	return d.close(profiles.ErrFinished)
}

// ID is the task_id.
func (d *Delivery) ID() []byte { return d.id }

// Recv returns the next Event, in order, each number once. At the end the error
// is io.EOF, and Result has the Result. Any other error but the context's is
// kept: an *profiles.Error if either end refused a message, or the cause that
// ended the session.
//
// A caller that does not receive holds up nobody: what comes beyond 1,024
// Events or 1 MiB is dropped and asked for again once the caller has caught up.
// Recv may be called by one goroutine at a time.
func (d *Delivery) Recv(ctx context.Context) (*Event, error) {
	for {
		event, empty, err := d.in.take()
		if empty {
			d.catchUp()
			select {
			case <-d.in.ready:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return event, err
	}
}

// Result returns how the task has ended, nil before Recv has returned io.EOF.
func (d *Delivery) Result() *Result {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	if !errors.Is(d.in.err, io.EOF) || len(d.in.events) > 0 {
		return nil
	}
	return d.in.end
}

// Cancel ends the task with a Result ok=false of ours; for kinds a2a/1.0/* it
// ends the delivery only. Afterwards Recv fails with profiles.ErrFinished. It
// does nothing if the Result has come already.
func (d *Delivery) Cancel(ctx context.Context, reason string) error {
	if !d.abort(&ResultBody{ErrorMessage: []byte(cmp.Or(reason, reasonCancelled))}) {
		return nil
	}
	d.in.lost(profiles.ErrFinished)
	select {
	case <-d.done:
		return d.told
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the delivery on this side. The task goes on. What its executor
// still sends is dropped without being held against it, up to a bound.
func (d *Delivery) Close() {
	if d.close(profiles.ErrFinished) {
		d.in.lost(profiles.ErrFinished)
	}
}
