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

const (
	// firstPause is the first of the pauses.
	firstPause = time.Second

	// cancelWait bounds the wait for a slow peer when a Result of this side is sent.
	cancelWait = time.Second
)

var (
	// silences are the pauses without an Event or a Result after which a Task is sent
	// again, if repeatable says so.
	silences = backoff.Exponential{First: 3 * time.Second, Longest: 30 * time.Second}

	// pauses are the pauses before a Task is sent again after a refusal, or after an Event
	// that could not be kept.
	pauses = backoff.Exponential{First: firstPause, Longest: 32 * time.Second}
)

// post sends the Task on a new lane.
func (d *Delivery) post(ctx context.Context) (profiles.Call, error) {
	env, err := d.to.task(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	if d.sent {
		env.Extensions = e1.AppendExtensionUvarint(env.Extensions, ExtResume, d.seq.last)
	}
	d.sent, d.answered, d.resendDue = true, false, false
	d.mu.Unlock()
	if d.lane == nil {
		if d.lane, err = d.session.Open(ctx); err != nil {
			return nil, err
		}
	}
	if carrier := d.s.opts.Carrier; carrier != nil {
		on := profiles.Onward{Name: d.kind, Scope: profiles.ScopeTask, ID: d.id}
		if ctx, err = carrier.Forward(ctx, d.lane, &on); err != nil {
			return nil, err
		}
	}
	env.ProfileID, env.MsgType = ProfileID, TypeTask
	call, err := d.lane.Call(ctx, env)
	if err != nil {
		_ = d.lane.Close()
		d.lane = nil
	}
	return call, err
}

// errFull ends a Delivery if the receiver is slower than an executor that does not number
// its Events.
var errFull = profiles.Busy("a2a_inbox", "events were not received in time, and have no numbers to be asked for")

var (
	errSilent  = errors.New("a2a: neither an event nor a result came")
	errMissing = errors.New("a2a: events are missing")
)

// run waits for the answer to the Task, and sends the Task again if necessary, until the
// task or the session has ended. call is nil if the Task has not been sent.
func (d *Delivery) run(call profiles.Call) {
	defer close(d.done)
	defer d.closeLane()
	for failures := 0; ; failures++ {
		var err error
		if call == nil {
			call, err = d.post(d.ctx)
		}
		posted := err == nil
		if posted {
			err = d.listen(call, silences.After(failures))
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
		case profiles.Leaving(d.session).Err() != nil: // nothing is sent again on this session
			select {
			case <-d.ctx.Done():
			case <-d.session.Context().Done():
				d.end(context.Cause(d.session.Context()))
			}
			return
		case errors.Is(err, errMissing), errors.Is(err, errSilent):
			continue
		case errors.As(err, &refused) && !refused.Retryable, posted && !d.repeatable():
			d.end(err)
			return
		}
		if d.lane != nil { // the stream of the Task was reset
			_ = d.lane.Close()
			d.lane = nil
		}
		d.pause(pauses.After(failures))
	}
}

// repeatable reports whether the executor is known to support extension 20. Another executor
// might execute a Task twice that is sent again.
func (d *Delivery) repeatable() bool { return profiles.Heeds(d.session, ProfileID, ExtResume) }

// progress reports whether a message arrived since the Task was sent.
func (d *Delivery) progress() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answered
}

// closeLane sends the Result of this side, if there is one, and closes the lane.
func (d *Delivery) closeLane() {
	if d.lane == nil {
		d.farewellErr = profiles.ErrFinished
		return
	}
	d.mu.Lock()
	m := d.farewell
	d.mu.Unlock()
	if m != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), cancelWait)
		defer cancel()
		m.TaskID = d.id
		d.farewellErr = d.lane.Send(ctx, resultOf(m))
	}
	_ = d.lane.Close()
}

// pause waits, but not beyond the end of the Delivery or of its session.
func (d *Delivery) pause(wait time.Duration) {
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	defer context.AfterFunc(d.session.Context(), cancel)()
	_ = backoff.Wait(ctx, wait)
}

// listen handles the Results that answer the Task, until the Task must be sent again or no
// answer can arrive.
func (d *Delivery) listen(call profiles.Call, silence time.Duration) error {
	ctx, cancel := context.WithCancelCause(d.ctx)
	defer cancel(nil)
	d.mu.Lock()
	if d.resendDue {
		d.mu.Unlock()
		return errMissing
	}
	d.interrupt = func() { cancel(errMissing) }
	missing := d.seq.missing
	d.mu.Unlock()
	if !isOperation(d.kind) || missing {
		stop := d.s.opts.After(silence, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			switch {
			case d.seq.missing && d.to.wantsMissing():
				d.resend()
			case !d.answered && d.repeatable():
				cancel(errSilent)
			}
		})
		defer stop()
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
		at, err := d.position(env)
		if err != nil {
			return err
		}
		_ = d.result(nil, &m, at) // a fault in it has no further effect
	}
}
