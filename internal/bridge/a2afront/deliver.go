package a2afront

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// call is one operation of a client.
type call struct {
	operation a2abinding.Operation
	agent     string
	input     []byte
	params    []string

	// event takes a StreamResponse; its error ends the call.
	event func(octets []byte) error

	// idle is called after a long time without an event, to show the client of a stream
	// that the connection is alive. It is nil for an operation with one answer, because a
	// comment would turn the answer into a stream.
	idle func() error
}

// outcome is how an operation ended.
type outcome struct {
	output  []byte              // of the agent, octet for octet
	failure *a2abinding.Failure // nil if it went well
	object  []byte              // the error object, as it came
}

func failed(f *a2abinding.Failure) outcome { return outcome{failure: f, object: f.Append(nil)} }

// closed is the reason of a Result by which a client leaves (R7). The agent's task
// goes on.
const closed = "closed"

// leaveTime bounds how long that Result may take.
const leaveTime = 5 * time.Second

// delivery is a call under way.
type delivery struct {
	f    *Front
	link Link
	call *call
	task a2a.Task
	sent bool   // the Task was sent before
	last uint64 // number of the last event that the client has
}

// do carries out an operation: on one session after the other if it has to, and then
// from where it was (R8). A read is done again instead. The error is that of ctx, or
// of the client's connection.
func (f *Front) do(ctx context.Context, link Link, c *call) (outcome, error) {
	f.counts.open.Add(1)
	defer f.counts.open.Add(-1)
	if c.operation.Streams {
		f.counts.streams.Add(1)
		defer f.counts.streams.Add(-1)
	}
	d := &delivery{f: f, link: link, call: c}
	d.task = a2a.Task{ID: profiles.NewMsgID(), Kind: c.operation.Kind(), Input: c.input, Params: c.params}
	if c.operation.Streams {
		d.task.Deadline = time.Now().Add(f.opts.Stream) // the endpoint keeps to it
		draining, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(f.streams, func() { cancel(errDraining) })()
		ctx = draining
	} else {
		d.task.Deadline = time.Now().Add(f.opts.Deadline)
		bounded, cancel := context.WithDeadlineCause(ctx, d.task.Deadline, errDeadline)
		defer cancel()
		ctx = bounded
	}
	var lost time.Time // start of the time without a stable session
	for attempt := 0; ; attempt++ {
		was, began := d.last, time.Now()
		out, again, err := d.once(ctx)
		switch {
		case errors.Is(context.Cause(ctx), errDeadline):
			return failed(a2abinding.Own(a2abinding.Deadline, "the agent took too long")), nil
		case errors.Is(context.Cause(ctx), errDraining):
			return failed(a2abinding.Own(a2abinding.LinkLost, "this endpoint stops; subscribe to the task")), nil
		case err != nil || !again:
			return out, err
		case lost.IsZero() || d.last > was || time.Since(began) > f.opts.Patience:
			lost, attempt = time.Now(), 0
		case time.Since(lost) > f.opts.Patience:
			return out, nil
		}
		switch err := backoff.Wait(ctx, pauses.After(attempt)); {
		case errors.Is(err, errDeadline), errors.Is(err, errDraining): // the next attempt finds that
		case err != nil:
			return out, ctx.Err()
		}
	}
}

var pauses = backoff.Exponential{First: 50 * time.Millisecond, Longest: 2 * time.Second}

// Why an operation ends that its client has not left.
var (
	errDeadline = errors.New("a2afront: deadline exceeded")
	errDraining = errors.New("a2afront: draining")
)

