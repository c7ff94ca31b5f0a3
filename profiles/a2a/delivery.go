package a2a

import (
	"context"

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

// Delivery is a task that was sent, and what comes back. It lasts as long as
// its session: on another one the same Task is sent again, with Resume and the
// number of the last Event received.
type Delivery struct{}

// Send sends a Task and returns what comes back. Of t it reads ID (nil means 16
// fresh random octets), Kind, Input, Params and Deadline, and keeps what it
// needs until Close. It returns when the Task is queued for writing; ctx also
// carries the trace context of the task. The caller closes the Delivery.
//
// A second Delivery of one task_id to one identity replaces the first, whose
// Recv then fails with profiles.ErrFinished.
func (s *Service) Send(ctx context.Context, session profiles.Session, t *Task, opts SendOptions) (*Delivery, error) {
	panic("not yet")
}

// ID is the task_id.
func (d *Delivery) ID() []byte { panic("not yet") }

// Recv returns the next Event, in order, each number once. At the end the error
// is io.EOF, and Result has the Result. Any other error but the context's is
// kept: an *profiles.Error if either end refused a message, or the cause that
// ended the session.
//
// A caller that does not receive holds up nobody: what comes beyond 1,024
// Events or 1 MiB is dropped and asked for again once the caller has caught up.
// Recv may be called by one goroutine at a time.
func (d *Delivery) Recv(ctx context.Context) (*Event, error) { panic("not yet") }

// Result returns how the task has ended, nil before Recv has returned io.EOF.
func (d *Delivery) Result() *Result { panic("not yet") }

// Cancel ends the task with a Result ok=false of ours; for kinds a2a/1.0/* it
// ends the delivery only. Afterwards Recv fails with profiles.ErrFinished. It
// does nothing if the Result has come already.
func (d *Delivery) Cancel(ctx context.Context, reason string) error { panic("not yet") }

// Close ends the delivery on this side. The task goes on. What its executor
// still sends is dropped without being held against it, up to a bound.
func (d *Delivery) Close() { panic("not yet") }
