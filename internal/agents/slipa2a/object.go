package slipa2a

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// span is where something stands in a document.
type span struct{ from, to int }

// object is where the members of a JSON object stand in a document, which is never
// changed: what is edited is a copy with other octets in one place.
type object struct {
	doc     []byte
	at      span
	members []member

	// free says that the names of members are anybody's, as in metadata: an underscore
	// is part of them for every decoder.
	free bool
}

type member struct {
	name  string
	at    span // name and value
	value span
}

var (
	errObject    = errors.New("it is no JSON object")
	errArray     = errors.New("it is no JSON array")
	errAmbiguous = errors.New("it is there twice, or in another spelling")
)

// parseObject reads the object at a place of a document. Octets that are no JSON at
// all have been refused before.
func parseObject(doc []byte, at span) (*object, error) {
	dec := json.NewDecoder(bytes.NewReader(doc[at.from:at.to]))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, errObject
	}
	o := &object{doc: doc, at: at}
	for dec.More() {
		from := at.from + int(dec.InputOffset())
		from += len(doc[from:at.to]) - len(bytes.TrimLeft(doc[from:at.to], ", \t\r\n"))
		token, err := dec.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, errObject
		}
		value, err := next(dec, at.from)
		if err != nil {
			return nil, errObject
		}
		o.members = append(o.members, member{name, span{from, value.to}, value})
	}
	return o, nil
}

// parseArray returns where the elements of an array stand.
func parseArray(doc []byte, at span) (elements []span, err error) {
	dec := json.NewDecoder(bytes.NewReader(doc[at.from:at.to]))
	if start, err := dec.Token(); err != nil || start != json.Delim('[') {
		return nil, errArray
	}
	for dec.More() {
		value, err := next(dec, at.from)
		if err != nil {
			return nil, errArray
		}
		elements = append(elements, value)
	}
	return elements, nil
}

// next returns where the next value of a decoder stands that began at from.
func next(dec *json.Decoder, from int) (span, error) {
	var value json.RawMessage
	if err := dec.Decode(&value); err != nil {
		return span{}, err
	}
	end := from + int(dec.InputOffset())
	return span{end - len(value), end}, nil
}

// whole is the place of the one value of a document.
func whole(doc []byte) span {
	from := len(doc) - len(bytes.TrimLeft(doc, " \t\r\n"))
	return span{from, len(bytes.TrimRight(doc, " \t\r\n"))}
}

// get returns where the value of a member is, false if it is not there or null.
// Decoders differ in which of two members of one name they read, and whether another
// spelling is the same name; what is decided here has to be what the agent reads, so
// that either is an error.
func (o *object) get(name string) (value span, ok bool, err error) {
	for _, m := range o.members {
		if m.name != name && !o.alike(m.name, name) {
			continue
		}
		if ok || m.name != name {
			return span{}, false, errAmbiguous
		}
		value, ok = m.value, true
	}
	return value, ok && string(o.doc[value.from:value.to]) != "null", nil
}

// alike reports whether some decoder takes one name for the other.
func (o *object) alike(found, name string) bool {
	if !o.free {
		found = strings.ReplaceAll(found, "_", "")
	}
	return strings.EqualFold(found, name)
}

// inner returns a member that is an object, nil if it is not there.
func (o *object) inner(name string) (*object, error) {
	at, ok, err := o.get(name)
	if err != nil || !ok {
		return nil, err
	}
	return parseObject(o.doc, at)
}

// text returns a member that is a string, false if it is not there or something else.
func (o *object) text(name string) (s string, ok bool, err error) {
	at, ok, err := o.get(name)
	if err != nil || !ok {
		return "", false, err
	}
	s, ok = text(o.doc, at)
	return s, ok, nil
}

// text reads a string.
func text(doc []byte, at span) (s string, ok bool) {
	return s, doc[at.from] == '"' && json.Unmarshal(doc[at.from:at.to], &s) == nil
}

// without returns a copy of doc in which the items that drop names are gone from a
// sequence of them, with the commas that this makes superfluous.
func without(doc []byte, items []span, drop func(i int) bool) []byte {
	if len(items) == 0 {
		return doc
	}
	out := append(make([]byte, 0, len(doc)), doc[:items[0].from]...)
	kept := 0
	for i, item := range items {
		if drop(i) {
			continue
		}
		if kept++; kept > 1 {
			out = append(out, doc[items[i-1].to:item.from]...)
		}
		out = append(out, doc[item.from:item.to]...)
	}
	return append(out, doc[items[len(items)-1].to:]...)
}

// with returns a copy of doc with one more item at the end of a sequence, which stands
// between the brackets at a place.
func with(doc []byte, at span, items []span, item []byte) []byte {
	where := at.from + 1
	if len(items) > 0 {
		where = items[len(items)-1].to
		item = append([]byte{','}, item...)
	}
	out := append(make([]byte, 0, len(doc)+len(item)), doc[:where]...)
	return append(append(out, item...), doc[where:]...)
}

// put returns a copy of the document in which a member that is not there, or null, has
// a value.
func (o *object) put(name string, value []byte) []byte {
	for _, m := range o.members {
		if m.name == name {
			out := append(make([]byte, 0, len(o.doc)+len(value)), o.doc[:m.value.from]...)
			return append(append(out, value...), o.doc[m.value.to:]...)
		}
	}
	item := append([]byte(`"`+name+`":`), value...)
	return with(o.doc, o.at, o.items(), item)
}

// items are the members as a sequence.
func (o *object) items() []span {
	spans := make([]span, len(o.members))
	for i, m := range o.members {
		spans[i] = m.at
	}
	return spans
}
