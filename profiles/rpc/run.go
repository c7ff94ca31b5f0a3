package rpc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// state is the state of a run.
type state uint8

const (
	opening state = iota // its record is being committed
	running              // the method runs
	ending               // the outcome is being committed
	holding              // the store did not accept the outcome, see Outcomes
)

// run is one call with an idempotency_key, and all requests that wait for its outcome.
// Store operations are steps; each begins in the callback of the previous one.
type run struct {
	t        *runs
	name     string // of the record
	identity string // of the caller
	method   *method
	inputs   [32]byte
	octets   int               // of params
	left     time.Duration     // until the caller's deadline, or 0
	request  *profiles.Request // a copy
	pending  Pending           // the call, with the seat of its caller
	close    func()            // ends the context of the call

	// Guarded by the mutex of t.
	state   state
	host    *run    // the run that this request repeats
	early   *Error  // ends the call before it runs
	gone    bool    // the caller has disconnected
	seats   []*seat // who waits
	rivals  []*run  // other requests with the key, while opening
	version uint64  // of the record
	called  bool    // the method
	out     outcome // while ending and holding
}

// begin opens the context of the call and asks for its record.
func (r *run) begin() {
	t, p := r.t, &r.pending
	var limit time.Duration
	switch {
	case r.method.Detached != nil:
		_, limit = t.times()
	case r.method.Held != nil && !r.method.Long:
		limit = maxAlone
	}
	if limit == 0 || r.left > 0 && r.left < limit {
		limit = r.left
	}
	ctx, endTime := context.WithoutCancel(p.seat.w.Context()), context.CancelFunc(func() {})
	if limit > 0 {
		ctx, endTime = context.WithTimeout(ctx, limit)
	}
	p.ctx, p.stop = context.WithCancelCause(ctx)
	stopped := context.AfterFunc(t.base, func() { p.stop(ErrStopped) })
	late := context.AfterFunc(p.ctx, func() {
		if errors.Is(p.ctx.Err(), context.DeadlineExceeded) {
			r.interrupt(errTimeout)
		}
	})
	r.close = func() { stopped(); late(); p.stop(nil); endTime() }
	r.create(0, 0)
}

// maxTries bounds how often a run repeats its read of a record that changes, for example
// because it expires.
const maxTries = 3

// create asks for the record of a running call, which replaces the version was.
func (r *run) create(was uint64, tries int) {
	window, _ := r.t.times()
	until := r.t.now().Add(window)
	rec := record{state: recordRuns, until: until, inputs: r.inputs}
	r.t.outcomes.Put(space, r.name, was, r.identity, rec.append(nil), until, func(p store.PutResult) { r.created(p, tries+1) })
}

// created continues after the attempt to create the record.
func (r *run) created(p store.PutResult, tries int) {
	switch {
	case p.Err != nil:
		r.abandon(profiles.Unavailable(p.Err))
		return
	case p.Wrote:
		r.t.retakeAll()
		r.start(p.Version)
		return
	case tries >= maxTries:
		r.abandon(profiles.Busy("idempotency_record", "the record of this idempotency_key keeps changing"))
		return
	case p.Version == 0:
		r.create(0, tries)
		return
	}
	rec, err := parseRecord(p.Current)
	switch {
	case err != nil:
		r.abandon(profiles.AsError(err))
	case !r.t.now().Before(rec.until):
		r.create(p.Version, tries)
	case rec.inputs != r.inputs:
		r.answerAll(outcome{failed: errConflict})
	case rec.state != recordRuns:
		r.answerAll(rec.outcome)
	case r.method.Repeatable:
		r.create(p.Version, tries)
	default:
		// The call is not in this process, so it does not run at all.
		r.startWith(p.Version, errCutOff)
	}
}

// start runs the method.
func (r *run) start(version uint64) { r.startWith(version, nil) }

// startWith runs the method, or ends the run if there is a reason.
func (r *run) startWith(version uint64, reason *Error) {
	r.t.mu.Lock()
	r.version, r.state = version, running
	if reason == nil {
		reason = r.early
	}
	r.called = reason == nil
	req, rivals := r.request, r.rivals
	r.rivals = nil
	r.t.mu.Unlock()
	r.t.enterAll(rivals)
	if reason != nil {
		_ = r.finish(outcome{failed: reason})
		return
	}
	go r.call(req)
}

// call runs the method on a separate goroutine, which is neither a read loop nor the
// store's.
func (r *run) call(req *profiles.Request) {
	p := &r.pending
	defer func() {
		if v := recover(); v != nil {
			_ = r.finish(outcomeOf(fmt.Errorf("rpc: panic: %v\n%s", v, debug.Stack())))
		}
	}()
	var in Req
	if err := in.Decode(req.Payload); err != nil {
		_ = r.finish(outcomeOf(err))
		return
	}
	var result []byte
	var err error
	switch {
	case r.method.Held != nil:
		err = r.method.Held(p, in.Params)
		if p.after = nil; err == nil {
			return // the method ends it
		}
	case r.method.Detached != nil:
		result, err = r.method.Detached(p.ctx, req, in.Params, func(item []byte) error {
			if err := p.Pace(p.ctx); err != nil {
				return err
			}
			return p.Item(item)
		})
	default:
		result, err = r.method.Inline(req, in.Params)
	}
	if err != nil {
		_ = r.finish(outcomeOf(err))
		return
	}
	_ = r.finish(outcome{result: slices.Clone(result)})
}

