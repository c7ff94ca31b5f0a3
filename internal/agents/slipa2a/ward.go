package slipa2a

import (
	"context"

	"github.com/slimwire/swp/profiles/a2a"
)

// Ward puts the extension before an agent that is not in this process: on a session, or
// behind a partner. It does for a task of this agent what Wrap does for one of a Worker, in
// front of another Ward of the task. own says that the agent is one of this endpoint, whose
// extended card is told with the declaration; the card of another's agent stays unchanged.
func (x *Extension) Ward(t *a2a.Task, own bool, behind a2a.Ward) a2a.Ward {
	in, _, err := x.admit(t)
	return &ward{Ward: behind, checker: x.checker(in), err: err, plain: in != nil && in.Kind == Plain, card: own && isCard(t)}
}

// ward is the extension for one task of an agent elsewhere. It keeps nothing of the input.
type ward struct {
	a2a.Ward
	checker
	err   error // that refuses the task
	plain bool  // the agent gets the message without its mark
	card  bool  // the output is the extended card of an own agent
}

// Admit implements a2a.Ward.
func (w *ward) Admit(ctx context.Context, agent a2a.Carded) error {
	if w.err != nil {
		return w.err
	}
	return w.Ward.Admit(ctx, agent)
}

// Given implements a2a.Ward.
func (w *ward) Given(input []byte, params []string) ([]byte, []string) {
	input, params = w.Ward.Given(input, params)
	if !w.plain {
		return input, params
	}
	if changed, err := plain(input, messageOf); err == nil { // admit has read it
		input = changed
	}
	return input, optedOut(params)
}

// Event implements a2a.Ward.
func (w *ward) Event(payload []byte) (passed []byte, keep func(done func(error))) {
	if w.err != nil {
		return payload, func(done func(error)) { done(w.err) }
	}
	payload, keep = w.Ward.Event(payload)
	checked, err := w.check(payload)
	if err != nil {
		return payload, func(done func(error)) { done(err) }
	}
	return checked, keep
}

// Output implements a2a.Ward.
func (w *ward) Output(ctx context.Context, output []byte) ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	output, err := w.Ward.Output(ctx, output)
	if err != nil {
		return nil, err
	}
	if w.card {
		return w.x.declared(output), nil
	}
	return w.check(output)
}
