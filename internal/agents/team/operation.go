package team

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
)

// perform executes an operation. left is the remaining hops of an outer team that has this
// team as a member; nil for other callers. The error is a *Failure of a2abinding, wraps the
// *a2a.Failure of a member, or is a local one.
func (t *Team) perform(ctx context.Context, task *a2a.Task, event func([]byte) error, left *int) ([]byte, error) {
	o, ok := a2abinding.OfKind(task.Kind)
	if !ok {
		return nil, a2abinding.Fail(a2abinding.CodeUnknownMethod, "no such operation")
	}
	input, err := parseObject(task.Input)
	if err != nil {
		return nil, errNoParams
	}
	tenant, err := input.text("tenant")
	if err != nil {
		return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, "no tenant that can be understood")
	}
	extensions := offered(task.Params)
	for _, uri := range t.required {
		if !slices.Contains(extensions, uri) {
			return nil, a2abinding.Fail(a2abinding.CodeNeedsExtension, "the team requires an extension that was not offered")
		}
	}
	if left == nil {
		left = new(t.opts.MaxHops)
	}
	r := &request{
		Team: t, ctx: ctx, task: task, event: event, input: input, tenant: tenant, left: left, opted: slices.Contains(extensions, URI),
	}
	switch o.Name {
	case a2abinding.SendMessage, a2abinding.SendStreamingMessage:
		return r.send(o.Streams)
	case a2abinding.GetTask, a2abinding.CancelTask, a2abinding.SubscribeToTask:
		return r.follow(o.Streams)
	case a2abinding.GetExtendedAgentCard:
		return nil, a2abinding.Fail(a2abinding.CodeNoExtendedCard, "the team has no other card")
	case a2abinding.ListTasks:
		return nil, a2abinding.Fail(a2abinding.CodeUnsupported, "the tasks of a team are in no list")
	}
	return nil, errNoPush
}

// follow passes an operation on a task to the member that has the task. Errors of the
// member go to the caller unchanged.
func (r *request) follow(streams bool) ([]byte, error) {
	id, err := r.input.text("id")
	if err != nil || id == "" {
		return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, "no id of a task")
	}
	m, giver, err := r.find(id)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, errNoTask
	}
	p, err := r.describe(r.ctx, m)
	if err != nil {
		return nil, errAgent
	}
	r.known = id
	output, err := r.exchange(m, &a2a.Task{
		Kind: r.task.Kind, Input: r.task.Input, Peer: r.task.Peer, Deadline: r.task.Deadline,
		Params: paramsFor(r.task.Params, p.peer.SupportsClientRouting),
	}, func(octets []byte) error {
		if !streams {
			return errEvent
		}
		return r.pass(m, giver, octets)
	})
	if err != nil {
		if told, ok := errors.AsType[*refused](err); ok {
			return nil, told
		}
		if f, ok := errors.AsType[*a2abinding.Failure](err); ok {
			return nil, f
		}
		return nil, errAgent
	}
	if r.opted || len(output) == 0 {
		return output, nil
	}
	return cleanedTask(output)
}

// cleanedTask is cleaned for a response that is just a task.
func cleanedTask(octets []byte) ([]byte, error) {
	was, err := parseObject(octets)
	if err != nil {
		return nil, errAgent
	}
	task, err := cleanTask(was)
	if err == nil {
		task, err = cleanStatus(task)
	}
	switch {
	case err != nil:
		return nil, errAgent
	case same(task, was):
		return octets, nil
	}
	return task.octets(), nil
}

// refused is the failure with which a member refuses a task, unchanged.
type refused struct{ a2a.Failure }

func (e *refused) Error() string { return "team: the agent says: " + clip(e.Reason, maxReason) }

func (e *refused) Unwrap() error { return &e.Failure }

// reasonLeft is the reason in the Result with which a team ends a delivery. The task of the
// agent continues.
const reasonLeft = "closed"

// leaveTime limits the time for sending that Result.
const leaveTime = 5 * time.Second

// exchange sends a task to a member. event gets the payload of each Event.
func (r *request) exchange(m *participant, task *a2a.Task, event func([]byte) error) ([]byte, error) {
	if m.team != nil {
		return m.team.perform(r.ctx, task, event, r.left)
	}
	d, err := r.opts.Agents.Send(r.ctx, m.Agent, task, r.task.Hops+1)
	if err != nil {
		return nil, fmt.Errorf("team: %w", err)
	}
	defer d.Close()
	for {
		e, err := d.Recv(r.ctx)
		switch {
		case errors.Is(err, io.EOF):
			result := d.Result()
			if result.FirstHeld != 0 {
				return nil, errLost
			}
			if !result.OK {
				_, octets := a2abinding.OfResult(result)
				return nil, &refused{a2a.Failure{Reason: result.Reason, Output: octets}}
			}
			return result.Output, nil
		case err != nil:
			r.leave(d)
			return nil, fmt.Errorf("team: %w", err)
		case e.FirstHeld != 0:
			r.leave(d)
			return nil, errLost
		case len(e.Payload) == 0: // the endpoint reports that the task was accepted
			continue
		}
		if err := event(e.Payload); err != nil {
			r.leave(d)
			return nil, err
		}
	}
}

// errEvent is the error for an event in an operation that does not stream.
var errEvent = errors.New("team: an event for an operation that does not stream")

var errLost = errors.New("team: events are no longer held")

// leave tells the member that the team no longer listens.
func (r *request) leave(d Delivery) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), leaveTime)
	defer cancel()
	_ = d.Cancel(ctx, reasonLeft) // on failure the member notices when it sends
}