// leave is called when the caller of this request no longer waits.
func (r *run) leave(why *Error) {
	st := &r.pending.seat
	if why == nil {
		st.refuse(nil)
	}
	r.t.mu.Lock()
	host := r.host
	if host == nil {
		host = r
	}
	r.gone = r.gone || why == nil
	if why == nil || host != r {
		host.seats = slices.DeleteFunc(host.seats, func(other *seat) bool { return other == st })
	}
	r.t.mu.Unlock()
	switch {
	case host != r && why != nil:
		_ = st.answer(outcome{failed: why})
	case host != r:
	case why != nil:
		r.interrupt(why)
	case r.method.Long:
		r.interrupt(errCancelled)
	}
}

// interrupt ends a call without an outcome.
func (r *run) interrupt(why *Error) {
	r.t.mu.Lock()
	if r.state == opening && r.early == nil {
		r.early = why
	}
	runs := r.state == running
	r.t.mu.Unlock()
	if runs {
		_ = r.finish(outcome{failed: why})
	}
}

// finish ends the call. The first call decides its outcome; later ones return
// profiles.ErrFinished.
func (r *run) finish(o outcome) error {
	r.t.mu.Lock()
	if r.state != running {
		r.t.mu.Unlock()
		return profiles.ErrFinished
	}
	if r.called && o.failed == errTimeout {
		o.failed = errExpired
	}
	r.state, r.out = ending, o
	r.t.octets.Give(r.identity, r.octets)
	r.octets, r.request = 0, nil
	r.t.mu.Unlock()
	// If the method failed because this endpoint stops, the call has not ended: its record
	// stays the outcome of an interrupted call.
	cutOff := o.failed != nil && errors.Is(context.Cause(r.pending.ctx), ErrStopped)
	r.close()
	if cutOff {
		r.abandon(&profiles.Error{Code: profiles.Internal, Text: errCutOff.Message, Cause: ErrStopped, Domain: true})
		return nil
	}
	r.keep()
	return nil
}

// keep commits the outcome, or, without one, removes the record.
func (r *run) keep() {
	t := r.t
	t.mu.Lock()
	out, version := r.out, r.version
	t.mu.Unlock()
	if out.failed != nil && out.failed.Retryable {
		t.outcomes.Delete(space, r.name, version, func(_ bool, err error) {
			if err != nil {
				r.hold(err)
				return
			}
			r.answerAll(out)
		})
		return
	}
	window, _ := t.times()
	rec := record{state: recordResult, until: t.now().Add(window), inputs: r.inputs, outcome: out}
	if out.failed != nil {
		rec.state = recordError
	}
	t.outcomes.Put(space, r.name, version, r.identity, rec.append(nil), rec.until, r.kept)
}

// kept continues after the commit of the outcome.
func (r *run) kept(p store.PutResult) {
	switch {
	case p.Err != nil:
		r.hold(p.Err)
	case p.Wrote:
		r.answerAll(r.outcome())
		r.t.retakeAll()
	case p.Version == 0:
		// The call took longer than the replay window.
		r.t.mu.Lock()
		r.version = 0
		r.t.mu.Unlock()
		r.keep()
	default:
		// Another writer has used this store: its outcome is the one for all callers.
		rec, err := parseRecord(p.Current)
		if err != nil || rec.state == recordRuns || rec.inputs != r.inputs {
			r.abandon(&profiles.Error{Code: profiles.Internal, Detail: "idempotency_record", Text: "internal error", Cause: errors.Join(errForeign, err)})
			return
		}
		r.answerAll(rec.outcome)
	}
}

var errForeign = errors.New("rpc: the record of a call that runs was changed by somebody else")

func (r *run) outcome() outcome {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	return r.out
}

// hold keeps an outcome that the store did not accept, and answers the waiting callers with
// a retryable error. An outcome that the store can never accept is replaced by an error.
func (r *run) hold(cause error) {
	fault := profiles.Unavailable(cause)
	t := r.t
	t.mu.Lock()
	if !fault.Retryable && r.out.failed != errUnkept {
		r.out = outcome{failed: errUnkept}
		t.mu.Unlock()
		r.keep()
		return
	}
	t.octets.Give(r.identity, r.octets)
	if t.octets.Ask(r.identity, len(r.out.result)) != fair.Taken {
		r.out = outcome{failed: errUnkept}
	}
	r.octets = len(r.out.result)
	t.octets.Force(r.identity, r.octets)
	r.state = holding
	t.stuck[r] = struct{}{}
	seats := r.seats
	r.seats = nil
	t.mu.Unlock()
	told := *fault
	told.Text = "the outcome of the call is not stored yet; repeat it under the same idempotency_key"
	told.Retryable = true
	for _, st := range seats {
		st.refuse(&told)
	}
}

// forget removes the run from the table and returns the waiting callers, and the other
// requests with its key.
func (r *run) forget() ([]*seat, []*run) {
	t := r.t
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.live, r.name)
	t.count.Give(r.identity, 1)
	t.octets.Give(r.identity, r.octets)
	r.octets = 0
	seats, rivals := r.seats, r.rivals
	r.seats, r.rivals = nil, nil
	return seats, rivals
}

// answerAll ends the run with a committed outcome, or with that of another run.
func (r *run) answerAll(o outcome) {
	seats, rivals := r.forget()
	r.close()
	for i, st := range seats {
		if i > 0 {
			o.fault = nil // reported once
		}
		_ = st.answer(o)
	}
	r.t.enterAll(rivals)
}

// abandon ends the run without an outcome.
func (r *run) abandon(fault *profiles.Error) {
	seats, rivals := r.forget()
	r.close()
	for _, st := range seats {
		st.refuse(fault)
	}
	r.t.enterAll(rivals)
}
