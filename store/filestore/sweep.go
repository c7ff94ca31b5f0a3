package filestore

import (
	"math"
	"time"
)

// sweepEvery is how often the sweeper looks at least: its clock may be another
// one than the timer's.
const sweepEvery = time.Minute

// sweeper removes what is over until the store is closed.
func (s *Store) sweeper() {
	timer := time.NewTimer(sweepEvery)
	defer timer.Stop()
	for {
		select {
		case <-s.gone:
			return
		case <-timer.C:
		}
		s.sweep()
		timer.Reset(sweepEvery)
	}
}

// mark notes when something will be over, 0 for never. The caller holds mu.
func (s *Store) mark(end int64) {
	if end != 0 {
		s.due = min(s.due, end)
	}
}

// sweep removes what is over, and reports whether there was anything. Names that
// somebody works on are left for the next time.
func (s *Store) sweep() bool {
	now := s.clock.now()
	var list []*item
	s.mu.Lock()
	if s.due > now {
		s.mu.Unlock()
		return false
	}
	s.due = math.MaxInt64
	for _, it := range s.items {
		ended := false
		for _, r := range []*record{it.part, it.blob} {
			if r != nil {
				ended = ended || over(r.expires, now)
				s.mark(r.expires)
			}
		}
		if ended && !it.working {
			it.working = true // from here on nobody else works on it
			list = append(list, it)
		}
	}
	s.mu.Unlock()
	for _, it := range list {
		s.expire(it, now)
		s.work.Go(func() { s.workOn(it) }) // jobs that arrived meanwhile
	}
	return len(list) > 0
}

// expire removes what of an item is over. What fails is tried again.
func (s *Store) expire(it *item, now int64) {
	err := s.rewriteRecords(it)
	if err == nil && it.part != nil && over(it.part.expires, now) {
		err = s.discard(it)
	}
	if err == nil && it.blob != nil && over(it.blob.expires, now) {
		err = s.remove(it)
	}
	if err != nil {
		s.notice("%q is over, and cannot be removed now: %v", it.name, err)
	}
}
