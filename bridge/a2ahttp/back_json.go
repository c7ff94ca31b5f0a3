package a2ahttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/slimwire/swp/bridge/a2abinding"
)

var null = []byte("null")

// object is the members of a JSON object, in order, with their octets. Messages are
// read for what decides where they go and whose they are; what is sent on is the
// octets that were read.
type object []member

type member struct {
	name  string
	value []byte
	end   int // where the value ends in what was read
}

// parseObject reads a JSON object. Its error is a failure of A2A.
func parseObject(octets []byte) (object, error) {
	malformed := a2abinding.Fail(a2abinding.CodeInvalidParams, "not a JSON object")
	if !json.Valid(octets) {
		return nil, malformed
	}
	dec := json.NewDecoder(bytes.NewReader(octets))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, malformed
	}
	var o object
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, malformed
		}
		text, ok := name.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil || !ok {
			return nil, malformed
		}
		o = append(o, member{text, value, int(dec.InputOffset())})
	}
	return o, nil
}

// last returns the value of a member of what an agent wrote, nil if it is not there.
func (o object) last(name string) (value []byte) {
	for _, m := range o {
		if m.name == name {
			value = m.value
		}
	}
	return value
}

// one returns the value of a member of what a caller wrote, nil if it is not there
// or null. Agents may read a name that is there twice, in other letters or with
// underscores in one way or the other; for what decides about access, that is
// refused.
func (o object) one(name string) (value []byte, err error) {
	times := 0
	for _, m := range o {
		if m.name == name {
			value = m.value
		}
		if strings.EqualFold(strings.ReplaceAll(m.name, "_", ""), name) {
			times++
		}
	}
	switch {
	case times > 1 || times == 1 && value == nil:
		return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, "member "+name+" is ambiguous: it is there more than once, or in another spelling")
	case bytes.Equal(value, null):
		return nil, nil
	}
	return value, nil
}

// maxID bounds the id of a task, in octets.
const maxID = 1024

// text returns a member that is a string, empty if it is not there.
func (o object) text(name string) (string, error) {
	raw, err := o.one(name)
	if err != nil || raw == nil {
		return "", err
	}
	var s string
	if json.Unmarshal(raw, &s) != nil || len(s) > maxID || strings.ContainsRune(s, '\uFFFD') {
		return "", a2abinding.Fail(a2abinding.CodeInvalidParams, "member "+name+" is no string of at most 1024 octets")
	}
	return s, nil
}

// scalar returns a member as it stands in a query, empty if it is not there.
func (o object) scalar(name string) (string, error) {
	raw, err := o.one(name)
	switch {
	case err != nil || raw == nil:
		return "", err
	case raw[0] == '"':
		return o.text(name)
	case raw[0] == '{' || raw[0] == '[':
		return "", a2abinding.Fail(a2abinding.CodeInvalidParams, "member "+name+" is no value for a query")
	}
	return string(raw), nil
}

// inner returns a member that is an object, nil if it is not there.
func (o object) inner(name string) (object, error) {
	raw, err := o.one(name)
	if err != nil || raw == nil {
		return nil, err
	}
	return parseObject(raw)
}

// maxReferences bounds the tasks that one message may refer to.
const maxReferences = 64

// namedTasks returns the ids of the tasks that the input of an operation is about.
func namedTasks(o a2abinding.Operation, input object) (ids []string, err error) {
	add := func(o object, name string) {
		id, fault := o.text(name)
		if err = errors.Join(err, fault); id != "" {
			ids = append(ids, id)
		}
	}
	inner := func(o object, name string) object {
		in, fault := o.inner(name)
		err = errors.Join(err, fault)
		return in
	}
	switch o.Name {
	case a2abinding.GetTask, a2abinding.CancelTask, a2abinding.SubscribeToTask:
		add(input, "id")
	case a2abinding.CreatePushConfig, a2abinding.GetPushConfig, a2abinding.ListPushConfigs, a2abinding.DeletePushConfig:
		add(input, "taskId")
	case a2abinding.SendMessage, a2abinding.SendStreamingMessage:
		message := inner(input, "message")
		add(message, "taskId")
		add(inner(inner(input, "configuration"), "taskPushNotificationConfig"), "taskId")
		raw, fault := message.one("referenceTaskIds")
		if err = errors.Join(err, fault); raw == nil {
			break
		}
		var references []string
		if json.Unmarshal(raw, &references) != nil || len(references) > maxReferences {
			return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, "member referenceTaskIds is no list of at most 64 ids")
		}
		ids = append(ids, references...)
	}
	return ids, err
}

// taskOf returns the id of the task that an answer or an event is about, empty if
// it is about none.
func taskOf(octets []byte) string {
	response, err := parseObject(octets)
	if err != nil {
		return ""
	}
	for _, m := range response {
		name := "taskId"
		switch m.name {
		case "task":
			name = "id"
		case "message", "statusUpdate", "artifactUpdate":
		default:
			continue
		}
		if about, err := parseObject(m.value); err == nil {
			var id string
			if json.Unmarshal(about.last(name), &id) == nil && id != "" {
				return id
			}
		}
	}
	return ""
}

// elements returns where the elements of a JSON array stand in it.
func elements(array []byte) (spans [][2]int, err error) {
	dec := json.NewDecoder(bytes.NewReader(array))
	if start, err := dec.Token(); err != nil || start != json.Delim('[') {
		return nil, io.ErrUnexpectedEOF
	}
	for dec.More() {
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		end := int(dec.InputOffset())
		spans = append(spans, [2]int{end - len(value), end})
	}
	return spans, nil
}

// replace returns a JSON object with other values for a member, wherever it is.
func replace(octets []byte, name string, value []byte) ([]byte, error) {
	o, err := parseObject(octets)
	if err != nil {
		return nil, err
	}
	var out []byte
	from := 0
	for _, m := range o {
		if m.name == name {
			out = append(append(out, octets[from:m.end-len(m.value)]...), value...)
			from = m.end
		}
	}
	return append(out, octets[from:]...), nil
}
