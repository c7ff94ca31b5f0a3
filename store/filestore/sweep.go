package filestore

import (
	"math"
	"time"

	"github.com/slimwire/swp/store/internal/clock"
)

// sweepEvery is the longest pause of the sweeper. The clock of the store may run
// differently from the clock of the timer.
const sweepEvery = time.Minute

// sweeper removes expired parts and blobs until the store is closed.
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

// mark records an expiry for the sweeper; 0 means never. The caller holds mu.
func (s *Store) mark(end int64) {
	if end != 0 {
		s.due = min(s.due, end)
	}
}

// sweep removes expired parts and blobs, after a sweep that is under way. It skips names that
// an operation works on until the next sweep.
func (s *Store) sweep() {
	s.sweeps.Lock()
	defer s.sweeps.Unlock()
	now := s.clock.Now()
	var ended []string
	s.mu.Lock()
	if s.due > now {
		s.mu.Unlock()
		return
	}
	s.due = math.MaxInt64
	for _, it := range s.items {
		over := false
		for _, r := range []*record{it.part, it.blob} {
			if r != nil {
				over = over || clock.Expired(r.expires, now)
				s.mark(r.expires)
			}
		}
		if over {
			ended = append(ended, it.name)
		}
	}
	s.mu.Unlock()
	for _, name := range ended {
		release, ok := s.lines.Claim(name)
		if !ok {
			continue
		}
		s.mu.Lock()
		it := s.items[name]
		s.mu.Unlock()
		if it != nil {
			s.expire(it, now)
		}
		release()
	}
}

// expire removes the expired part and blob of an item. A failed removal is repeated later.
func (s *Store) expire(it *item, now int64) {
	err := s.rewriteRecords(it)
	if err == nil && it.part != nil && clock.Expired(it.part.expires, now) {
		err = s.discard(it)
	}
	if err == nil && it.blob != nil && clock.Expired(it.blob.expires, now) {
		err = s.remove(it)
	}
	if err != nil {
		s.notice("%q is over, and cannot be removed now: %v", it.name, err)
	}
}
