package sdl

import (
	"sync"

	"github.com/slimwire/swp/profiles"
)

// turns have the events of a session handled one after the other, in the order in which
// they came: each may change what the one before it told. The zero value is ready.
type turns struct {
	mu   sync.Mutex
	last map[profiles.Session]chan struct{} // closed when the last event is handled
}

// next returns what is closed when the event before is handled, nil if there is none,
// and what the caller calls when this one is.
func (t *turns) next(session profiles.Session) (before <-chan struct{}, done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = make(map[profiles.Session]chan struct{})
	}
	if c, ok := t.last[session]; ok {
		before = c
	}
	own := make(chan struct{})
	t.last[session] = own
	return before, func() {
		t.mu.Lock()
		if t.last[session] == own {
			delete(t.last, session)
		}
		t.mu.Unlock()
		close(own)
	}
}