// once is do on one session. again says that it was lost.
func (d *delivery) once(ctx context.Context) (out outcome, again bool, err error) {
	out = failed(a2abinding.Own(a2abinding.LinkLost, "the connection to the endpoint of the agent is lost"))
	session, err := d.link.Session(ctx)
	if refused, ok := errors.AsType[*profiles.Error](err); ok && !refused.Retryable {
		return failed(refusal(refused)), false, nil
	}
	if err != nil {
		return out, true, ctx.Err()
	}
	o := a2a.SendOptions{Agent: d.call.agent}
	switch {
	case d.sent && d.call.operation.Reads:
		d.f.counts.resumed.Add(1)
		d.task.ID = profiles.NewMsgID()
	case d.sent:
		d.f.counts.resumed.Add(1)
		o.Resume, o.After = true, d.last
	}
	sent, err := session.Tasks.Send(ctx, session.Session, &d.task, o)
	if err != nil {
		return d.ended(ctx, session, out, err)
	}
	defer sent.Close()
	d.sent = true
	for {
		event, err := d.receive(ctx, sent)
		switch {
		case err == nil:
			err = d.take(event)
		case errors.Is(err, io.EOF):
			return d.result(sent.Result()), false, nil
		case ctx.Err() == nil && !errors.Is(err, errClient):
			return d.ended(ctx, session, out, err)
		}
		var bad *a2abinding.Failure
		switch {
		case errors.As(err, &bad):
			d.leave(sent)
			return failed(bad), false, nil
		case err != nil: // the client is gone
			d.leave(sent)
			return out, false, err
		}
	}
}

// errClient is in the error of a write to the client that failed.
var errClient = errors.New("a2afront: the client is gone")

// receive returns the next event, and sends the client signs of life until
// then.
func (d *delivery) receive(ctx context.Context, sent *a2a.Delivery) (*a2a.Event, error) {
	for {
		wait, cancel := context.WithTimeout(ctx, d.f.opts.KeepAlive)
		event, err := sent.Recv(wait)
		silent := wait.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
		cancel()
		if !silent {
			return event, err
		}
		if d.call.idle == nil {
			continue
		}
		if err := d.call.idle(); err != nil {
			return nil, fmt.Errorf("%w: %w", errClient, err)
		}
	}
}

// take passes an event to the client. It ends the call for an event that is not one
// StreamResponse or is no longer stored, because a stream with a gap would look complete
// (R4).
func (d *delivery) take(event *a2a.Event) error {
	switch {
	case event.FirstHeld > 0 && event.FirstHeld > d.last+1, len(event.Payload) == 0:
		return a2abinding.Own(a2abinding.LinkLost, "events are lost; subscribe to the task")
	case !isValue(event.Payload) || !d.call.operation.Streams:
		return a2abinding.Fail(a2abinding.CodeInvalidResponse, "what the agent sent is no event of this operation")
	}
	if err := d.call.event(event.Payload); err != nil {
		return fmt.Errorf("%w: %w", errClient, err)
	}
	d.last = max(d.last, event.Seq)
	return nil
}

// result is how the agent ended the operation.
func (d *delivery) result(r *a2a.Result) outcome {
	switch {
	case !r.OK:
		f, object := a2abinding.OfResult(r)
		return outcome{failure: f, object: object}
	case d.call.operation.Streams && (r.FirstHeld > 0 || r.Last > d.last):
		return failed(a2abinding.Own(a2abinding.LinkLost, "events are lost; subscribe to the task"))
	case len(r.Output) == 0 && d.call.operation.Empty:
		return outcome{}
	case !isValue(r.Output):
		return failed(a2abinding.Fail(a2abinding.CodeInvalidResponse, "what the agent answered is not JSON"))
	}
	return outcome{output: r.Output}
}

// ended says what an error means that came in place of a Result.
func (d *delivery) ended(ctx context.Context, session Session, out outcome, err error) (outcome, bool, error) {
	if ctx.Err() != nil {
		return out, false, ctx.Err()
	}
	if refused, ok := errors.AsType[*profiles.Error](err); ok && session.Context().Err() == nil {
		return failed(refusal(refused)), false, nil
	}
	return out, true, nil
}

// refusal says why an endpoint did not take the Task.
func refusal(e *profiles.Error) *a2abinding.Failure {
	switch e.Code {
	case profiles.SecurityPolicy:
		return a2abinding.Own(a2abinding.Denied, "denied")
	case profiles.FrameTooLarge, profiles.PayloadTooLarge:
		return a2abinding.Own(a2abinding.TooLarge, "the request is too large")
	}
	return a2abinding.Own(a2abinding.LinkLost, "the endpoint of the agent did not take the request: "+e.Text)
}

// leave tells the endpoint that the client wants no more.
func (d *delivery) leave(sent *a2a.Delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	_ = sent.Cancel(ctx, closed) // or the session is gone too
}

// isValue reports whether octets are one JSON value, so that they can stand in
// another.
func isValue(octets []byte) bool { return utf8.Valid(octets) && json.Valid(octets) }
