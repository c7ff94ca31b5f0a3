package sharedblobs

import (
	"context"

	"github.com/slimwire/swp/store/internal/blocks"
)

// pins keep the objects of a group while an export reads them.
type pins struct {
	n    int
	keys []string // to be removed after that
}

// drop removes objects that no record names. The search finds the objects that cannot be removed
// now.
func (s *Store) drop(keys []string) {
	if len(keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.options.Timeout)
	defer cancel()
	_ = s.options.Objects.Delete(ctx, keys...)
}

// dropGroup removes the objects of a content.
func (s *Store) dropGroup(c *content) {
	keys := c.keys()
	s.mu.Lock()
	p := s.pinned[c.group]
	if p != nil {
		p.keys = append(p.keys, keys...)
	}
	s.mu.Unlock()
	if p == nil {
		s.drop(keys)
	}
}

// pin keeps the objects of groups until release is called.
func (s *Store) pin(all ...*content) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range all {
		if c != nil {
			if s.pinned[c.group] == nil {
				s.pinned[c.group] = new(pins)
			}
			s.pinned[c.group].n++
		}
	}
	return func() {
		for _, c := range all {
			if c != nil {
				s.drop(s.unpin(c.group))
			}
		}
	}
}

func (s *Store) unpin(group blocks.ID) (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pinned[group]
	if p.n--; p.n == 0 {
		delete(s.pinned, group)
		keys = p.keys
	}
	return keys
}

// isPinned reports whether a group is pinned, by its key.
func (s *Store) isPinned(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for group := range s.pinned {
		if groupKey(group) == key {
			return true
		}
	}
	return false
}
