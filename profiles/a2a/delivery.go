package a2a

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"

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

	// Endpoint is the identity of the endpoint that ended the task in place of its
	// executor (extension 53), as it says itself; empty if none says so.
	Endpoint string
}

// SendOptions say how a Task is sent. The zero value sends a new one.
type SendOptions struct {
	// Agent is the agent_id that the Task is meant for; empty leaves the choice
	// to the receiver.
	Agent string

	// Resume says that the Task was sent before: Events after number After are
	// sent again, then it goes on. A receiver that does not know the task
	// executes it if After is 0, and else says so in a Result.
	Resume bool
	After  uint64

	// Hops is how many endpoints the Task has passed.
	Hops uint64
}

// receiver is who a Delivery is for: an application, or a task that was passed
// on. Its methods do not block, and are called in the order of the Events.
type receiver interface {
	// task returns the Task to send, as payload and extensions but for 20.
	task(ctx context.Context) (payload []byte, ext e1.Extensions, err error)

	// room reports whether an Event can be accepted now. Otherwise a numbered Event is
	// dropped, and requested later.
	room(size int, numbered bool) bool

	// wantsMissing reports whether there is room again for Events that were dropped.
	wantsMissing() bool

	// event takes an Event.
	event(req *profiles.Request, m *EventBody, at position) error

	// result takes the Result; req is nil if it came in answer to the Task.
	result(req *profiles.Request, m *ResultBody, at position) error

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

	mu        sync.Mutex
	seq       sequence
	sent      bool   // the Task was sent before
	answered  bool   // something came since it was sent
	resendDue bool   // it is to be sent again
	interrupt func() // ends the wait for an answer, so that it is
	over      bool   // the Result was taken, or nothing more is wanted

	farewell    *ResultBody   // of ours, sent in the end
	farewellErr error         // why it could not be
	done        chan struct{} // closed when run has returned
}

// Send sends a Task and returns what comes back. Of t it reads ID (nil means 16
// fresh random octets), Kind, Input, Params and Deadline, and keeps what it
// needs until Close. It returns when the Task is queued for writing; ctx also
// carries the trace context of the task, and the hints for it. The caller closes
// the Delivery.
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
	origin := withOrigin(s.ctx, profiles.TraceOf(ctx), profiles.HintsOf(ctx, t.Kind))
	if chain := profiles.ChainOf(ctx); len(chain) > 0 {
		origin = profiles.WithChain(origin, chain)
	}
	d := s.newDelivery(origin, session, id, t.Kind, in)
	d.in, in.d = in, d
	d.sent, d.seq.last = opts.Resume, opts.After
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
	old, err := d.s.outbox.add(d)
	if old != nil {
		old.end(profiles.ErrFinished)
	}
	return err
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
			d.requestMissing()
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
		return d.farewellErr
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
