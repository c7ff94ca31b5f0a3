package sdl

import (
	"sync"

	"github.com/slimwire/swp/profiles"
)

// turns handles the events of a session one after another in order of arrival, because an
// event may change what an earlier one reported. The zero value is ready.
type turns struct {
	mu   sync.Mutex
	last map[profiles.Session]chan struct{} // closed when the last event is handled
}

// next returns a channel that is closed when the previous event is handled, nil if there is
// none, and a function to call when this event is handled.
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
