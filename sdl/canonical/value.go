// Package canonical is the data model of A2A-SDL. It is JSON in which integers and other
// numbers are different types (1 and 1.0). Each value has exactly one canonical JSON form
// and one canonical CBOR form, so that everyone computes the same hash or signature over it
// (A2A-SDL §3).
//
// The parsers are strict: ambiguous input is refused, not repaired.
package canonical

import (
	"iter"
	"math"
	"slices"
	"strings"
)

// Kind says what a Value is.
type Kind uint8

// The kinds of values. A number written without fraction and exponent is an
// integer, of up to MaxDigits digits; every other number is a float, IEEE
// binary64.
const (
	KindNull Kind = iota
	KindBool
	KindInteger
	KindFloat
	KindString
	KindArray
	KindObject
)

var kindNames = [...]string{"null", "boolean", "integer", "float", "string", "array", "object"}

// String returns the name of k for messages.
func (k Kind) String() string { return kindNames[k] }

// Value is a JSON value. Its zero value is null. Values are immutable, so they may share
// parts and are safe for concurrent use.
type Value struct {
	kind Kind
	big  bool   // an integer beyond int64; text has its decimal digits
	num  uint64 // a boolean, a number, or the number of octets that escapes add to a string
	text string
	node *node // nil for an array or object without elements
}

// node is the content of an array or object, with measurements made at construction.
type node struct {
	elements []Value  // of an array
	members  []Member // of an object, in the order of their names
	size     int      // octets of canonical JSON
	depth    int
	longest  int // elements of the longest array in it
}

// Member is a member of an object.
type Member struct {
	Name  string
	Value Value
}

// Bool returns true or false.
func Bool(b bool) Value {
	if b {
		return Value{kind: KindBool, num: 1}
	}
	return Value{kind: KindBool}
}

// Int returns an integer.
func Int(i int64) Value { return Value{kind: KindInteger, num: uint64(i)} }

// Float returns a number that is never written as an integer: 1 is written 1.0. JSON has no
// infinities and no NaN: they become null, as in ECMAScript. A caller that must not write
// null has to check before.
func Float(f float64) Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}
	}
	return Value{kind: KindFloat, num: math.Float64bits(f)}
}

// String returns a string. Octets of s that are not UTF-8 become U+FFFD.
func String(s string) Value {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return Value{kind: KindString, num: uint64(escaping(s)), text: s}
}

// Array returns an array. It keeps no reference to the slice.
func Array(elements ...Value) Value { return array(slices.Clone(elements)) }

// Strings returns an array of strings.
func Strings(texts ...string) Value {
	elements := make([]Value, len(texts))
	for i, s := range texts {
		elements[i] = String(s)
	}
	return array(elements)
}

// array returns an array that owns elements.
func array(elements []Value) Value {
	if len(elements) == 0 {
		return Value{kind: KindArray}
	}
	n := &node{elements: elements, size: 1 + len(elements), longest: len(elements)}
	for i := range elements {
		n.measure(&elements[i])
	}
	n.depth++
	return Value{kind: KindArray, node: n}
}

// Object returns an object. Of members with the same name the last one counts.
// It keeps no reference to the slice.
func Object(members ...Member) Value {
	members = slices.Clone(members)
	for i := range members {
		members[i].Name = strings.ToValidUTF8(members[i].Name, "\uFFFD")
	}
	slices.SortStableFunc(members, byName)
	kept := members[:0]
	for i, m := range members {
		if i+1 == len(members) || members[i+1].Name != m.Name {
			kept = append(kept, m)
		}
	}
	return object(kept)
}

func byName(a, b Member) int { return strings.Compare(a.Name, b.Name) }

// object returns an object that owns members, which are sorted and unique.
func object(members []Member) Value {
	if len(members) == 0 {
		return Value{kind: KindObject}
	}
	n := &node{members: members, size: 1 + len(members)}
	for i := range members {
		n.size += len(members[i].Name) + escaping(members[i].Name) + len(`"":`)
		n.measure(&members[i].Value)
	}
	n.depth++
	return Value{kind: KindObject, node: n}
}

// measure counts one part of n.
func (n *node) measure(v *Value) {
	n.size += v.JSONSize()
	n.depth = max(n.depth, v.Depth())
	n.longest = max(n.longest, v.MaxArray())
}

// Kind says what v is.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether v is null. An absent member is null, too.
func (v Value) IsNull() bool { return v.kind == KindNull }

