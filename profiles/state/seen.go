package state

import "sync"

// seen caches states that this process has stored and that never expire, so that the parents
// of many children are not read repeatedly. A state that an earlier process has stored may
// expire. It assumes one process: the removal of a state by another one would not be seen.
// The zero value is ready.
type seen struct {
	mu   sync.Mutex
	keys map[key]struct{}
	era  uint64 // number of removals
}

// maxSeen bounds the cache to about 8 MiB. A full cache is emptied.
const maxSeen = 1 << 16

// has reports whether a state is in the cache. era is for add.
func (s *seen) has(k key) (known bool, era uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known = s.keys[k]
	return known, s.era
}

// add adds a state that was stored in an era, unless something was removed since then: it
// may have been this state.
func (s *seen) add(k key, era uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if era != s.era {
		return
	}
	if s.keys == nil || len(s.keys) >= maxSeen {
		s.keys = make(map[key]struct{})
	}
	s.keys[k] = struct{}{}
}

func (s *seen) remove(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, k)
	s.era++
}
