package a2aowners

import (
	"context"
	"errors"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2ajson"
	"github.com/slimwire/swp/profiles/a2a"
)

// Ward is a2a.Options.Ward: it has tasks that are passed on reach none of A2A which is
// another caller's.
func (o *Owners) Ward(agent string, t *a2a.Task) a2a.Ward {
	op, ok := a2abinding.OfKind(t.Kind)
	if !ok {
		return &ward{err: result(a2abinding.Fail(a2abinding.CodeUnknownMethod, "no such operation"))}
	}
	input, err := a2ajson.Parse(t.Input)
	if err != nil {
		return &ward{err: result(err)}
	}
	p, err := o.Operation(agent, t.Peer, op, input)
	return &ward{Operation: p, of: op, err: result(err)}
}

// ward is an Operation as a Ward. If it could not be read, all its methods fail.
type ward struct {
	*Operation
	of  a2abinding.Operation
	err error
}

// Admit implements a2a.Ward.
func (w *ward) Admit(ctx context.Context, agent a2a.Carded) error {
	err := w.err
	if err == nil {
		err = result(w.Operation.Admit(ctx))
	}
	if errors.As(err, new(*a2a.Failure)) && !Offered(ctx, w.of, agent.Card) {
		return w.of.Unoffered().Result()
	}
	return err
}

// Given implements a2a.Ward.
func (w *ward) Given(input []byte, params []string) ([]byte, []string) { return input, params }

// Event implements a2a.Ward.
func (w *ward) Event(payload []byte) (passed []byte, keep func(done func(error))) {
	if w.err != nil {
		return payload, func(done func(error)) { done(w.err) }
	}
	response, err := a2ajson.Parse(payload)
	if err != nil {
		return payload, nil // it tells of no task
	}
	told := w.Told(response)
	if told == nil {
		return payload, nil
	}
	return payload, func(done func(error)) { told(func(err error) { done(result(err)) }) }
}

// Output implements a2a.Ward.
func (w *ward) Output(ctx context.Context, output []byte) ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	output, err := w.Operation.Output(ctx, output)
	return output, result(err)
}

// result is an error as that by which a Worker ends a task, if the caller is to learn
// of it.
func result(err error) error {
	if f, ok := errors.AsType[*a2abinding.Failure](err); ok {
		return f.Result()
	}
	return err
}