// Bool returns a boolean; ok is false if v is of another kind.
func (v Value) Bool() (b, ok bool) { return v.kind == KindBool && v.num != 0, v.kind == KindBool }

// Text returns a string; ok is false if v is of another kind.
func (v Value) Text() (s string, ok bool) {
	if v.kind != KindString {
		return "", false
	}
	return v.text, true
}

// Int64 returns an integer; ok is false if v is not an integer or does not fit. A float is
// not an integer, even without a fraction.
func (v Value) Int64() (i int64, ok bool) {
	if v.kind != KindInteger || v.big {
		return 0, false
	}
	return int64(v.num), true
}

// Float64 returns the value of a number; ok is false if v is of another kind. Integers are
// rounded to the nearest float, or to infinity if they are too large.
func (v Value) Float64() (f float64, ok bool) {
	switch {
	case v.kind == KindFloat:
		return math.Float64frombits(v.num), true
	case v.kind != KindInteger:
		return 0, false
	case v.big:
		return nearest(v.text), true
	}
	return float64(int64(v.num)), true
}

// Len returns how many elements or members v has; 0 if it is neither an array
// nor an object.
func (v Value) Len() int {
	if v.node == nil {
		return 0
	}
	return len(v.node.elements) + len(v.node.members)
}

// Get returns a member of an object; null if it is absent or v is not an object.
func (v Value) Get(name string) Value {
	if i, ok := v.find(name); ok {
		return v.node.members[i].Value
	}
	return Value{}
}

// Has reports whether v is an object with this member. The member may be null.
func (v Value) Has(name string) bool {
	_, ok := v.find(name)
	return ok
}

func (v Value) find(name string) (int, bool) {
	if v.kind != KindObject || v.node == nil {
		return 0, false
	}
	return slices.BinarySearchFunc(v.node.members, name, func(m Member, name string) int { return strings.Compare(m.Name, name) })
}

// At returns an element of an array; null if v is not an array or is shorter.
func (v Value) At(i int) Value {
	if v.kind != KindArray || i < 0 || i >= v.Len() {
		return Value{}
	}
	return v.node.elements[i]
}

// All iterates over the elements of an array.
func (v Value) All() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.node == nil {
			return
		}
		for _, e := range v.node.elements {
			if !yield(e) {
				return
			}
		}
	}
}

// Members iterates over the members of an object in the order of their names.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.node == nil {
			return
		}
		for _, m := range v.node.members {
			if !yield(m.Name, m.Value) {
				return
			}
		}
	}
}

// With returns an object with a member added or replaced. It copies one level
// and shares the rest. Any other value counts as an empty object.
func (v Value) With(name string, m Value) Value {
	name = strings.ToValidUTF8(name, "\uFFFD")
	i, found := v.find(name)
	var old []Member
	if v.kind == KindObject && v.node != nil {
		old = v.node.members
	}
	members := make([]Member, 0, len(old)+1)
	members = append(append(members, old[:i]...), Member{name, m})
	if found {
		i++
	}
	return object(append(members, old[i:]...))
}

// Without returns an object without a member. It copies one level and shares
// the rest.
func (v Value) Without(name string) Value {
	i, found := v.find(name)
	if !found {
		return v
	}
	old := v.node.members
	members := make([]Member, 0, len(old)-1)
	return object(append(append(members, old[:i]...), old[i+1:]...))
}

// Depth returns the nesting depth of v: 1 for a scalar and for an empty array or object,
// else one more than the deepest element (A2A-SDL §2.6).
func (v Value) Depth() int {
	if v.node == nil {
		return 1
	}
	return v.node.depth
}

// MaxArray returns the number of elements of the longest array anywhere in v.
func (v Value) MaxArray() int {
	if v.node == nil {
		return 0
	}
	return v.node.longest
}

// Equal reports whether v and w have the same canonical form.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind || v.big != w.big || v.num != w.num || v.text != w.text {
		return false
	}
	if v.node == w.node {
		return true
	}
	if v.node == nil || w.node == nil || v.node.size != w.node.size {
		return false
	}
	return slices.EqualFunc(v.node.elements, w.node.elements, Value.Equal) &&
		slices.EqualFunc(v.node.members, w.node.members, func(a, b Member) bool {
			return a.Name == b.Name && a.Value.Equal(b.Value)
		})
}
