package access

import (
	"errors"
	"iter"
)

// index finds the entries for an identity: exact identities by lookup, so that thousands of
// them cost nothing, and patterns with wildcards one by one.
type index[T any] struct {
	named map[string]bool // identities to which patterns with wildcards do not apply
	all   []entry[T]
	wild  []entry[T] // entries with only their wildcard identities
	exact map[string][]T
}

type entry[T any] struct {
	identity patterns
	value    T
}

// add adds a value for the identities that match one of the patterns.
func (x *index[T]) add(identities []string, value T) error {
	list, err := compileAll(identities)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New(": none")
	}
	if x.exact == nil {
		x.exact = make(map[string][]T)
	}
	var wild patterns
	for _, p := range list {
		if p.wild {
			wild = append(wild, p)
		} else {
			x.exact[p.text] = append(x.exact[p.text], value)
		}
	}
	x.all = append(x.all, entry[T]{list, value})
	if len(wild) > 0 {
		x.wild = append(x.wild, entry[T]{wild, value})
	}
	return nil
}

// of yields the values for an identity, in no particular order and possibly more than once.
func (x *index[T]) of(identity string) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, v := range x.exact[identity] {
			if !yield(v) {
				return
			}
		}
		if x.named[identity] {
			return
		}
		for i := range x.wild {
			if x.wild[i].identity.match(identity) && !yield(x.wild[i].value) {
				return
			}
		}
	}
}

// matches reports whether an entry is for an identity.
func (x *index[T]) matches(e *entry[T], identity string) bool {
	if x.named[identity] {
		return e.identity.name(identity)
	}
	return e.identity.match(identity)
}

// list returns the values for an identity in the order they were added.
func (x *index[T]) list(identity string) []T {
	var found []T
	for i := range x.all {
		if x.matches(&x.all[i], identity) {
			found = append(found, x.all[i].value)
		}
	}
	return found
}
