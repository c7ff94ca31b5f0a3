package team

import (
	"cmp"
	"context"
	"errors"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/jsonobject"
	"github.com/slimwire/swp/profiles/a2a"
)

// Reasons why a message could not be routed: ErrorInfo.reason of a CodeInternal.
const (
	HopLimit         a2abinding.Reason = "HOP_LIMIT"
	AgentNotFound    a2abinding.Reason = "AGENT_NOT_FOUND"
	InvalidRecipient a2abinding.Reason = "INVALID_RECIPIENT"
	RecipientDenied  a2abinding.Reason = "RECIPIENT_DENIED"
	AgentFailed      a2abinding.Reason = "AGENT_FAILED"
	EmptyInput       a2abinding.Reason = "EMPTY_INPUT"
)

var (
	errHops      = a2abinding.Own(HopLimit, "the message went to as many agents as it may")
	errUnknown   = a2abinding.Own(AgentNotFound, "an agent named a recipient that is not in the team")
	errItself    = a2abinding.Own(InvalidRecipient, "an agent named itself as the recipient")
	errEdge      = a2abinding.Own(RecipientDenied, "an agent named a recipient to which it may not send")
	errAgent     = a2abinding.Own(AgentFailed, "an agent of the team failed")
	errEmpty     = a2abinding.Own(EmptyInput, "an agent answered with nothing that could be passed on")
	errTooLarge  = a2abinding.Own(a2abinding.TooLarge, "an agent answered with more than can be held back")
	errNoTask    = a2abinding.Fail(a2abinding.CodeTaskNotFound, "task not found")
	errNoMessage = a2abinding.Fail(a2abinding.CodeInvalidParams, "no message that can be understood")
	errNoParams  = a2abinding.Fail(a2abinding.CodeInvalidParams, "not a JSON object")
	errNoPush    = a2abinding.Fail(a2abinding.CodeNoPush, "push notifications are not supported")
)

// request is one message of a caller. It belongs to one goroutine and is discarded after
// the operation.
type request struct {
	*Team
	ctx    context.Context
	task   *a2a.Task
	event  func(octets []byte) error // sends to the caller, if the operation streams
	input  object                    // input of the operation
	tenant string                    // of it
	opted  bool                      // the caller offers the extension
	hops   int
	left   *int   // remaining deliveries, shared by all nested teams
	known  string // the task whose member is already stored
}

// hop is a message for a member.
type hop struct {
	message  object // without routing data
	target   string
	sender   string
	handoffs []string // empty: all peers

	// giver gave the member the task that the message is about: the sender of the first
	// message of the task, maybe in an earlier turn. An answer to Sender goes there.
	giver string
}

// send routes a message by the rules of docs/teams.md.
func (r *request) send(streams bool) ([]byte, error) {
	h, contextID, err := r.begin()
	if err != nil {
		return nil, err
	}
	for {
		if r.hops >= r.opts.MaxHops || *r.left <= 0 {
			return nil, errHops
		}
		r.hops++
		*r.left--
		m := r.members[h.target]
		if m == nil {
			return nil, errUnknown
		}
		told := Hop{Team: r.opts.Name, N: r.hops, Sender: h.sender, Member: m.id}
		a, p, err := r.deliver(m, h, streams)
		if err != nil {
			if r.ctx.Err() != nil {
				return nil, context.Cause(r.ctx)
			}
			m.forget()
			told.Err = err
			r.opts.Observe(told)
			return nil, r.failed(m, h.sender, err)
		}
		if a == nil { // it was streamed to the caller
			told.Next = User
			r.opts.Observe(told)
			return nil, nil
		}
		var d decision
		told.Next, d, err = r.decide(m, p, a, h.giver)
		told.Reason, told.Err = d.reason, err
		r.opts.Observe(told)
		if err != nil {
			return nil, err
		}
		if told.Next == User {
			return r.give(m, a, h.giver, streams)
		}
		if contextID == "" {
			contextID = a.contextID
		}
		message, err := a.forward(contextID)
		if err != nil {
			if errors.Is(err, errNoParts) {
				return nil, errEmpty
			}
			return nil, errAgent
		}
		h = hop{message: message, target: told.Next, sender: m.id, giver: m.id, handoffs: d.handoffs}
	}
}

// begin reads the message of the caller. Routing data in it is ignored.
func (r *request) begin() (h hop, contextID string, err error) {
	settings, err := r.input.inner("configuration")
	if err != nil {
		return hop{}, "", errNoParams
	}
	if push, err := settings.get("taskPushNotificationConfig"); err != nil || push != nil {
		return hop{}, "", errNoPush
	}
	message, err := r.input.inner("message")
	if err != nil || message == nil {
		return hop{}, "", errNoMessage
	}
	taskID, err := message.text("taskId")
	if err != nil {
		return hop{}, "", errNoMessage
	}
	if contextID, err = message.text("contextId"); err != nil {
		return hop{}, "", errNoMessage
	}
	if message, err = stripped(message); err != nil {
		return hop{}, "", errNoMessage
	}
	if err := r.references(message); err != nil {
		return hop{}, "", err
	}
	h = hop{message: message, target: r.opts.Default, sender: User, giver: User}
	if taskID != "" {
		m, giver, err := r.find(taskID)
		if err != nil {
			return hop{}, "", err
		}
		if m == nil {
			return hop{}, "", errNoTask
		}
		h.target, h.giver = m.id, giver
	}
	return h, contextID, nil
}

