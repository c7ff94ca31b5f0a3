package a2a

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/profiles"
)

// Carded is an agent with a card.
type Carded interface {
	// Card returns the card, as peers get it. It may wait.
	Card(ctx context.Context) ([]byte, error)
}

// Ward supervises one task that is given to an agent over a session. To the agent all
// initiators have the identity of this endpoint, so this endpoint separates the A2A tasks
// of its initiators (mcp-a2a mapping §4). The errors of a Ward are a *Failure, which ends
// the task, or an error of a store.
type Ward interface {
	// Admit returns an error to refuse the task before it is given to the agent, whose card
	// says how the agent itself would refuse it. It may wait.
	Admit(ctx context.Context, agent Carded) error

	// Given returns the input and the service parameters that the agent gets for those of
	// the task. It must not block, and returns the same each time: a Task that is sent again
	// must not differ. It may return its arguments, and must not change them.
	Given(input []byte, params []string) ([]byte, []string)

	// Event returns the payload of an Event for the initiator. It must neither keep nor
	// change the payload, nor block; it may return it. keep stores data that must be stored
	// before the initiator gets the Event; nil means none. It does not wait, and is called
	// again after a temporary error. done must not block. After a restart an Event may be
	// inspected again.
	Event(payload []byte) (passed []byte, keep func(done func(error)))

	// Output returns the output of a Result for the initiator. It may wait.
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

// cardTime limits a request for a card, for which the initiator waits.
const cardTime = 5 * time.Second

var errNoCard = errors.New("a2a: cards of agents are not known")

// Card implements Carded with the agent of the task. It asks on behalf of the owner of the task.
func (x *execution) Card(ctx context.Context) ([]byte, error) {
	t, s := x.t, x.t.s
	s.mu.Lock()
	a := x.agent
	if a == nil || a.host == nil || s.opts.Card == nil {
		s.mu.Unlock()
		return nil, errNoCard
	}
	session, id := a.host.session, a.id
	s.mu.Unlock()
	if isPartner(id) {
		if id = t.Agent; isPartner(id) {
			return nil, errNoCard // the partner chooses the agent
		}
	}
	// Not the context of the task: what accompanies the task is not for this request.
	asking, cancel := context.WithTimeout(context.Background(), cardTime)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return s.opts.Card(profiles.WithCaller(asking, t.Owner), session, id)
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
	if !x.askWard(func() error { return w.Admit(t.ctx, x) }) {
		return false
	}
	t.s.mu.Lock()
	x.ward = w
	t.s.mu.Unlock()
	return true
}

// askWard calls do, and repeats it after temporary errors. It returns false if the task has
// ended.
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
