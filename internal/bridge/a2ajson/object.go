// Package a2ajson reads JSON objects of A2A 1.0 for what decides where a message goes
// and whose it is. What is sent on is the octets that were read.
//
// Two parsers may read one object in two ways. For what decides about access that is
// refused, see Object.One.
package a2ajson

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

var null = []byte("null")

// Object is the members of a JSON object, in order.
type Object []Member

// Member is a member of an Object. Its value is a window into the octets that were
// read.
type Member struct {
	Name  string
	Value []byte

	end int // where the value ends in what was read
}

// Parse reads a JSON object. Its error is an *a2abinding.Failure.
func Parse(octets []byte) (Object, error) {
	if json.Valid(octets) {
		if o := Of(octets); o != nil {
			return o, nil
		}
	}
	return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, "not a JSON object")
}

// Of is the object that valid JSON is, nil if it is none. It passes over the
// octets once, however deep the values are.
func Of(valid []byte) Object {
	i := over(valid, 0, blanks)
	if i == len(valid) || valid[i] != '{' {
		return nil
	}
	o := Object{}
	for i = over(valid, i+1, blanks); valid[i] != '}'; i = over(valid, i, blanks+",") {
		end := valueEnd(valid, i)
		var name string
		if json.Unmarshal(valid[i:end], &name) != nil {
			return nil
		}
		i = over(valid, end, blanks+":")
		end = valueEnd(valid, i)
		o = append(o, Member{name, valid[i:end:end], end})
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

// Last returns the value of a member of what an agent wrote, nil if it is not there.
func (o Object) Last(name string) (value []byte) {
	for _, m := range o {
		if m.Name == name {
			value = m.Value
		}
	}
	return value
}

// One returns the value of a member of what a caller wrote, nil if it is not there
// or null. Agents may read a name that is there twice, in other letters or with
// underscores in one way or the other; for what decides about access, that is
// refused.
func (o Object) One(name string) (value []byte, err error) {
	times := 0
	for _, m := range o {
		if m.Name == name {
			value = m.Value
		}
		if strings.EqualFold(strings.ReplaceAll(m.Name, "_", ""), name) {
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

// MaxID bounds the id of a task, in octets.
const MaxID = 1024

// Text returns a member that is a string, empty if it is not there.
func (o Object) Text(name string) (string, error) {
	raw, err := o.One(name)
	if err != nil || raw == nil {
		return "", err
	}
	var s string
	if json.Unmarshal(raw, &s) != nil || len(s) > MaxID || strings.ContainsRune(s, '\uFFFD') {
		return "", a2abinding.Fail(a2abinding.CodeInvalidParams, "member "+name+" is no string of at most 1024 octets")
	}
	return s, nil
}

// Scalar returns a member as it stands in a query, empty if it is not there.
func (o Object) Scalar(name string) (string, error) {
	raw, err := o.One(name)
	switch {
	case err != nil || raw == nil:
		return "", err
	case raw[0] == '"':
		return o.Text(name)
	case raw[0] == '{' || raw[0] == '[':
		return "", a2abinding.Fail(a2abinding.CodeInvalidParams, "member "+name+" is no value for a query")
	}
	return string(raw), nil
}

// Inner returns a member that is an object, nil if it is not there.
func (o Object) Inner(name string) (Object, error) {
	raw, err := o.One(name)
	if err != nil || raw == nil {
		return nil, err
	}
	return Parse(raw)
}

// Elements returns the elements of a JSON array, false if it is none.
func Elements(valid []byte) (list [][]byte, ok bool) {
	if len(valid) == 0 || valid[0] != '[' {
		return nil, false
	}
	for i := over(valid, 1, blanks); valid[i] != ']'; i = over(valid, i, blanks+",") {
		end := valueEnd(valid, i)
		list = append(list, valid[i:end:end])
		i = end
	}
	return list, true
}

// Replace returns a JSON object with other values for a member, wherever it is.
func Replace(octets []byte, name string, value []byte) ([]byte, error) {
	o, err := Parse(octets)
	if err != nil {
		return nil, err
	}
	var out []byte
	from := 0
	for _, m := range o {
		if m.Name == name {
			out = append(append(out, octets[from:m.end-len(m.Value)]...), value...)
			from = m.end
		}
	}
	return append(out, octets[from:]...), nil
}
