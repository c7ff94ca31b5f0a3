package a2ahttp

import (
	"bytes"
	"encoding/json"
	"errors"
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

// parseObject reads a JSON object. Its error is a failure of A2A. The values are
// windows into octets.
func parseObject(octets []byte) (object, error) {
	if json.Valid(octets) {
		if o := objectOf(octets); o != nil {
			return o, nil
		}
	}
	return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, "not a JSON object")
}

// objectOf is the object that valid JSON is, nil if it is none. It passes over the
// octets once, however deep the values are.
func objectOf(valid []byte) object {
	i := over(valid, 0, blanks)
	if i == len(valid) || valid[i] != '{' {
		return nil
	}
	o := object{}
	for i = over(valid, i+1, blanks); valid[i] != '}'; i = over(valid, i, blanks+",") {
		end := valueEnd(valid, i)
		var name string
		if json.Unmarshal(valid[i:end], &name) != nil {
			return nil
		}
		i = over(valid, end, blanks+":")
		end = valueEnd(valid, i)
		o = append(o, member{name, valid[i:end:end], end})
		i = end
	}
	return o
}

const blanks = " \t\r\n"

// over returns where something else than the octets of set begins.
func over(valid []byte, i int, set string) int {
	for i < len(valid) && strings.IndexByte(set, valid[i]) >= 0 {
		i++
	}
	return i
}

// valueEnd returns where the value ends that begins at i of valid JSON.
func valueEnd(valid []byte, i int) int {
	depth := 0
	for ; i < len(valid); i++ {
		switch valid[i] {
		case '"':
			i = stringEnd(valid, i)
			if depth == 0 {
				return i
			}
			i-- // the loop goes on behind the string
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
			if depth == 0 {
				return i + 1
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// stringEnd returns where the string ends that begins at i of valid JSON.
func stringEnd(valid []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(valid[i:], '"')
		escapes := 0
		for i+n-1-escapes >= i && valid[i+n-1-escapes] == '\\' {
			escapes++
		}
		if i += n; escapes%2 == 0 {
			return i + 1
		}
	}
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
	return response.task()
}

func (o object) task() string {
	for _, m := range o {
		name := "taskId"
		switch m.name {
		case "task":
			name = "id"
		case "message", "statusUpdate", "artifactUpdate":
		default:
			continue
		}
		var id string
		if json.Unmarshal(objectOf(m.value).last(name), &id) == nil && id != "" {
			return id
		}
	}
	return ""
}

// elements returns where the elements of a JSON array stand in it, false if it is
// none.
func elements(valid []byte) (spans [][2]int, ok bool) {
	if len(valid) == 0 || valid[0] != '[' {
		return nil, false
	}
	for i := over(valid, 1, blanks); valid[i] != ']'; i = over(valid, i, blanks+",") {
		end := valueEnd(valid, i)
		spans = append(spans, [2]int{i, end})
		i = end
	}
	return spans, true
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
