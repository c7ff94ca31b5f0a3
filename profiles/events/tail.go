package events

import (
	"bytes"
	"sync"
)

// entry is an accepted event. It is immutable.
type entry struct {
	seq    uint64
	record Record // over its own copy of the octets
}

// newEntry copies a validated record into its canonical form.
func newEntry(r *Record) *entry {
	octets := r.append(make([]byte, 0, r.size()))
	e := new(entry)
	_ = e.record.decode(octets) // it was valid
	return e
}

// octets is the record in the form that is stored, compared and delivered.
func (e *entry) octets() []byte { return e.record.octets }

// tail has the newest entries in memory, with consecutive numbers, for subscriptions that
// keep up.
type tail struct {
	maxEntries, maxOctets int

	mu      sync.Mutex
	ring    []*entry // of the last n, the one of number s is at s%len
	last    uint64   // number of the newest entry, or of the last one before there was any
	n       int
	octets  int
	waiters audience
}

// append adds the newest entry and wakes the readers that get it. The oldest entries are
// removed until the bounds hold; the newest always stays.
func (t *tail) append(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var woken []*waiting
	if e.seq == t.last+1 {
		woken = t.waiters.reach(e)
	} else {
		t.drop(t.n) // another writer used the log; readers get the entries in between from there
		woken = t.waiters.all(t.last + 1)
	}
	if t.ring == nil {
		t.ring = make([]*entry, t.maxEntries)
	}
	size := len(e.octets())
	for t.n > 0 && (t.n == t.maxEntries || t.octets+size > t.maxOctets) {
		t.drop(1)
	}
	*t.at(e.seq) = e
	t.last, t.n, t.octets = e.seq, t.n+1, t.octets+size
	if len(woken) > 0 {
		// On a separate goroutine: the caller commits, and there may be many readers.
		go func() {
			for _, w := range woken {
				close(w.arrived)
			}
		}()
	}
}

func (t *tail) at(seq uint64) **entry { return &t.ring[seq%uint64(len(t.ring))] }

// drop forgets the n oldest entries.
func (t *tail) drop(n int) {
	for range n {
		e := t.at(t.last - uint64(t.n) + 1)
		t.octets -= len((*e).octets())
		*e = nil
		t.n--
	}
}

// has reports whether an equal event is among the newest.
func (t *tail) has(e *entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for seq := t.last; seq > t.last-uint64(t.n); seq-- {
		if bytes.Equal((*t.at(seq)).octets(), e.octets()) {
			return true
		}
	}
	return false
}

// read copies the entries after a number to dst. Without any it returns what the next one of
// the group arrives at; behind says that they are older than the entries here.
func (t *tail) read(after uint64, in *group, dst []*entry) (n int, next *waiting, behind bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case after >= t.last:
		return 0, in.wait(), false
	case t.last-after > uint64(t.n):
		return 0, nil, true
	}
	n = min(len(dst), int(t.last-after))
	for i := range n {
		dst[i] = *t.at(after + 1 + uint64(i))
	}
	return n, nil, false
}

// examined is the number up to which no event is for the readers that wait for next.
func (t *tail) examined(next *waiting) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if next.first > 0 {
		return next.first - 1
	}
	return t.last
}

func (t *tail) join(identity string, f *Filter) *group {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiters.join(identity, f)
}

func (t *tail) leave(g *group) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiters.leave(g)
}

// end is the number of the newest entry.
func (t *tail) end() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}
