package team

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/slimwire/swp/internal/jsonobject"
)

// object holds the members of a JSON object, in order, with the octets of their values.
// Unedited members keep their octets.
type object jsonobject.Object

var null = []byte("null")

func parseObject(octets []byte) (object, error) {
	o, err := jsonobject.Parse(octets)
	if err != nil {
		return nil, fmt.Errorf("team: %w", err)
	}
	return object(o), nil
}

// octets writes the object.
func (o object) octets() []byte {
	out := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, quote(m.Name)...)
		out = append(append(out, ':'), m.Value...)
	}
	return append(out, '}')
}

// quote writes a string as JSON.
func quote(s string) []byte {
	text, err := json.Marshal(s)
	if err != nil { // marshalling a string does not fail
		return []byte(`""`)
	}
	return text
}

// get returns the value of a member; nil if missing or null. All decoders must read the
// same routing data, so a spelling variant is an error.
func (o object) get(name string) (json.RawMessage, error) {
	value, err := jsonobject.Object(o).Get(name)
	if err != nil {
		return nil, fmt.Errorf("team: %s: %w", name, err)
	}
	return value, nil
}

// inner returns a member that is an object; nil if missing.
func (o object) inner(name string) (object, error) {
	value, err := o.get(name)
	if err != nil || value == nil {
		return nil, err
	}
	return parseObject(value)
}

// list returns a member that is an array; nil if missing.
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

// maxID limits A2A ids, in octets.
const maxID = 1024

// text returns a member that is a string; empty if missing.
func (o object) text(name string) (string, error) {
	value, err := o.get(name)
	if err != nil || value == nil {
		return "", err
	}
	s, ok := jsonobject.String(value)
	if !ok || len(s) > maxID || strings.ContainsRune(s, '\uFFFD') {
		return "", errors.New("team: " + name + " is no string of at most 1024 octets")
	}
	return s, nil
}

// with returns the object with a new value for a member, at its old position if it has one.
func (o object) with(name string, value []byte) object {
	out := make(object, 0, len(o)+1)
	done := false
	for _, m := range o {
		if jsonobject.IsField(m.Name, name) {
			if done {
				continue
			}
			m.Value, done = value, true
		}
		out = append(out, m)
	}
	if !done {
		out = append(out, jsonobject.Member{Name: name, Value: value})
	}
	return out
}

// without returns the object without the members of a name.
func (o object) without(name string) object {
	out := make(object, 0, len(o))
	for _, m := range o {
		if !jsonobject.IsField(m.Name, name) {
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
