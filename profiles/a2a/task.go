package a2a

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// ackWait is how long a stored Task may stay without an Event or a Result; then the Event
// accepted is sent.
const ackWait = time.Second

// accepted is the message of that Event, and the id of its entry in the log. An agent may
// send the same Event; it is stored once.
const accepted = "accepted"

// maxHeld bounds the messages that wait for the request of a task to be stored.
const maxHeld = 64

// task is a task of a peer. An unfinished task exists once per task_id, in the table of the
// Service. An ended task is made from the store when it is needed.
type task struct {
	s      *Service
	spec          // immutable
	key    string // of the request in the store
	run    string // of all other records in the store
	sum    digest
	denied bool            // when it arrived; only its digest and its Result are stored
	ctx    context.Context // ends with the task
	stop   context.CancelCauseFunc

	// The fields from here on are guarded by the mu of the Service.
	pending bool          // the request is not stored yet
	held    []func(*task) // messages that wait for it; nil if storing failed
	log     eventLog
	exec    execution
	cursor  *cursor // sends to the last sender of the Task

	over      bool          // the ending is decided
	ending    *ending       // Result of the task
	then      []func(error) // called when the ending is stored, or cannot be stored
	ended     bool          // the ending is stored
	initiator *digest       // of the Result of the initiator; nil before it

	ack, expiry func() bool // stop them; nil if not started
}

// newTask returns the task of a request.
func newTask(s *Service, r *request, sum digest) *task {
	t := &task{s: s, spec: r.spec, key: r.key(), run: r.run(), sum: sum, denied: r.Denied != nil}
	t.log.t, t.exec.t = t, t
	return t
}

// startTimers starts the timers of the task. left is the time to the deadline.
func (t *task) startTimers(left time.Duration) {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.over || s.closed {
		return
	}
	if t.Chain != "" {
		s.work.Go(t.watchChain)
	}
	t.expiry = s.later(left, func() { t.fail(reasonDeadline) })
	if !isOperation(t.Kind) {
		t.ack = s.later(ackWait, t.acknowledge)
	}
}

// watchChain ends the task with its chain of credentials.
func (t *task) watchChain() {
	ctx, err := t.withDelegation(t.ctx)
	if err != nil {
		t.fail(chainReason(err))
		return
	}
	if d := profiles.DelegationOf(ctx); d != nil && d.Watch != nil {
		stop := d.Watch(func(why *profiles.Error) { t.fail(chainReason(why)) })
		context.AfterFunc(t.ctx, stop)
	}
}

// stopTimers stops the timers. The caller holds mu.
func (t *task) stopTimers() {
	for _, stop := range []func() bool{t.ack, t.expiry, t.exec.absence} {
		if stop != nil {
			stop()
		}
	}
}

// acknowledge stores the Event accepted for an initiator that has received nothing yet. It
// does so only if the task continues after a restart.
func (t *task) acknowledge() {
	s := t.s
	s.mu.Lock()
	quiet := t.log.last == 0 && t.log.count == 0 && !t.over && !s.closed
	safe := t.exec.version > 0
	if quiet && !safe {
		t.ack = s.later(ackWait, t.acknowledge)
	}
	s.mu.Unlock()
	if quiet && safe {
		t.log.note(accepted, accepted)
	}
}

// fail ends the task with a Result of this endpoint.
func (t *task) fail(reason string) {
	t.finish(&ending{By: byUs}, &ResultBody{ErrorMessage: []byte(reason)}, nil)
}

