package state

import "sync"

// seen remembers states that are stored for good, so that the parents of many
// children are not read again and again. The zero value is ready.
type seen struct {
	mu   sync.Mutex
	keys map[key]struct{}
	era  uint64 // how often something was removed
}

// maxSeen is how many are remembered: about 8 MiB. Then all are forgotten.
const maxSeen = 1 << 16

// has reports whether a state is stored, as far as is remembered. era is for add.
func (s *seen) has(k key) (known bool, era uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known = s.keys[k]
	return known, s.era
}

// add remembers a state that was seen in an era, unless something was removed
// since: it may have been this one.
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
