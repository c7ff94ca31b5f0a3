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

// Event is a progress report of a sent task.
type Event struct {
	Seq     uint64 // its number, from 1 without gaps except as in FirstHeld; 0 if the executor does not number Events
	Message string // for people
	Payload []byte // owned by the caller

	// FirstHeld, if not 0, says that earlier Events are lost: it is the number of the first
	// Event that the executor still has.
	FirstHeld uint64
}

// Result says how a sent task has ended.
type Result struct {
	OK     bool
	Output []byte // owned by the caller
	Reason string // error_message, if not OK

	// Last is the number of the last Event; 0 if there was none or the executor does not
	// number Events.
	Last uint64

	// FirstHeld, if not 0, says that Events are lost, and none followed them.
	FirstHeld uint64

	// Endpoint is the identity of the endpoint that ended the task in place of its executor
	// (extension 53), as claimed by that endpoint, or empty.
	Endpoint string
}

// SendOptions say how a Task is sent. The zero value sends a new one.
type SendOptions struct {
	// Agent is the agent_id of the executor; empty leaves the choice to the receiver.
	Agent string

	// Resume says that the Task was sent before: the receiver sends the Events after number
	// After again and continues. A receiver that does not know the task executes it if
	// After is 0, and otherwise answers with a failed Result.
	Resume bool
	After  uint64

	// Hops is how many endpoints the Task has passed.
	Hops uint64
}

// receiver gets the Events of a Delivery: an application, or a task that was forwarded. Its
// methods do not block, and are called in the order of the Events.
type receiver interface {
	// task returns the Task to send, without extension 20.
	task(ctx context.Context) (e1.Envelope, error)

	// room reports whether an Event can be accepted now. Otherwise a numbered Event is
	// dropped, and requested later.
	room(size int, numbered bool) bool

	// wantsMissing reports whether there is room again for dropped Events.
	wantsMissing() bool

	// event handles an Event.
	event(req *profiles.Request, m *EventBody, at position) error

	// result handles the Result; req is nil if it answered the Task directly.
	result(req *profiles.Request, m *ResultBody, at position) error

	// lost reports the end without a Result: the session has ended or refused the Task.
	lost(err error)
}

// Delivery is a sent task and its Events. It lasts as long as its session. On another
// session the same Task is sent again, with Resume and the number of the last received
// Event.
type Delivery struct {
	s       *Service
	session profiles.Session
	at      address
	id      []byte
	kind    string
	to      receiver
	in      *inbox // the receiver, if that is an application
	ctx     context.Context
	cancel  context.CancelCauseFunc

	lane profiles.Lane // belongs to Send, then to run

	mu        sync.Mutex
	seq       sequence
	sent      bool   // the Task was sent before
	answered  bool   // a message arrived since it was sent
	resendDue bool   // it must be sent again
	interrupt func() // ends the wait for an answer, to send it again
	over      bool   // the Result was received, or Close or Cancel was called

	farewell    *ResultBody   // Result of this side, sent at the end
	farewellErr error         // why it was not sent
	done        chan struct{} // closed when run has returned
}

// Send sends a Task and returns its Delivery. It reads ID (nil means 16 new random octets),
// Kind, Input, Params and Deadline of t, and may use them until Close. It returns when the
// Task is queued for writing. ctx also carries the trace context and the hints of the task.
// The caller closes the Delivery.
//
// A Task without an Event or a Result is sent again after a while, if the peer is known to
// support extension 20, so that it does not execute the task twice. A second Delivery of one
// task_id to one identity replaces the first, whose Recv then fails with
// profiles.ErrFinished.
func (s *Service) Send(ctx context.Context, session profiles.Session, t *Task, opts SendOptions) (*Delivery, error) {
	id := t.ID
	if id == nil {
		id = profiles.NewMsgID()
	}
	in := newInbox(s, id, t, opts)
	if err := new(TaskBody).Decode(in.payload); err != nil {
		return nil, err
	}
	origin := withOrigin(s.ctx, profiles.TraceOf(ctx), profiles.OwnHints(ctx, t.Kind))
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

// open enters the Delivery in the table, and replaces an older one.
func (d *Delivery) open() error {
	old, err := d.s.outbox.add(d)
	if old != nil {
		old.end(profiles.ErrFinished)
	}
	return err
}

// ID returns the task_id.
func (d *Delivery) ID() []byte { return d.id }

// Recv returns the next Event, in order, each number once. After the last one the error is
// io.EOF, and Result returns the Result. Any other error except that of ctx is permanent:
// an *profiles.Error if either end refused a message, or the cause of the end of the
// session.
//
// A slow caller delays nobody: Events beyond 1,024 or 1 MiB are dropped and requested again
// when the caller has caught up. One goroutine at a time may call Recv.
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

// Result returns the Result, nil before Recv has returned io.EOF.
func (d *Delivery) Result() *Result {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	if !errors.Is(d.in.err, io.EOF) || len(d.in.events) > 0 {
		return nil
	}
	return d.in.end
}

// Cancel ends the task with a Result ok=false of this side; for kinds a2a/1.0/* it ends
// only the delivery. Then Recv fails with profiles.ErrFinished. After the Result it does
// nothing.
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

// Close ends the delivery on this side; the task continues. Later messages of the executor
// are dropped; up to a bound they are no violations.
func (d *Delivery) Close() {
	if d.close(profiles.ErrFinished) {
		d.in.lost(profiles.ErrFinished)
	}
}