// finish ends the task with ending e and Result m. The first call decides and returns true;
// for later calls it returns false and does not call then. then, if not nil, is called when
// the ending is stored, or with the error of the first try.
func (t *task) finish(e *ending, m *ResultBody, then func(error)) bool {
	m.TaskID = t.ID
	if m.Size() > t.s.opts.MaxPayload {
		*m = ResultBody{TaskID: t.ID, ErrorMessage: []byte(reasonSize)}
	}
	e.Result = m.Append(make([]byte, 0, m.Size()))
	s := t.s
	s.mu.Lock()
	if t.over || s.closed {
		s.mu.Unlock()
		return false
	}
	t.over, t.ending = true, e
	if len(e.Initiator) > 0 {
		t.initiator = (*digest)(e.Initiator)
	}
	if then != nil {
		t.then = append(t.then, then)
	}
	t.stopTimers()
	sent := t.exec.release()
	waits := t.log.busy()
	if waits {
		t.log.idle = append(t.log.idle, func() { t.storeEnding(e, 0) })
	}
	s.mu.Unlock()

	switch { // read before the context of the Delivery ends
	case sent == nil:
	case e.By == byExecutor:
		sent.close(profiles.ErrFinished)
	case e.By == byInitiator && m.OK:
		sent.abort(&ResultBody{ErrorMessage: []byte(reasonCancelled)})
	default:
		sent.abort(&ResultBody{ErrorMessage: bytes.Clone(m.ErrorMessage)})
	}
	t.stop(errOver)
	if !waits {
		t.storeEnding(e, 0)
	}
	return true
}

// storeEnding stores the ending, and repeats that until it succeeds. The store keeps the
// first ending, so there is one Result. If the owner's quota is exhausted, the task ends
// with that reason, and the record is not charged to the owner.
func (t *task) storeEnding(e *ending, failures int) {
	s := t.s
	owner := t.payer()
	if e.uncharged {
		owner = ""
	}
	s.opts.Store.Put(spaceEnding, t.run, 0, owner, e.encode(), t.Expires, func(r store.PutResult) {
		switch {
		case r.Err != nil && !passing(r.Err) && !e.uncharged:
			s.report(t, r.Err)
			m := ResultBody{TaskID: t.ID, ErrorMessage: []byte(reasonOf(r.Err))}
			t.storeEnding(&ending{By: byUs, Result: m.Append(nil), Initiator: e.Initiator, uncharged: true}, 0)
		case r.Err != nil:
			s.mu.Lock()
			then := t.then
			t.then = nil
			s.mu.Unlock()
			for _, f := range then {
				f(r.Err)
			}
			t.retryLater(failures, r.Err, func() { t.storeEnding(e, failures+1) })
		case r.Wrote:
			t.endingStored(e)
		default:
			// The ending was stored although the store reported a failure.
			first := new(ending)
			if err := first.decode(r.Current); err != nil {
				s.report(t, err)
				first = e
			}
			t.endingStored(first)
		}
	})
}

// endingStored continues after the ending was stored.
func (t *task) endingStored(e *ending) {
	s := t.s
	s.mu.Lock()
	t.ending, t.ended = e, true
	s.tasks.forget(t)
	then := t.then
	t.then = nil
	late := t.initiator
	if len(e.Initiator) > 0 || isOperation(t.Kind) {
		late = nil
	}
	t.cursor.notify()
	s.mu.Unlock()
	for _, f := range then {
		f(nil)
	}
	if late != nil {
		s.spawn(func() { _, _ = t.recordLateResult(*late) })
	}
	// The result does not matter: a remaining record is removed after a restart.
	s.opts.Store.Delete(spaceStanding, t.run, 0, func(bool, error) {})
}

// abandon gives up a task because its Service was closed. Its records stay in the store.
func (t *task) abandon() {
	s := t.s
	s.mu.Lock()
	t.stopTimers()
	then, held, queue := t.then, t.held, t.log.queue
	t.then, t.held, t.log.queue = nil, nil, nil
	t.cursor.notify()
	s.mu.Unlock()
	t.stop(errClosed)
	for _, e := range queue {
		e.done(errClosed)
	}
	for _, f := range then {
		f(errClosed)
	}
	for _, f := range held {
		f(nil) // f fails, because the Service is closed
	}
}

// input reads the input from the store.
func (t *task) input() (input []byte, err error) {
	err = t.retry(func() error {
		r, err := readRequest(t.ctx, t.s.opts.Store, t.key)
		switch {
		case err != nil:
			return err
		case r == nil:
			return errors.New("a2a: the stored request is gone")
		}
		input = r.Input
		return nil
	})
	return input, err
}

// name is the name of the task for rules and hints: its kind, agent/kind for an agent of
// this process, partner/agent/kind for an agent of a partner.
func (t *task) name() string { return nameOf(t.Agent, t.Kind, t.exec.hosted) }
