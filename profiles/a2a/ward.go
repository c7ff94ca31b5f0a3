package a2a

import (
	"context"
	"errors"
)

// Ward looks after one task that is given to an agent over a session. To the agent all
// initiators are this endpoint, so it is here that they are kept from each other's
// tasks of A2A (mcp-a2a mapping §4). The errors of a Ward are a *Failure, by which the
// task ends, or those of a store.
type Ward interface {
	// Admit refuses the task before it is given to the agent. It may wait.
	Admit(ctx context.Context) error

	// Event is told the payload of an Event, which it does not keep, and must not
	// block. keep has stored what is to be stored before the initiator gets the Event;
	// nil means nothing. It does not wait, and is called again after an error that
	// passes. done must not block. After a restart an Event may be told again.
	Event(payload []byte) (keep func(done func(error)))

	// Output returns the output of a Result as the initiator gets it. It may wait.
	Output(ctx context.Context, output []byte) ([]byte, error)
}

// wardOf returns the Ward of the task for an agent, nil if it needs none.
func (x *execution) wardOf(agentID string, input []byte) Ward {
	t := x.t
	if t.s.opts.Ward == nil || !isOperation(t.Kind) {
		return nil
	}
	if isPartner(agentID) {
		agentID = t.Agent
	}
	return t.s.opts.Ward(agentID, t.job(input))
}

// admitted reports whether the task may be given to an agent. If not, it has ended.
func (x *execution) admitted(agentID string, input []byte) bool {
	t := x.t
	if t.s.opts.Ward == nil || !isOperation(t.Kind) {
		return true
	}
	if input == nil {
		var err error
		if input, err = t.input(); err != nil {
			return false
		}
	}
	w := x.wardOf(agentID, input)
	if !x.askWard(func() error { return w.Admit(t.ctx) }) {
		return false
	}
	t.s.mu.Lock()
	x.ward = w
	t.s.mu.Unlock()
	return true
}

// askWard does what its Ward may wait for, and tries again while that fails for a
// reason that passes. It reports whether the task goes on; if not, it has ended.
func (x *execution) askWard(do func() error) bool {
	t := x.t
	var refused *Failure
	err := t.retry(func() error {
		err := do()
		if f, ok := errors.AsType[*Failure](err); ok {
			refused = f
			return nil
		}
		return err
	})
	if refused != nil {
		t.finish(&ending{By: byUs}, t.failure(refused), nil)
	}
	return err == nil && refused == nil
}
