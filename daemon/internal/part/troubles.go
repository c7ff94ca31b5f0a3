package part

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/daemon/boundlog"
)

// freshTrouble is how long trouble with something behind this endpoint is worth
// a warning. It is used on demand, so nothing but the next use can tell that all
// is well again.
const freshTrouble = time.Minute

// Troubles are how things behind this endpoint failed last, by their names from
// the configuration. The zero value is ready.
type Troubles struct {
	mu    sync.Mutex
	last  map[string]trouble
	known map[string]bool // names that are kept; nil: all
}

type trouble struct {
	text string
	when time.Time
}

// Note takes note of trouble with something, unless its name is not kept.
func (t *Troubles) Note(name, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known != nil && !t.known[name] {
		return
	}
	if t.last == nil {
		t.last = make(map[string]trouble)
	}
	t.last[name] = trouble{boundlog.Clean(text), time.Now()}
}

// Only forgets all names but some, for good.
func (t *Troubles) Only(names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = make(map[string]bool, len(names))
	for _, name := range names {
		t.known[name] = true
	}
	maps.DeleteFunc(t.last, func(name string, _ trouble) bool { return !t.known[name] })
}

// Warnings says what had trouble of late, each line beginning with kind.
func (t *Troubles) Warnings(kind string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(t.last)) {
		if t := t.last[name]; time.Since(t.when) < freshTrouble {
			list = append(list, kind+" "+name+": "+t.text)
		}
	}
	return list
}
