package canonical

import "slices"

// stacks holds the parts of arrays and objects that are not yet complete. A length
// announced by the peer allocates nothing.
type stacks struct {
	elements []Value
	members  []Member
	values   int   // read so far
	skim     *skim // nil: values are built
}

// newStacks returns stacks with enough room for most bodies.
func newStacks() stacks {
	return stacks{elements: make([]Value, 0, 8), members: make([]Member, 0, 24)}
}

// pushElement and pushMember double a full slice, because append would copy long lists more
// often.
func (s *stacks) pushElement(v Value) {
	if s.skim != nil {
		return
	}
	if n := len(s.elements); n == cap(s.elements) {
		s.elements = slices.Grow(s.elements, n)
	}
	s.elements = append(s.elements, v)
}

func (s *stacks) pushMember(depth int, name string, v Value) {
	if s.skim != nil {
		s.skim.member(depth, name, v)
		return
	}
	if n := len(s.members); n == cap(s.members) {
		s.members = slices.Grow(s.members, n)
	}
	s.members = append(s.members, Member{name, v})
}

// popArray returns the elements above base as an array.
func (s *stacks) popArray(base int) Value {
	v := array(slices.Clone(s.elements[base:]))
	s.elements = s.elements[:base]
	return v
}

// popObject returns the members above base as an object; ok is false if two of
// them have the same name.
func (s *stacks) popObject(base int) (v Value, ok bool) {
	members := slices.Clone(s.members[base:])
	s.members = s.members[:base]
	for i := 1; i < len(members); i++ {
		if members[i-1].Name >= members[i].Name {
			slices.SortFunc(members, byName)
			break
		}
	}
	for i := 1; i < len(members); i++ {
		if members[i-1].Name == members[i].Name {
			return Value{}, false
		}
	}
	return object(members), true
}
