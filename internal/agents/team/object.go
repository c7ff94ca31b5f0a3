package team

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// object is the members of a JSON object, in order, with the octets of their values.
// What is not edited is written as it was read.
type object []member

type member struct {
	name  string
	value json.RawMessage
}

var (
	null = []byte("null")

	errObject    = errors.New("team: not a JSON object")
	errAmbiguous = errors.New("team: a member is there more than once, or in another spelling")
)

func parseObject(octets []byte) (object, error) {
	if !json.Valid(octets) {
		return nil, errObject
	}
	dec := json.NewDecoder(bytes.NewReader(octets))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, errObject
	}
	o := object{}
	for dec.More() {
		token, err := dec.Token()
		name, ok := token.(string)
		var value json.RawMessage
		if err != nil || !ok || dec.Decode(&value) != nil {
			return nil, errObject
		}
		o = append(o, member{name, value})
	}
	return o, nil
}

// octets writes the object.
func (o object) octets() []byte {
	out := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, quote(m.name)...)
		out = append(append(out, ':'), m.value...)
	}
	return append(out, '}')
}

// quote writes a string as JSON.
func quote(s string) []byte {
	text, err := json.Marshal(s)
	if err != nil { // a string can always be written
		return []byte(`""`)
	}
	return text
}

// get returns the value of a member, nil if it is not there or null. Decoders differ
// in which of two members of one name they read, and whether another spelling is the
// same name. What decides who speaks to whom must be the same for all, so that is an
// error.
func (o object) get(name string) (json.RawMessage, error) {
	var value json.RawMessage
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
		return nil, errAmbiguous
	case bytes.Equal(value, null):
		return nil, nil
	}
	return value, nil
}

// inner returns a member that is an object, nil if it is not there.
func (o object) inner(name string) (object, error) {
	value, err := o.get(name)
	if err != nil || value == nil {
		return nil, err
	}
	return parseObject(value)
}

// list returns a member that is an array, nil if it is not there.
func (o object) list(name string) ([]json.RawMessage, error) {
	value, err := o.get(name)
	if err != nil || value == nil {
		return nil, err
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return nil, errors.New("team: " + name + " is no array")
	}
	return list, nil
}

// maxID bounds ids of A2A, in octets.
const maxID = 1024

// text returns a member that is a string, empty if it is not there.
func (o object) text(name string) (string, error) {
	value, err := o.get(name)
	if err != nil || value == nil {
		return "", err
	}
	s, ok := text(value)
	if !ok || len(s) > maxID || strings.ContainsRune(s, '\uFFFD') {
		return "", errors.New("team: " + name + " is no string of at most 1024 octets")
	}
	return s, nil
}

// text reads a JSON string.
func text(value []byte) (s string, ok bool) {
	return s, len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &s) == nil
}

// with returns the object with another value for a member, in its place if it has
// one.
func (o object) with(name string, value []byte) object {
	out := make(object, 0, len(o)+1)
	done := false
	for _, m := range o {
		if m.name == name {
			if done {
				continue
			}
			m.value, done = value, true
		}
		out = append(out, m)
	}
	if !done {
		out = append(out, member{name, value})
	}
	return out
}

// without returns the object without the members of a name.
func (o object) without(name string) object {
	out := make(object, 0, len(o))
	for _, m := range o {
		if m.name != name {
			out = append(out, m)
		}
	}
	return out
}

// array writes a list.
func array(list []json.RawMessage) []byte {
	return append(append([]byte{'['}, bytes.Join(raw(list), []byte{','})...), ']')
}

func raw(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, value := range list {
		out[i] = value
	}
	return out
}
