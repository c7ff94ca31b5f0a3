// Package jsonobject reads the members of JSON objects in order, each with its octets, for
// programs that interpret some members and pass on the rest unchanged.
//
// Decoders differ in which of two members with the same name they use. A decision must not
// depend on the decoder, so reading a repeated member is an error. Repeated members that
// are not read are passed on.
//
// The scanner is written by hand: encoding/json/jsontext is not stable yet, and copies or
// parses again what is only passed on.
package jsonobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// Errors of this package.
var (
	ErrNoObject = errors.New("not a JSON object")
	ErrRepeated = errors.New("it is there more than once")
	ErrSpelling = errors.New("it is there in another spelling")
)

// Object is the members of a JSON object.
type Object []Member

// Member is a name with its value, which is a window into the octets that were read.
type Member struct {
	Name  string
	Value []byte

	// From and To are where the member stands in those octets, from the beginning of
	// its name to the end of its value.
	From, To int
}

// Parse reads a JSON object. The error is ErrNoObject.
func Parse(octets []byte) (Object, error) {
	if !json.Valid(octets) {
		return nil, ErrNoObject
	}
	i := over(octets, 0, blanks)
	if octets[i] != '{' {
		return nil, ErrNoObject
	}
	o := Object{}
	for i = over(octets, i+1, blanks); octets[i] != '}'; i = over(octets, i, blanks+",") {
		from, end := i, valueEnd(octets, i)
		var name string
		if json.Unmarshal(octets[i:end], &name) != nil {
			return nil, ErrNoObject
		}
		i = over(octets, end, blanks+":")
		end = valueEnd(octets, i)
		o = append(o, Member{name, octets[i:end:end], from, end})
		i = end
	}
	return o, nil
}

// Element is a value of an array, a window into the octets that were read, and where it
// ends there.
type Element struct {
	Value []byte
	To    int
}

// Elements reads a JSON array. ok is false if octets are none.
func Elements(octets []byte) (list []Element, ok bool) {
	if !json.Valid(octets) {
		return nil, false
	}
	i := over(octets, 0, blanks)
	if octets[i] != '[' {
		return nil, false
	}
	for i = over(octets, i+1, blanks); octets[i] != ']'; i = over(octets, i, blanks+",") {
		end := valueEnd(octets, i)
		list = append(list, Element{octets[i:end:end], end})
		i = end
	}
	return list, true
}

const blanks = " \t\r\n"

// over returns where the octets of a set end that begin at i.
func over(valid []byte, i int, set string) int {
	for i < len(valid) && strings.IndexByte(set, valid[i]) >= 0 {
		i++
	}
	return i
}

// valueEnd returns where the value ends that begins at i.
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

// stringEnd returns where the string ends that begins at i.
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

// Find returns the member of a name, nil if there is none. The error is ErrRepeated.
func (o Object) Find(name string) (found *Member, err error) {
	for i := range o {
		if o[i].Name != name {
			continue
		}
		if found != nil {
			return nil, ErrRepeated
		}
		found = &o[i]
	}
	return found, nil
}

// FindField is Find for the field of a protobuf message by its name in JSON, such as taskId.
// ProtoJSON allows its name in the schema, task_id, as well; if both are there, the error
// is ErrRepeated.
func (o Object) FindField(name string) (found *Member, err error) {
	for i := range o {
		if !IsField(o[i].Name, name) {
			continue
		}
		if found != nil {
			return nil, ErrRepeated
		}
		found = &o[i]
	}
	return found, nil
}

// IsField reports whether found is the name of a protobuf field in JSON, or in its schema.
func IsField(found, name string) bool {
	if found == name || strings.IndexByte(found, '_') < 0 {
		return found == name
	}
	i := 0
	for _, c := range []byte(name) {
		if c >= 'A' && c <= 'Z' {
			if i >= len(found) || found[i] != '_' {
				return false
			}
			c += 'a' - 'A'
			i++
		}
		if i >= len(found) || found[i] != c {
			return false
		}
		i++
	}
	return i == len(found)
}

// Get returns the value of the field of a protobuf message, see FindField, nil if it is not
// there or null. The error is ErrRepeated, or ErrSpelling: some decoders take a name in
// another case, or with other underscores, for the same.
func (o Object) Get(name string) ([]byte, error) {
	for _, m := range o {
		if !IsField(m.Name, name) && strings.EqualFold(strings.ReplaceAll(m.Name, "_", ""), name) {
			return nil, ErrSpelling
		}
	}
	return present(o.FindField(name))
}

// GetFree is Get in an object whose names are free, where an underscore is part of them
// for every decoder.
func (o Object) GetFree(name string) ([]byte, error) {
	for _, m := range o {
		if m.Name != name && strings.EqualFold(m.Name, name) {
			return nil, ErrSpelling
		}
	}
	return present(o.Find(name))
}

func present(m *Member, err error) ([]byte, error) {
	if err != nil || m == nil || string(m.Value) == "null" {
		return nil, err
	}
	return m.Value, nil
}

// Valid reports whether octets are a JSON value that can be part of other JSON: json.Valid
// also accepts strings that are not UTF-8.
func Valid(octets []byte) bool { return utf8.Valid(octets) && json.Valid(octets) }

// String reads a JSON string. ok is false if value is none.
func String(value []byte) (s string, ok bool) {
	ok = len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &s) == nil
	return s, ok
}
