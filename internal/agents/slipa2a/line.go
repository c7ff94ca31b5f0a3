package slipa2a

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// Line is a line of SLIP v1 that is, or was, no message of A2A.
type Line struct {
	Text string
	Same bool // its sender has said that it uses the same anchors
}

// FromLine writes the input of a send: a message with a line, octet for octet, for a client
// that takes SLIP and plain text. The line must have been read with the anchors of this side.
func (x *Extension) FromLine(messageID string, line Line) ([]byte, error) {
	hash := ""
	if line.Same {
		hash = ucr.CoreHash
	}
	m, err := x.write(Outgoing{MessageID: messageID}, line.Text, hash)
	if err != nil {
		return nil, err
	}
	return append(append([]byte(`{"message":`), m...), `,"configuration":{"acceptedOutputModes":["`+MediaType+`","text/plain"]}}`...), nil
}

// ToLine returns the line of an answer of an agent, for the peer that a line came from. A plain
// text becomes a Fallback. Its error is an *Error: a line cannot have all that the answer has.
func (x *Extension) ToLine(answer []byte, agent, peer string) (Line, error) {
	if !json.Valid(answer) {
		return Line{}, fault(BadMessage, "it is no JSON")
	}
	m, err := answerOf(answer)
	if err != nil {
		return Line{}, fault(BadMessage, "%v", err)
	}
	if m == nil {
		return Line{}, fault(NotCarried, "it has no message, but perhaps a task that continues, or artifacts")
	}
	r, err := x.decode(m)
	if err != nil {
		return Line{}, err
	}
	if r.Kind == Ordinary {
		if err := x.parts(m, r); err != nil {
			return Line{}, err
		}
	}
	switch {
	case len(r.Attachments) > 0:
		return Line{}, fault(NotCarried, "it has %d parts besides the text", len(r.Attachments))
	case r.Kind == SLIP && (r.Message.Src != agent || r.Message.Dst != peer):
		return Line{}, fault(OtherAgent, "it is from %.100q to %.100q", r.Message.Src, r.Message.Dst)
	case r.Kind == SLIP:
		return Line{r.Text, r.UCR == Match}, nil
	}
	line, err := x.codec().Append(nil, slipstream.Plain(agent, peer, r.Text))
	if err != nil {
		return Line{}, inText(err)
	}
	return Line{string(line), true}, nil
}

// Lines returns a Worker for SendMessage to an agent that gets lines and nothing else. carry
// passes on the line of a task, and returns when the agent has it or will have it; its error ends
// the task. The answer is a MetaAck: the agent's reply to the
// line does not come this way.
//
// Messages that are no SLIP, use other anchors, or have more than a line are refused.
func (x *Extension) Lines(agent string, carry func(ctx context.Context, t *a2a.Task, line Line) error) a2a.Worker {
	return x.Wrap(a2a.WorkerFunc(func(ctx context.Context, t *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		in, ok := Of(ctx)
		if !ok {
			return nil, a2abinding.Fail(a2abinding.CodeUnsupported, "the agent gets lines of SLIP v1 and nothing else").Result()
		}
		if err := x.onlyLine(t, in, agent); err != nil {
			return nil, err
		}
		if err := carry(ctx, t, Line{in.Text, in.UCR == Match}); err != nil {
			return nil, err
		}
		out := Outgoing{MessageID: rand.Text(), SLIP: slipstream.Say(agent, in.Message.Src, "MetaAck")}
		if m, err := messageOf(t.Input); err == nil && m != nil {
			out.ContextID, _, _ = m.text("contextId")
		}
		answer, err := x.Answer(in, out, "received; an answer of "+agent+" comes as a message of SLIP")
		return append(append([]byte(`{"message":`), answer...), '}'), err
	}))
}

// onlyLine returns why a message is more than a line for an agent.
func (x *Extension) onlyLine(t *a2a.Task, in *Incoming, agent string) error {
	var refused error
	switch {
	case in.Kind == Ordinary:
		return a2abinding.Fail(a2abinding.CodeContentType, "the agent gets lines of SLIP v1, and the message is not marked as one").Result()
	case in.Kind == Plain:
		refused = fault(UCRMismatch, "the agent gets lines of SLIP v1, and no plain text in their place")
	case in.Message.Dst != agent:
		refused = fault(OtherAgent, "the line is to %.100q, and the task for %.100q", in.Message.Dst, agent)
	case len(in.Attachments) > 0:
		refused = fault(NotCarried, "the agent gets the line only, and the message has %d more parts", len(in.Attachments))
	case in.Confidence != nil:
		refused = fault(NotCarried, "the agent gets the line only, and the message has a confidence")
	default:
		refused = bareLine(t.Input)
	}
	if refused, ok := errors.AsType[*Error](refused); ok {
		return refused.Failure().Result()
	}
	return refused
}

// bareLine returns why the message in an input, which is marked, has something beside its line
// that a line cannot have.
func bareLine(input []byte) error {
	m, err := messageOf(input)
	if err != nil {
		return err
	}
	for _, name := range []string{"taskId", "task_id", "referenceTaskIds", "reference_task_ids"} {
		if _, has, err := m.get(name); has || err != nil {
			return a2abinding.Fail(a2abinding.CodeTaskNotFound, "the agent gets lines of SLIP v1 and has no tasks").Result()
		}
	}
	list, err := listed(m)
	if err != nil {
		return err
	}
	for _, at := range list {
		if !isURI(m.doc, at) {
			return fault(NotCarried, "the agent gets the line only, and the message is marked with another extension")
		}
	}
	if metadata, err := m.inner("metadata"); err != nil || len(metadata.items()) > 1 {
		return fault(NotCarried, "the agent gets the line only, and the message has other metadata")
	}
	return nil
}
