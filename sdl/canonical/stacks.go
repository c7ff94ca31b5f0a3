package canonical

import "slices"

// stacks holds the parts of arrays and objects that a parser has not yet read to
// their end. Nothing is set aside for what a peer only announces.
type stacks struct {
	elements []Value
	members  []Member
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
