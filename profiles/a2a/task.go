package a2a

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
)

// ackWait is how long a stored Task may stay without an Event or a Result
// before an Event says that it was accepted.
const ackWait = time.Second

// accepted is the message of that Event, and the id of its entry in the log:
// an agent that has nothing to say yet says the same, and once is enough.
const accepted = "accepted"

// maxHeld is how many messages wait for the request of a task to be stored.
const maxHeld = 64

// task is a task of a peer. While it is not over there is one for each task_id,
// in the table of the Service; for a task that is over one is made from the
// store whenever somebody asks.
type task struct {
	s    *Service
	spec        // never changes
	key  string // of the request in the store
	run  string // of everything else in the store
	sum  digest
	ctx  context.Context // ends when the task is over
	stop context.CancelCauseFunc

	// The mu of the Service guards what follows.
	pending bool          // the request is not stored yet
	held    []func(*task) // messages that wait for it; nil if it was not stored

	at      standing
	version uint64 // of the stored standing, 0 if there is none
	place   *pool  // where it runs or waits for a turn

	queue   []entry // Events that wait to be stored
	size    int     // their octets
	writing bool    // the first of them is being stored
	drained func()  // called when they are
	count   int     // Events stored or queued, since this process knows the task
	octets  int     // and their size
	last    uint64  // number of the last Event that is stored
	tail    []tailEvent

	cursor *cursor       // sends to whoever sent the Task last
	closed *digest       // of the initiator's own Result, once it came
	over   bool          // how it ends is decided
	ending *ending       // how
	then   []func(error) // called when that is stored, or can not be
	ended  bool          // that is stored

	owned *agent    // it was given to
	out   *Delivery // on the session of owned; nil while there is none
	ward  Ward      // of the agent that it is given to; may be nil
	seen  uint64    // number of the agent's last Event that is stored

	ack, end, absent *time.Timer
}

// newTask returns the task of a request.
func (s *Service) newTask(r *request, sum digest) *task {
	return &task{s: s, spec: r.spec, key: r.key(), run: r.run(), sum: sum}
}

// begin starts what runs by the clock. left is the time to the deadline.
func (t *task) begin(left time.Duration) {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.over || s.closed {
		return
	}
	t.end = s.later(left, func() { t.fail(reasonDeadline) })
	if !delegated(t.Kind) {
		t.ack = s.later(ackWait, t.acknowledge)
	}
}

// acknowledge stores an Event for an initiator that has heard nothing yet. What
// has begun by then would go on after a restart; what has not is not yet safe to
// be called accepted.
func (t *task) acknowledge() {
	s := t.s
	s.mu.Lock()
	quiet := t.last == 0 && t.count == 0 && !t.over && !s.closed
	safe := t.version > 0
	if quiet && !safe {
		t.ack = s.later(ackWait, t.acknowledge)
	}
	s.mu.Unlock()
	if quiet && safe {
		t.add(entry{id: accepted, payload: t.event(accepted, nil), done: func(error) {}})
	}
}

// fail ends the task with a Result of ours.
func (t *task) fail(reason string) {
	t.finish(&ending{By: byUs}, &ResultBody{ErrorMessage: []byte(reason)}, nil)
}

// finish decides how the task ends: as e says, with m. The first caller decides;
// then, if it is not nil, is called when that is stored, or with the error if it
// could not be at the first try. It reports whether this caller decided; if not,
// then is not called.
func (t *task) finish(e *ending, m *ResultBody, then func(error)) bool {
	m.TaskID = t.ID
	if m.Size() > e1.DefaultMaxPayload {
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
		t.closed = (*digest)(e.Initiator)
	}
	if then != nil {
		t.then = append(t.then, then)
	}
	t.halt()
	writing := t.writing
	out := t.out
	t.out = nil
	t.leave()
	s.mu.Unlock()

	switch { // before the context of out ends
	case out == nil:
	case e.By == byExecutor:
		out.close(profiles.ErrFinished)
	case e.By == byInitiator && m.OK:
		out.abort(&ResultBody{ErrorMessage: []byte(reasonCancelled)})
	default:
		out.abort(&ResultBody{ErrorMessage: bytes.Clone(m.ErrorMessage)})
	}
	t.stop(errOver)
	if !writing {
		t.submit(e, 0)
	}
	return true
}

// halt stops what runs by the clock. The caller holds mu.
func (t *task) halt() {
	for _, timer := range []*time.Timer{t.ack, t.end, t.absent} {
		if timer != nil {
			timer.Stop()
		}
	}
}

