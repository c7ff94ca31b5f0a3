package team

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// answer is the answer of a member: a Message or a Task, as one response or a stream.
type answer struct {
	octets [][]byte // the responses, in order
	size   int      // of them

	message   object // the Message; nil if it is a Task
	taskID    string
	contextID string
	state     string
	status    object // message of the status
	agent     object // last message of the agent in the history
	artifacts []artifact
}

type artifact struct {
	id    string
	parts []json.RawMessage
}

// maxHeld limits the responses of a stream that are held back.
const maxHeld = 4096

var errHeld = errors.New("team: the answer is too large to be buffered")

// take adds a response.
func (a *answer) take(octets []byte, limit int) error {
	if a.size += len(octets); a.size > limit || len(a.octets) >= maxHeld {
		return errHeld
	}
	a.octets = append(a.octets, octets)
	kind, o, err := response(octets)
	if err != nil {
		return err
	}
	switch kind {
	case "message":
		a.message = o
		if a.contextID, err = o.text("contextId"); err != nil {
			return err
		}
	case "task":
		return a.task(o)
	case "statusUpdate":
		return errors.Join(a.about(o, "taskId"), a.progress(o))
	case "artifactUpdate":
		return errors.Join(a.about(o, "taskId"), a.artifact(o))
	}
	return nil
}

// response returns the kind of a response and its content. kind is empty if unknown.
func response(octets []byte) (kind string, o object, err error) {
	top, err := parseObject(octets)
	if err != nil {
		return "", nil, err
	}
	for _, name := range []string{"message", "task", "statusUpdate", "artifactUpdate"} {
		found, err := top.inner(name)
		switch {
		case err != nil:
			return "", nil, err
		case found != nil && kind != "":
			return "", nil, errors.New("team: a response that is two things")
		case found != nil:
			kind, o = name, found
		}
	}
	return kind, o, nil
}

// about reads the ids of the task that a response belongs to.
func (a *answer) about(o object, name string) (err error) {
	if a.taskID, err = o.text(name); err == nil && a.taskID == "" {
		err = errors.New("team: a task without an id")
	}
	if err == nil {
		a.contextID, err = o.text("contextId")
	}
	return err
}

func (a *answer) task(o object) error {
	if err := errors.Join(a.about(o, "id"), a.progress(o)); err != nil {
		return err
	}
	history, err := o.list("history")
	if err != nil {
		return err
	}
	a.agent = nil
	for _, value := range history {
		m, err := parseObject(value)
		if err != nil {
			return err
		}
		if role, _ := m.text("role"); role == "ROLE_AGENT" {
			a.agent = m
		}
	}
	list, err := o.list("artifacts")
	if err != nil {
		return err
	}
	a.artifacts = nil
	for _, value := range list {
		one, err := parseObject(value)
		if err != nil {
			return err
		}
		if err := a.add(one, false); err != nil {
			return err
		}
	}
	return nil
}

// progress reads the status.
func (a *answer) progress(o object) error {
	status, err := o.inner("status")
	if err != nil {
		return err
	}
	if a.state, err = status.text("state"); err != nil {
		return err
	}
	a.status, err = status.inner("message")
	return err
}

func (a *answer) artifact(o object) error {
	one, err := o.inner("artifact")
	if err != nil || one == nil {
		return err
	}
	more, err := o.get("append")
	if err != nil {
		return err
	}
	return a.add(one, bytes.Equal(more, []byte("true")))
}

// add adds an artifact, or appends parts to an existing one.
func (a *answer) add(one object, more bool) error {
	id, err := one.text("artifactId")
	if err != nil {
		return err
	}
	parts, err := one.list("parts")
	if err != nil {
		return err
	}
	for i := range a.artifacts {
		if a.artifacts[i].id != id {
			continue
		}
		if more {
			parts = append(a.artifacts[i].parts, parts...)
		}
		a.artifacts[i].parts = parts
		return nil
	}
	a.artifacts = append(a.artifacts, artifact{id, parts})
	return nil
}

// ends are the final states of a task.
var ends = map[string]bool{
	"TASK_STATE_COMPLETED": true, "TASK_STATE_FAILED": true, "TASK_STATE_CANCELED": true, "TASK_STATE_REJECTED": true,
}

// over reports whether the answer is complete: a task that goes on is the caller's.
func (a *answer) over() bool { return a.message != nil || ends[a.state] }

// empty reports whether there was no response.
func (a *answer) empty() bool { return a.message == nil && a.taskID == "" }

// routing returns the routing data of the message, or of the message of the status, or else
// of the last message of the agent.
func (a *answer) routing() ([]byte, error) {
	for _, m := range []object{a.message, a.status, a.agent} {
		if data, err := routingOf(m); err != nil || data != nil {
			return data, err
		}
	}
	return nil, nil
}

var errNoParts = errors.New("team: an answer without parts cannot be passed on")

// forward returns the answer as a message for the next agent: with a new messageId, role
// user, and the context of the conversation. For a task the parts are those of its status
// message and then those of its artifacts. References to the task of the previous agent are
// removed.
func (a *answer) forward(contextID string) (object, error) {
	message, parts := a.message, []json.RawMessage(nil)
	if message == nil {
		message = a.status
		for _, one := range a.artifacts {
			parts = append(parts, one.parts...)
		}
	}
	own, err := message.list("parts")
	if err != nil {
		return nil, err
	}
	if parts = append(slices.Clip(own), parts...); len(parts) == 0 {
		return nil, errNoParts
	}
	if message, err = stripped(message); err != nil {
		return nil, err
	}
	message = message.without("taskId").without("referenceTaskIds").
		with("messageId", quote(newID())).with("role", quote("ROLE_USER")).with("parts", array(parts))
	if contextID == "" {
		return message.without("contextId"), nil
	}
	return message.with("contextId", quote(contextID)), nil
}

// newID returns a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never returns an error
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// cleaned removes the routing data from the messages of a response. A response without
// routing data stays unchanged, octet for octet.
func cleaned(octets []byte) ([]byte, error) {
	kind, o, err := response(octets)
	if err != nil {
		return nil, err
	}
	was := o
	switch kind {
	case "message":
		o, err = stripped(o)
	case "task":
		if o, err = cleanTask(o); err == nil {
			o, err = cleanStatus(o)
		}
	case "statusUpdate":
		o, err = cleanStatus(o)
	}
	if err != nil || same(o, was) {
		return octets, err
	}
	top, err := parseObject(octets)
	if err != nil {
		return nil, err
	}
	return top.with(kind, o.octets()).octets(), nil
}

// cleanTask removes routing data from the history of a task.
func cleanTask(task object) (object, error) {
	history, err := task.list("history")
	if err != nil {
		return nil, err
	}
	changed := false
	for i, value := range history {
		was, err := parseObject(value)
		if err != nil {
			return nil, err
		}
		m, err := stripped(was)
		if err != nil {
			return nil, err
		}
		if !same(m, was) {
			history[i], changed = m.octets(), true
		}
	}
	if changed {
		task = task.with("history", array(history))
	}
	return task, nil
}

func cleanStatus(o object) (object, error) {
	status, err := o.inner("status")
	if err != nil || status == nil {
		return o, err
	}
	was, err := status.inner("message")
	if err != nil || was == nil {
		return o, err
	}
	m, err := stripped(was)
	if err != nil || same(m, was) {
		return o, err
	}
	return o.with("status", status.with("message", m.octets()).octets()), nil
}

// same reports whether a and b share memory, so that nothing was edited.
func same(a, b object) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
