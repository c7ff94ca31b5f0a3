package part

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/internal/plain"
)

// freshTrouble is how long a failure of something behind this endpoint is worth a warning.
// Only the next use shows whether it works again.
const freshTrouble = time.Minute

// Troubles records the last failures of things behind this endpoint, by their names in the
// configuration. The zero value is ready.
type Troubles struct {
	mu    sync.Mutex
	last  map[string]trouble
	known map[string]bool // names to record; nil: all
}

type trouble struct {
	what, why string
	when      time.Time
}

// Note records what has failed, in words of our own, and why, unless its name is not recorded.
func (t *Troubles) Note(name, what string, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known != nil && !t.known[name] {
		return
	}
	if t.last == nil {
		t.last = make(map[string]trouble)
	}
	t.last[name] = trouble{what, boundlog.Clean(plain.Error(why)), time.Now()}
}

// Only removes all names except some, permanently.
func (t *Troubles) Only(names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = make(map[string]bool, len(names))
	for _, name := range names {
		t.known[name] = true
	}
	maps.DeleteFunc(t.last, func(name string, _ trouble) bool { return !t.known[name] })
}

// Look adds recent failures, one line each, beginning with kind.
func (t *Troubles) Look(kind string, h *Health) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(t.last)) {
		if t := t.last[name]; time.Since(t.when) < freshTrouble {
			h.WarnWith(kind+" "+name+": "+t.what, ": "+t.why)
		}
	}
}
