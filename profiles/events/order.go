package events

import (
	"maps"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
)

// order keeps the events of a producer in order when one is refused for now: the new ones that it has sent after
// that one on the same stream, before it could know, are refused, too. The zero value is ready.
type order struct {
	mu    sync.Mutex
	held  map[source]held // at most maxHeld
	sweep time.Time       // when those whose time has ended are deleted
}

// source is a stream of a producer. A link of a partner carries events of several producers.
type source struct {
	lane     profiles.Lane
	producer string
}

// held is a source of which an event was refused for now.
type held struct {
	id    string    // of the event, with its producer: when it comes again, others can follow
	until time.Time // the end, for a producer that gives the event up
}

// holdTime is how long a source waits for an event that was refused: longer than later events may be on
// its way.
const holdTime = 2 * time.Second

// maxHeld is the number of sources that are held at once. The events of others are not kept in order.
const maxHeld = 4096

var errHeld = profiles.Busy(DetailHeld, "an event that was sent before this one was refused: publish that one again first")

// admits reports whether an event can be stored. known reports whether it was stored before: a producer can begin again
// with events before the one that was refused.
func (o *order) admits(from source, id string, now time.Time, known func() bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	h, ok := o.held[from]
	switch {
	case !ok:
		return true
	case h.id != id && now.Before(h.until):
		return known()
	}
	delete(o.held, from)
	return true
}

// refused notes that an event was refused for now.
func (o *order) refused(from source, id string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if from.lane == nil || now.Before(o.held[from].until) {
		return
	}
	if !now.Before(o.sweep) {
		maps.DeleteFunc(o.held, func(_ source, h held) bool { return !now.Before(h.until) })
		o.sweep = now.Add(holdTime)
	}
	if len(o.held) >= maxHeld {
		return
	}
	if o.held == nil {
		o.held = make(map[source]held)
	}
	o.held[from] = held{id, now.Add(holdTime)}
}