// submit stores the ending, and tries again until it is stored: that there is
// none yet is what makes it the only one. Where its owner has no room left for
// it, it ends with that, at the expense of this endpoint.
func (t *task) submit(e *ending, failures int) {
	s := t.s
	owner := t.Owner
	if e.poor {
		owner = ""
	}
	s.opts.Store.Put(spaceEnding, t.run, 0, owner, e.encode(), t.Expires, func(wrote bool, _ uint64, current []byte, err error) {
		switch {
		case err != nil && !passing(err) && !e.poor:
			s.report(t, err)
			m := ResultBody{TaskID: t.ID, ErrorMessage: []byte(reasonOf(err))}
			t.submit(&ending{By: byUs, Result: m.Append(nil), Initiator: e.Initiator, poor: true}, 0)
			return
		case err != nil:
			s.mu.Lock()
			then := t.then
			t.then = nil
			s.mu.Unlock()
			for _, f := range then {
				f(err)
			}
			if failures == 0 {
				s.report(t, err)
			}
			s.later(storePauses.After(failures), func() { t.submit(e, failures+1) })
			return
		case !wrote:
			// It was stored, although the store said that it was not.
			first := new(ending)
			if err := first.decode(current); err != nil {
				s.report(t, err)
			} else {
				e = first
			}
		}
		t.settle(e)
	})
}

// settle goes on after the ending is stored.
func (t *task) settle(e *ending) {
	s := t.s
	s.mu.Lock()
	t.ending, t.ended = e, true
	if s.tasks[t.key] == t {
		s.forget(t)
	}
	then := t.then
	t.then = nil
	late := t.closed
	if len(e.Initiator) > 0 || delegated(t.Kind) {
		late = nil
	}
	t.cursor.poke()
	s.mu.Unlock()
	for _, f := range then {
		f(nil)
	}
	if late != nil {
		s.spawn(func() { _, _ = s.cross(t.run, t.Owner, *late, t.Expires) })
	}
	// Nothing depends on this: what is left is removed after a restart.
	s.opts.Store.Delete(spaceStanding, t.run, 0, func(bool, error) {})
}

// forget takes a task out of the table. The caller holds mu.
func (s *Service) forget(t *task) {
	delete(s.tasks, t.key)
	if s.load[t.Owner]--; s.load[t.Owner] == 0 {
		delete(s.load, t.Owner)
	}
}

// enter takes a task into the table. The caller holds mu.
func (s *Service) enter(t *task) {
	ctx := withOrigin(s.ctx, t.Trace, t.Hints)
	if credited, err := t.credited(ctx); err == nil {
		ctx = credited
	}
	t.ctx, t.stop = context.WithCancelCause(ctx)
	s.tasks[t.key] = t
	s.load[t.Owner]++
}

// withOrigin returns ctx with what its initiator gave a task to take along.
func withOrigin(ctx context.Context, trace profiles.Trace, hints []profiles.Hint) context.Context {
	ctx = profiles.WithTrace(ctx, trace)
	if len(hints) == 0 {
		return ctx
	}
	return profiles.WithHints(ctx, hints)
}

// abandon lets go of a task whose Service was closed. In the store it stays
// where it is.
func (t *task) abandon() {
	s := t.s
	s.mu.Lock()
	t.halt()
	then, held, queue := t.then, t.held, t.queue
	t.then, t.held, t.queue = nil, nil, nil
	t.cursor.poke()
	s.mu.Unlock()
	t.stop(errClosed)
	for _, e := range queue {
		e.done(errClosed)
	}
	for _, f := range then {
		f(errClosed)
	}
	for _, f := range held {
		f(nil) // which fails: the Service is closed
	}
}

// stand stores how far the task is, and waits until that is so. It fails when
// the task is over, and with the Service.
func (t *task) stand(at standing) error {
	type outcome struct {
		wrote   bool
		version uint64
		current []byte
		err     error
	}
	s := t.s
	value := at.encode()
	for n := 0; ; n++ {
		s.mu.Lock()
		was, over := t.version, t.over
		s.mu.Unlock()
		if over {
			return errOver
		}
		done := make(chan outcome, 1)
		s.opts.Store.Put(spaceStanding, t.run, was, t.Owner, value, t.Expires, func(wrote bool, version uint64, current []byte, err error) {
			done <- outcome{wrote, version, current, err}
		})
		var o outcome
		select {
		case o = <-done:
		case <-s.ctx.Done():
			return errClosed
		}
		if o.err == nil {
			s.mu.Lock()
			t.version = o.version
			if o.wrote || string(o.current) == string(value) {
				t.at = at
				s.mu.Unlock()
				return nil
			}
			s.mu.Unlock()
			// Only this process writes it: an earlier try was stored although the
			// store said that it was not. The next one has the right version.
			continue
		}
		if n == 0 {
			s.report(t, o.err)
		}
		if !passing(o.err) {
			t.fail(reasonOf(o.err))
			return o.err
		}
		_ = backoff.Wait(t.ctx, storePauses.After(n))
	}
}

// input reads the input from the store, trying again while that fails.
func (t *task) input() ([]byte, error) {
	for n := 0; ; n++ {
		version, value, err := t.s.opts.Store.Get(t.ctx, spaceRequest, t.key)
		if err == nil && version == 0 {
			err = errors.New("a2a: the stored request is gone")
		}
		if err == nil {
			var r request
			err = r.decode(value)
			if err == nil {
				return r.Input, nil
			}
		}
		if t.ctx.Err() != nil {
			return nil, errOver
		}
		if n == 0 {
			t.s.report(t, err)
		}
		if !passing(err) {
			t.fail(reasonOf(err))
			return nil, err
		}
		_ = backoff.Wait(t.ctx, storePauses.After(n))
	}
}
