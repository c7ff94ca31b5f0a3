package a2ahttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2ajson"
	"github.com/slimwire/swp/internal/bridge/a2aowners"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/internal/jsonobject"
	"github.com/slimwire/swp/profiles/a2a"
)

// streaming is a Back as the Worker of operations that stream. When ctx ends it
// closes the stream of the agent, which ends the delivery and never the task of A2A
// (R7).
type streaming Back

// stream is one operation that streams.
type stream struct {
	*Back
	ctx   context.Context
	t     *a2a.Task
	event func(string, []byte) error
	whose *a2aowners.Operation

	id   string // of the task of A2A, once it is known
	over bool   // the last event says that nothing follows
}

// Run implements a2a.Worker.
func (b *streaming) Run(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
	s := &stream{Back: (*Back)(b), ctx: ctx, t: t, event: event}
	return nil, s.ended(ctx, t, s.run())
}

// Resume implements a2a.Resumer: it sends one more snapshot of the task, then the
// agent's events from now on (R8).
func (b *streaming) Resume(ctx context.Context, t *a2a.Task, last []byte, event func(string, []byte) error) ([]byte, error) {
	s := &stream{Back: (*Back)(b), ctx: ctx, t: t, event: event}
	return nil, s.ended(ctx, t, s.resume(last))
}

func (s *stream) run() error {
	o, input, err := s.begin()
	if err != nil {
		return err
	}
	return s.follow(s.copy(o, s.t.Input, input))
}

func (s *stream) resume(last []byte) error {
	if _, _, err := s.begin(); err != nil {
		return err
	}
	if response, err := a2ajson.Parse(last); err == nil {
		s.note(response)
	}
	return s.follow(errLeft)
}

// begin reads what is asked for, and refuses what is not the caller's to do.
func (s *stream) begin() (o a2abinding.Operation, input a2ajson.Object, err error) {
	o, _ = a2abinding.OfKind(s.t.Kind)
	if input, err = a2ajson.Parse(s.t.Input); err != nil {
		return o, nil, err
	}
	if s.whose, err = s.admit(s.ctx, o, s.t, input); err != nil {
		return o, nil, err
	}
	if o.Name == a2abinding.SubscribeToTask {
		s.id, err = input.Text("id")
	}
	return o, input, err
}

// errLeft is why a stream of an earlier process broke.
var errLeft = a2abinding.Own(a2abinding.LinkLost, "interrupted by a restart")

// reattach are the pauses before each attempt to take up a stream again that broke
// in the middle. A stream that then lasts longer than settled resets them.
var reattach = [...]time.Duration{100 * time.Millisecond, time.Second, 4 * time.Second, 10 * time.Second}

const settled = time.Minute

// follow takes up a stream that broke as long as that makes sense, and returns why
// it ended; nil if it was at its end. The error of a stream that broke in the
// middle never says that the agent was unreachable, as if nothing had been done.
func (s *stream) follow(err error) error {
	for attempt := 0; !s.over && s.id != "" && broken(err) && attempt < len(reattach); attempt++ {
		if err := backoff.Wait(s.ctx, reattach[attempt]); err != nil {
			return err
		}
		octets, input, fault := s.naming()
		if fault != nil {
			return fault
		}
		began := time.Now()
		next := s.copy(subscribe, octets, input)
		if _, told := errors.AsType[*answered](next); told {
			return s.snapshot(err, octets, input)
		}
		if !errors.Is(next, upstream.ErrUnreached) {
			err = next
		}
		if time.Since(began) > settled {
			attempt = -1
		}
	}
	if s.over {
		return nil
	}
	return err
}

var (
	subscribe, _ = a2abinding.Named(a2abinding.SubscribeToTask)
	getTask, _   = a2abinding.Named(a2abinding.GetTask)
)

// broken reports whether an error leaves open what the agent would have said.
func broken(err error) bool {
	return errors.Is(err, upstream.ErrLost) || errors.Is(err, upstream.ErrUnreached) || errors.Is(err, errLeft)
}

// naming is the input of an operation on the task of the stream, in the same
// tenant.
func (s *stream) naming() (octets []byte, input a2ajson.Object, err error) {
	own, err := a2ajson.Parse(s.t.Input)
	if err != nil {
		return nil, nil, err
	}
	tenant, err := own.Text("tenant")
	if err != nil {
		return nil, nil, err
	}
	octets, err = json.Marshal(struct {
		ID     string `json:"id"`
		Tenant string `json:"tenant,omitempty"`
	}{s.id, tenant})
	if err != nil {
		return nil, nil, err
	}
	input, err = a2ajson.Parse(octets)
	return octets, input, err
}

// snapshot sends the current task as the last event of a stream whose end was missed.
// If it has not ended, or the agent knows nothing of it any more, lost is why the
// stream did.
func (s *stream) snapshot(lost error, octets []byte, input a2ajson.Object) error {
	task, err := s.ask(s.ctx, getTask, s.t, octets, input)
	if err != nil {
		return lost
	}
	if err := s.take(append(append([]byte(`{"task":`), task...), '}')); err != nil || s.over {
		return err
	}
	return lost
}

// copy makes a request that streams and sends each of its events, to its end.
func (s *stream) copy(o a2abinding.Operation, octets []byte, input a2ajson.Object) error {
	r, q, err := s.open(s.ctx, o, s.t, octets, input)
	if err != nil {
		return err
	}
	defer r.Close()
	if !streams(r) {
		_, err := q.read(r)
		if err == nil {
			err = invalid("it is no stream of events")
		}
		return err
	}
	for events := r.Events(maxBody+len("data: "), nil); ; {
		event, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		data, err := q.event(event.Data)
		if err != nil {
			return err
		}
		if err := s.take(data); err != nil {
			return err
		}
	}
}

// take sends one event. Whose the task is that it is about is stored before.
func (s *stream) take(data []byte) error {
	response, err := a2ajson.Parse(data)
	if err != nil {
		return invalid("an event is no JSON object")
	}
	if err := s.whose.Claim(s.ctx, response); err != nil {
		return err
	}
	s.note(response)
	return s.event("", data)
}

// note records the task of a response. A response whose task cannot be read
// was refused before, see a2aowners.
func (s *stream) note(response a2ajson.Object) {
	id, _ := a2aowners.TaskOf(response)
	s.id, s.over = cmp.Or(id, s.id), final(response)
}

// event returns the octets of the StreamResponse in the data of an event.
func (q *request) event(data []byte) ([]byte, error) {
	if q.id != "" {
		return q.result(data)
	}
	o, err := a2ajson.Parse(data)
	if err != nil {
		return nil, invalid("an event is no JSON object")
	}
	if failure, err := o.Find("error"); failure != nil || err != nil {
		return nil, restError(data)
	}
	return data, nil
}

// ends are the states of a task after which a stream says nothing more.
var ends = map[string]bool{
	"TASK_STATE_COMPLETED": true, "TASK_STATE_FAILED": true, "TASK_STATE_CANCELED": true, "TASK_STATE_REJECTED": true,
}

// final reports whether a StreamResponse is the last of its stream.
func final(response a2ajson.Object) bool {
	for _, m := range response {
		switch m.Name {
		case "message":
			return true
		case "task", "statusUpdate", "status_update":
			return ends[stateOf(m.Value)]
		}
	}
	return false
}

// stateOf returns the state of a task or a status update, empty if it cannot be read.
func stateOf(octets []byte) (state string) {
	about, _ := a2ajson.Parse(octets)
	value, _ := about.Find("status")
	status, _ := a2ajson.Parse(value)
	value, _ = status.Find("state")
	state, _ = jsonobject.String(value)
	return state
}
