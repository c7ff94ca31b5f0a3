package slipa2a

import (
	"bytes"
	"errors"
	"slices"

	"github.com/slimwire/swp/internal/jsonobject"
)

// span is a range of octets in a document.
type span struct{ from, to int }

// object holds the positions of the members of a JSON object. The document is immutable: an
// edit makes a copy that differs in one place.
type object struct {
	doc     []byte
	at      span
	members jsonobject.Object

	// free says that the names of members are arbitrary, as in metadata, so that spelling
	// variants are different names.
	free bool
}

var errArray = errors.New("it is no JSON array")

// parseObject parses the object at a position.
func parseObject(doc []byte, at span) (*object, error) {
	members, err := jsonobject.Parse(doc[at.from:at.to])
	if err != nil {
		return nil, err
	}
	return &object{doc: doc, at: at, members: members}, nil
}

// value returns the position of the value of a member.
func (o *object) value(m *jsonobject.Member) span {
	to := o.at.from + m.To
	return span{to - len(m.Value), to}
}

// parseArray returns the positions of the elements of an array.
func parseArray(doc []byte, at span) (elements []span, err error) {
	list, ok := jsonobject.Elements(doc[at.from:at.to])
	if !ok {
		return nil, errArray
	}
	for _, e := range list {
		to := at.from + e.To
		elements = append(elements, span{to - len(e.Value), to})
	}
	return elements, nil
}

// whole returns the position of the only value of a document.
func whole(doc []byte) span {
	from := len(doc) - len(bytes.TrimLeft(doc, " \t\r\n"))
	return span{from, len(bytes.TrimRight(doc, " \t\r\n"))}
}

// get returns the position of the value of a member; false if it is missing or null. Names are
// read as Object.Get does. The agent must read the same value, so a spelling variant is an error.
func (o *object) get(name string) (value span, ok bool, err error) {
	get, find := o.members.Get, o.members.FindField
	if o.free {
		get, find = o.members.GetFree, o.members.Find
	}
	if found, err := get(name); err != nil || found == nil {
		return span{}, false, err
	}
	m, err := find(name)
	return o.value(m), true, err
}

// inner returns a member that is an object; nil if missing.
func (o *object) inner(name string) (*object, error) {
	at, ok, err := o.get(name)
	if err != nil || !ok {
		return nil, err
	}
	return parseObject(o.doc, at)
}

// text returns a member that is a string; false if it is missing or of another type.
func (o *object) text(name string) (s string, ok bool, err error) {
	at, ok, err := o.get(name)
	if err != nil || !ok {
		return "", false, err
	}
	s, ok = text(o.doc, at)
	return s, ok, nil
}

// text reads a string.
func text(doc []byte, at span) (s string, ok bool) { return jsonobject.String(doc[at.from:at.to]) }

// without returns a copy of doc in which the items that drop selects are removed from a
// sequence, with their commas.
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

// with returns a copy of doc with one more item at the end of a sequence. at is the range
// between its brackets.
func with(doc []byte, at span, items []span, item []byte) []byte {
	where := at.from + 1
	if len(items) > 0 {
		where = items[len(items)-1].to
		item = append([]byte{','}, item...)
	}
	out := append(make([]byte, 0, len(doc)+len(item)), doc[:where]...)
	return append(append(out, item...), doc[where:]...)
}

// put returns a copy of the document with a value for a member that is missing or null.
func (o *object) put(name string, value []byte) []byte {
	if m, _ := o.members.Find(name); m != nil { // get has refused duplicates
		was := o.value(m)
		return slices.Concat(o.doc[:was.from], value, o.doc[was.to:])
	}
	item := append([]byte(`"`+name+`":`), value...)
	return with(o.doc, o.at, o.items(), item)
}

// items returns the members as a sequence.
func (o *object) items() []span {
	spans := make([]span, len(o.members))
	for i, m := range o.members {
		spans[i] = span{o.at.from + m.From, o.at.from + m.To}
	}
	return spans
}
