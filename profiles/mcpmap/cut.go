package mcpmap

import (
	"bytes"

	"github.com/slimwire/swp/profiles"
)

// The cacheScope of the result of a list request, and its text in a cut result.
var cacheScope = []byte("cacheScope")

const (
	private       = `"private"`
	privateMember = `,"cacheScope":` + private
)

// errList refuses an answer whose list cannot be checked.
var errList = &profiles.Error{
	Code: profiles.Internal, Detail: "mcp_list",
	Text: "the list of the server cannot be read, so it cannot be held against the access rules",
}

// cutList returns a response without the elements of result.<member> that keep refuses.
// keep gets the member of an element that names it and the element, valid until it returns; an
// element with an ambiguous name is always removed.
//
// An element is removed with one comma. A shortened result becomes private for caches,
// because it is for one caller; a missing cacheScope means public. All other octets stay.
// If no element is removed, the response itself is returned. A list that parsers could read
// in several ways is an error.
func cutList(response []byte, member, element string, keep func(name, element []byte) bool) ([]byte, *profiles.Error) {
	var m Message
	if m.Scan(response) != nil || m.Check(Response) != nil {
		return nil, errList
	}
	if !m.result.present() {
		return response, nil // an error has no list
	}
	c := cutter{scanner: scanner{b: response, i: m.result.from}, message: &m, names: []byte(element), keep: keep}
	if c.peek() != '{' {
		return nil, errList
	}
	c.result(member)
	switch {
	case c.unclear || c.bad:
		return nil, errList
	case c.out == nil:
		return response, nil
	}
	if !c.scoped {
		c.replace(span{m.result.to - 1, m.result.to - 1}, privateMember)
	}
	return append(c.out, response[c.done:]...), nil
}

// CutTools returns the answer to tools/list without the tools that keep refuses, as cutList
// does: keep gets the name and the octets of each tool, valid until it returns.
func CutTools(response []byte, keep func(name, tool []byte) bool) ([]byte, *profiles.Error) {
	return cutList(response, lists[0].member, lists[0].element, keep)
}

// cutter walks over a scanned response, and copies it when the first element is removed.
type cutter struct {
	scanner
	message *Message
	names   []byte // the member that names an element
	keep    func(name, element []byte) bool

	found   bool   // the list
	unclear bool   // what it is
	scoped  bool   // cacheScope is there
	public  []span // its non-private values before the first removal
	out     []byte // nil: nothing was cut
	done    int    // the response up to here is in out
}

// each calls f for each part of the object or array that begins here, with the position of
// the comma before it or 0. f walks over the part.
func (s *scanner) each(f func(comma int)) {
	closer := s.peek() + 2 // '}' and ']' follow their openers by two
	comma := 0
	s.i++
	for s.space(); !s.bad && s.peek() != closer; s.space() {
		f(comma)
		if s.space(); s.peek() == ',' {
			comma = s.i
			s.i++
		}
	}
	s.i++
}

// memberName walks to the value of a member. The name is valid until the next call.
func (s *scanner) memberName() []byte {
	name, escaped := s.key()
	if escaped {
		name = s.unescape(name)
	}
	s.space()
	return name
}

func (c *cutter) result(member string) {
	list := []byte(member)
	c.each(func(int) {
		name := c.memberName()
		switch {
		case bytes.EqualFold(name, list): // some parsers ignore case
			c.unclear = c.unclear || c.found || string(name) != member
			c.found = true
			c.list()
		case bytes.EqualFold(name, cacheScope):
			c.scoped = c.scoped || string(name) == string(cacheScope)
			c.scope()
		default:
			c.skip(0)
		}
	})
}

// list walks over the list. null is an empty list; any other value cannot be checked.
func (c *cutter) list() {
	if c.peek() != '[' {
		c.unclear = c.unclear || c.peek() != 'n'
		c.skip(0)
		return
	}
	kept := false
	c.each(func(comma int) {
		from := c.i
		name, ok := c.element()
		ok = ok && c.keep(name, c.b[from:c.i:c.i])
		if comma > 0 && !(ok && kept) {
			c.replace(span{comma, comma + 1}, "")
		}
		if !ok {
			c.replace(span{from, c.i}, "")
		}
		kept = kept || ok
	})
}

// element walks over an element and returns its name. It must be an object with exactly one
// name, a valid string.
func (c *cutter) element() (name []byte, ok bool) {
	if c.peek() != '{' {
		c.skip(0)
		return nil, false
	}
	var value span
	exact := false
	names := 0
	c.each(func(int) {
		member := c.memberName()
		is := bytes.EqualFold(member, c.names)
		if is {
			names++
			exact = string(member) == string(c.names)
		}
		from := c.i
		c.skip(0)
		if is {
			value = span{from, c.i}
		}
	})
	if names != 1 || !exact {
		return nil, false
	}
	return c.message.text(value)
}

// scope walks over a cacheScope; it must be private if anything is cut.
func (c *cutter) scope() {
	from := c.i
	c.skip(0)
	value := span{from, c.i}
	if text, ok := c.message.text(value); ok && string(text) == "private" {
		return
	}
	if c.out == nil {
		c.public = append(c.public, value)
		return
	}
	c.replace(value, private)
}

// replace replaces the octets of a span by text. The span must be after all earlier ones.
func (c *cutter) replace(at span, text string) {
	if c.out == nil {
		c.out = make([]byte, 0, len(c.b)+len(privateMember))
		for _, scope := range c.public {
			c.replace(scope, private)
		}
	}
	c.out = append(append(c.out, c.b[c.done:at.from]...), text...)
	c.done = at.to
}
