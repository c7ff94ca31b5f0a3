package events

import (
	"hash/maphash"
	"sync"
)

// Bounds of the memory for events that are not stored.
const (
	liveIDs       = 1024 // event_ids per producer, at least; twice that at most
	liveProducers = 256  // likewise
)

// live numbers events that are not stored and detects repetitions. For each producer it has
// two generations: when the present one is full it becomes the previous one. It stores
// hashes with a secret seed: 16 octets an event.
type live struct {
	seed maphash.Seed

	mu            sync.Mutex
	now, previous map[string]*window
	seq           uint64
}

// window has the remembered events of one producer: the hash of each by the
// hash of its id.
type window struct{ now, previous map[uint64]uint64 }

// acceptLive accepts an event that is not stored.
func (b *Bus) acceptLive(producer string, e *entry) error {
	l := &b.live
	id, sum := maphash.Bytes(l.seed, e.record.EventID), maphash.Bytes(l.seed, e.octets())
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.window(producer)
	if known, ok := w.lookup(id); ok {
		if known != sum {
			return errConflict
		}
		return nil
	}
	w.add(id, sum)
	l.seq++
	e.seq = l.seq
	b.tail.append(e)
	return nil
}

func (l *live) window(producer string) *window {
	if w := l.now[producer]; w != nil {
		return w
	}
	if len(l.now) >= liveProducers {
		l.now, l.previous = nil, l.now
	}
	if l.now == nil {
		l.now = make(map[string]*window)
	}
	w := l.previous[producer]
	if w == nil {
		w = new(window)
	}
	l.now[producer] = w
	return w
}

func (w *window) lookup(id uint64) (sum uint64, ok bool) {
	if sum, ok = w.now[id]; !ok {
		sum, ok = w.previous[id]
	}
	return sum, ok
}

func (w *window) add(id, sum uint64) {
	if len(w.now) >= liveIDs {
		w.now, w.previous = nil, w.now
	}
	if w.now == nil {
		w.now = make(map[uint64]uint64)
	}
	w.now[id] = sum
}
