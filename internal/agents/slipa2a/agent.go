package slipa2a

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
)

// Incoming describes a received message for an agent behind Wrap.
type Incoming struct {
	Received

	// OptedIn says that the client offered the extension with its request.
	OptedIn bool

	// TakesSLIP says that the answer may be in SLIP: the client has opted in, accepts
	// text/slip, and uses no other anchors. Otherwise the answer is plain text.
	TakesSLIP bool
}

type incomingKey struct{}

// Of returns the Incoming of the current Run, for a Worker in Go behind Wrap. ok is false
// for operations without a message.
func Of(ctx context.Context) (in *Incoming, ok bool) {
	in, ok = ctx.Value(incomingKey{}).(*Incoming)
	return in, ok
}

// Wrap puts the extension before an agent: a Worker for kinds of package a2abinding.
//
// A valid message in SLIP reaches the agent octet for octet; an invalid one is refused
// with InvalidParams. A message that falls back reaches it as plain text: neither the
// message nor the service parameters name the extension any more, the rest is
// unchanged. Messages without the mark, and other operations, pass unchanged. The
// extended card is told with the declaration, unless it has one or is signed.
//
// Answers in SLIP are checked, too: an invalid one becomes InvalidAgentResponse with the class,
// and one for a client that does not take SLIP loses its mark. The rest of it is unchanged.
//
// The Worker that is returned is a Resumer if the agent is.
func (x *Extension) Wrap(agent a2a.Worker) a2a.Worker {
	w := &wrapped{x, agent}
	if again, ok := agent.(a2a.Resumer); ok {
		return &resumer{w, again}
	}
	return w
}

type wrapped struct {
	x     *Extension
	agent a2a.Worker
}

type resumer struct {
	*wrapped
	again a2a.Resumer
}

// Run implements a2a.Worker.
func (w *wrapped) Run(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
	in, t, err := w.x.admit(t)
	if err != nil {
		return nil, err
	}
	replies := w.x.replies(in, event)
	output, err := replies.last(w.agent.Run(in.with(ctx), t, replies.event))
	if isCard(t) && err == nil {
		output = w.x.declared(output)
	}
	return output, err
}

// isCard reports whether the output of a task is the extended card of its agent.
func isCard(t *a2a.Task) bool {
	o, _ := a2abinding.OfKind(t.Kind)
	return o.Name == a2abinding.GetExtendedAgentCard
}

// declared returns a card with the declaration, unchanged if it cannot have one.
func (x *Extension) declared(card []byte) []byte {
	if declared, err := x.Declare(card); err == nil {
		return declared
	}
	return card
}

// Resume implements a2a.Resumer.
func (r *resumer) Resume(ctx context.Context, t *a2a.Task, last []byte, event func(string, []byte) error) ([]byte, error) {
	in, t, err := r.x.admit(t)
	if err != nil {
		return nil, err
	}
	replies := r.x.replies(in, event)
	return replies.last(r.again.Resume(in.with(ctx), t, last, replies.event))
}

// with returns a context in which Of finds the Incoming, if there is one.
func (in *Incoming) with(ctx context.Context) context.Context {
	if in == nil {
		return ctx
	}
	return context.WithValue(ctx, incomingKey{}, in)
}

// admit returns the message of a send, nil for another operation, and the task for the agent;
// or the failure for its initiator.
func (x *Extension) admit(t *a2a.Task) (*Incoming, *a2a.Task, error) {
	o, _ := a2abinding.OfKind(t.Kind)
	if o.Name != a2abinding.SendMessage && o.Name != a2abinding.SendStreamingMessage {
		return nil, t, nil
	}
	in, input, err := x.receive(t)
	if refused, ok := errors.AsType[*Error](err); ok {
		return nil, nil, refused.Failure().Result()
	}
	if failure, ok := errors.AsType[*a2abinding.Failure](err); ok {
		return nil, nil, failure.Result()
	}
	if err != nil {
		return nil, nil, err
	}
	if in.Kind == Plain {
		changed := *t
		changed.Input, changed.Params = input, optedOut(t.Params)
		t = &changed
	}
	return in, t, nil
}

// receive reads the input of a send, and returns the input for the agent.
func (x *Extension) receive(t *a2a.Task) (*Incoming, []byte, error) {
	in := &Incoming{OptedIn: OptedIn(t.Params)}
	if x.opts.Required && !in.OptedIn {
		return nil, nil, a2abinding.Fail(a2abinding.CodeNeedsExtension, "the extension "+URI+" is required")
	}
	if !json.Valid(t.Input) {
		return nil, nil, fault(BadMessage, "the input is no JSON")
	}
	root, err := parseObject(t.Input, whole(t.Input))
	if err != nil {
		return nil, nil, fault(BadMessage, "input: %v", err)
	}
	m, err := root.inner("message")
	if err != nil {
		return nil, nil, fault(BadMessage, "message: %v", err)
	}
	if m == nil {
		return in, t.Input, nil // the agent reports what is missing
	}
	if n := m.at.to - m.at.from; n > x.opts.MaxMessage {
		return nil, nil, fault(BadMessage, "%d octets, want at most %d", n, x.opts.MaxMessage)
	}
	r, err := x.decode(m)
	if err != nil {
		return nil, nil, err
	}
	in.Received = *r
	if r.Kind == Plain {
		input, err := plain(t.Input, messageOf)
		return in, input, err
	}
	if in.OptedIn {
		if in.TakesSLIP, err = takes(root); err != nil {
			return nil, nil, fault(BadMessage, "acceptedOutputModes: %v", err)
		}
	}
	return in, t.Input, nil
}

// messageOf finds the message in the input of a send.
func messageOf(input []byte) (*object, error) {
	root, err := parseObject(input, whole(input))
	if err != nil {
		return nil, err
	}
	return root.inner("message")
}
