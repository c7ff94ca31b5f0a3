package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/slimwire/swp/sdl/canonical"
)

// shape reads an object of a row by its members. A member that is missing, has the wrong
// type, or is never read counts as a difference, so that no expectation is skipped.
type shape struct {
	value canonical.Value
	path  string // with a final dot, unless empty
	asked map[string]bool
	diff  *[]string
}

// newShape returns the shape of a row. Members for human readers count as read.
func newShape(v canonical.Value) *shape {
	s := &shape{value: v, asked: make(map[string]bool), diff: new([]string)}
	s.ignore("title", "violation", "note", "why", "reference", "reference_note")
	return s
}

func (s *shape) fault(name, format string, args ...any) {
	*s.diff = append(*s.diff, s.path+name+": "+fmt.Sprintf(format, args...))
}

// has reports whether there is such a member other than null.
func (s *shape) has(name string) bool {
	s.asked[name] = true
	return !s.value.Get(name).IsNull()
}

// get returns a required member.
func (s *shape) get(name string) canonical.Value {
	s.asked[name] = true
	if !s.value.Has(name) {
		s.fault(name, "is missing")
	}
	return s.value.Get(name)
}

// of returns a required member of a kind.
func (s *shape) of(name string, kind canonical.Kind) canonical.Value {
	v := s.get(name)
	if s.value.Has(name) && v.Kind() != kind {
		s.fault(name, "is %s, want %s", v.Kind(), kind)
		return canonical.Value{}
	}
	return v
}

func (s *shape) text(name string) string {
	t, _ := s.of(name, canonical.KindString).Text()
	return t
}

func (s *shape) truth(name string) bool {
	b, _ := s.of(name, canonical.KindBool).Bool()
	return b
}

func (s *shape) count(name string) int {
	i, ok := s.of(name, canonical.KindInteger).Int64()
	if !ok || i < 0 || i > 1<<31 {
		s.fault(name, "want an integer from 0 to %d", 1<<31)
		return 0
	}
	return int(i)
}

func (s *shape) array(name string) []canonical.Value {
	return slices.Collect(s.of(name, canonical.KindArray).All())
}

// object returns the shape of a member, an empty one if it is missing.
func (s *shape) object(name string) *shape {
	return s.within(name, s.of(name, canonical.KindObject))
}

// within returns the shape of an object inside of s.
func (s *shape) within(name string, v canonical.Value) *shape {
	if v.Kind() != canonical.KindObject {
		v = canonical.Object()
	}
	return &shape{value: v, path: s.path + name + ".", asked: make(map[string]bool), diff: s.diff}
}

// elements returns the shapes of the objects in an array.
func (s *shape) elements(name string) []*shape {
	var list []*shape
	for i, v := range s.array(name) {
		place := fmt.Sprintf("%s[%d]", name, i)
		if v.Kind() != canonical.KindObject {
			s.fault(place, "is %s, want object", v.Kind())
			continue
		}
		list = append(list, s.within(place, v))
	}
	return list
}

// time reads a time of a clock, not of a message.
func (s *shape) time(name string) time.Time {
	text := s.text(name)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil && text != "" {
		s.fault(name, "%q: want a time of RFC 3339", text)
	}
	return t
}

// words reads an array of strings, nil if it is absent.
func (s *shape) words(name string) []string {
	if !s.has(name) {
		return nil
	}
	list := []string{}
	for _, v := range s.array(name) {
		t, ok := v.Text()
		if !ok {
			s.fault(name, "has a %s, want strings", v.Kind())
		}
		list = append(list, t)
	}
	return list
}

// dictionary reads an object of strings, empty if it is absent.
func (s *shape) dictionary(name string) map[string]string {
	if !s.has(name) {
		return nil
	}
	o := s.object(name)
	texts := make(map[string]string, o.value.Len())
	for name := range o.value.Members() {
		texts[name] = o.text(name)
	}
	return texts
}

// lists reads an object of arrays of strings, empty if it is absent.
func (s *shape) lists(name string) map[string][]string {
	if !s.has(name) {
		return nil
	}
	o := s.object(name)
	lists := make(map[string][]string, o.value.Len())
	for name := range o.value.Members() {
		lists[name] = o.words(name)
	}
	return lists
}

// ignore takes members that are for the reader.
func (s *shape) ignore(names ...string) {
	for _, name := range names {
		s.asked[name] = true
	}
}

// done records the members that were never read.
func (s *shape) done() {
	for name := range s.value.Members() {
		if !s.asked[name] {
			s.fault(name, "nothing here compares or configures this")
		}
	}
}