// maxReferences limits the tasks that one message may refer to.
const maxReferences = 64

// references refuses a message that refers to tasks of other callers. Members cannot check
// this, because to a member every caller is the team.
func (r *request) references(message object) error {
	list, err := message.list("referenceTaskIds")
	if err != nil || len(list) > maxReferences {
		return errNoMessage
	}
	for _, value := range list {
		id, ok := jsonobject.String(value)
		if !ok || len(id) > maxID {
			return errNoMessage
		}
		if m, _, err := r.find(id); err != nil || m == nil {
			return cmp.Or(err, error(errNoTask))
		}
	}
	return nil
}

// deliver sends a message to a member and returns its answer. If it is certain beforehand
// that the answer goes to the caller, a stream is passed on directly, and the answer is
// nil.
func (r *request) deliver(m *participant, h hop, streams bool) (*answer, *profile, error) {
	p, err := r.describe(r.ctx, m)
	if err != nil {
		return nil, nil, err
	}
	message := h.message
	if p.peer.SupportsClientRouting {
		data := routingData(r.peers(r.ctx, m, h.handoffs), h.sender, m.Form, r.opts.Context)
		if message, err = injected(message, data); err != nil {
			return nil, nil, err
		}
	}
	task := &a2a.Task{
		Kind: r.task.Kind, Input: r.input.with("message", message.octets()).octets(), Peer: r.task.Peer,
		Params: paramsFor(r.task.Params, p.peer.SupportsClientRouting), Deadline: r.task.Deadline,
	}
	if streams && !p.peer.SupportsClientRouting && r.atEnd(m) {
		_, err := r.exchange(m, task, func(octets []byte) error { return r.pass(m, h.giver, octets) })
		return nil, p, err
	}
	a := new(answer)
	output, err := r.exchange(m, task, func(octets []byte) error {
		if !streams {
			return errEvent
		}
		return a.take(octets, r.opts.Held)
	})
	if err == nil && !streams {
		err = a.take(output, max(r.opts.Held, len(output)))
	}
	if err == nil && a.empty() {
		err = errors.New("team: no answer")
	}
	return a, p, err
}

// atEnd reports whether the answer of a member without the extension goes to the caller.
// The default agent as recipient of its own answers would be an endless loop.
func (r *request) atEnd(m *participant) bool {
	return m.id == r.opts.Default || r.opts.BasicReply == ToUser
}

// failed converts an error of a member for the caller. sender has sent the message: if a
// member refuses a message of the caller by the rules of an extension, such as SLIP, that is the
// caller's to know.
func (r *request) failed(m *participant, sender string, err error) error {
	if errors.Is(err, errHeld) {
		return errTooLarge
	}
	if told, ok := errors.AsType[*refused](err); ok && sender == User {
		if f, err := a2abinding.Parse(told.Output); err == nil && f.OfExtension() {
			return f
		}
	}
	if f, ok := errors.AsType[*a2abinding.Failure](err); ok && m.team != nil {
		return f // a failure made by a team
	}
	return errAgent
}

// decide returns the next recipient by the table in docs/teams.md; User means the caller.
// giver is where an answer to Sender goes.
func (r *request) decide(m *participant, p *profile, a *answer, giver string) (next string, d decision, err error) {
	if !a.over() {
		return User, d, nil
	}
	if !p.peer.SupportsClientRouting {
		if r.atEnd(m) {
			return User, d, nil
		}
		return r.opts.Default, d, nil
	}
	data, err := a.routing()
	if err != nil {
		return "", d, errAgent
	}
	if data != nil {
		d = readDecision(data)
	}
	switch {
	case d.recipient == "" && m.id == r.opts.Default:
		return User, d, nil
	case d.recipient == "":
		return r.opts.Default, d, nil
	case d.recipient == User && !d.agent:
		return User, d, nil
	case d.recipient == Sender && !d.agent:
		return giver, d, nil
	case d.recipient == m.id:
		return "", d, errItself
	case r.members[d.recipient] == nil: // User and Sender are reserved, not ids
		return "", d, errUnknown
	case d.recipient != giver && !m.sendsTo(d.recipient):
		return "", d, errEdge
	}
	return d.recipient, d, nil
}

// give returns an answer to the caller.
func (r *request) give(m *participant, a *answer, giver string, streams bool) ([]byte, error) {
	if !streams {
		return r.own(m, giver, a.octets[0])
	}
	for _, octets := range a.octets {
		if err := r.pass(m, giver, octets); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// pass sends a response to the caller.
func (r *request) pass(m *participant, giver string, octets []byte) error {
	octets, err := r.own(m, giver, octets)
	if err != nil {
		return err
	}
	return r.event(octets)
}

// own returns a response for the caller, after it has stored which member has the task, and
// who gave it the task.
func (r *request) own(m *participant, giver string, octets []byte) ([]byte, error) {
	var about answer
	if err := about.take(octets, len(octets)); err != nil {
		return nil, errAgent
	}
	if about.taskID != "" && about.taskID != r.known {
		if err := r.remember(about.taskID, m.id, giver); err != nil {
			return nil, err
		}
		r.known = about.taskID
	}
	if r.opted {
		return octets, nil
	}
	clean, err := cleaned(octets)
	if err != nil {
		return nil, errAgent
	}
	return clean, nil
}
