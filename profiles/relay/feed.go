package relay

import (
	"slices"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/store"
)

// feed leases the items of one queue for its seats in turn. It exists while it has a seat.
// It assumes one process: an item that another process stored would wake no seat.
// Guarded by mu of the Service; submitting to the Store under mu is allowed, because that
// never waits.
type feed struct {
	s     *Service
	queue string
	seats []*seat
	turn  int // index of the next seat
	free  int // free places at all seats
	asked int // pending leases
	pace  int // limit of pending leases; grows while the queue has items

	dry      bool // nothing is due
	at       time.Time
	stopWait func() bool // stops the wait for at
	failures int         // consecutive failures of the Store
}

// seat is a consumer of items with a limit of concurrent items.
type seat struct {
	feed   *feed
	free   int         // places
	silent bool        // its last attempt was not answered in time
	give   func(*item) // called with mu held after a place was taken
}

// item is a leased item of a queue.
type item struct {
	queue   string
	id      string
	lease   uint64
	tries   int
	expired bool
	data    []byte    // nil: large; read on demand
	until   time.Time // end of the lease
	refusal *Refusal  // by the partner, if it is to be forwarded
}

// itemOf returns the item of a lease that ends at until.
func itemOf(r store.LeaseResult, until time.Time) *item {
	return &item{queue: r.Queue, id: r.ID, lease: r.Lease, tries: r.Tries, expired: r.Expired, data: r.Data, until: until}
}

const (
	// maxPace limits the pending leases of one queue. They share a commit of the Store.
	maxPace = 64

	// leaseMargin is the time of a lease after the end of an attempt, for storing the
	// outcome.
	leaseMargin = 5 * time.Second
)

// sit adds a seat to a queue. The caller holds mu.
func (s *Service) sit(queue string, places int, give func(*item)) *seat {
	f := s.feeds[queue]
	if f == nil {
		f = &feed{s: s, queue: queue, pace: 1}
		s.feeds[queue] = f
	}
	seat := &seat{feed: f, give: give}
	f.seats = append(f.seats, seat)
	seat.add(places)
	return seat
}

// add frees places. The caller holds mu.
func (t *seat) add(places int) {
	if t.feed == nil {
		return // it was left
	}
	t.free += places
	t.feed.free += places
	t.feed.pump()
}

// leave removes the seat. The caller holds mu.
func (t *seat) leave() {
	f := t.feed
	if f == nil {
		return
	}
	t.feed = nil
	f.free -= t.free
	f.seats = slices.DeleteFunc(f.seats, func(other *seat) bool { return other == t })
	f.tidy()
}

// pump requests as many leases as there are free places. The caller holds mu.
func (f *feed) pump() {
	s := f.s
	for !f.dry && !s.closed && f.asked < min(f.free, f.pace) {
		f.asked++
		s.work.Add(1)
		until := s.opts.Now().Add(s.limits.Load().AckTimeout + leaseMargin)
		s.opts.Store.Lease(space, f.queue, inline, until, func(r store.LeaseResult) {
			defer s.work.Done()
			f.leased(r, until)
		})
	}
}

// leased receives the answer of the Store. A lease in it ends at until.
func (f *feed) leased(r store.LeaseResult, until time.Time) {
	s := f.s
	s.mu.Lock()
	defer s.mu.Unlock()
	f.asked--
	switch {
	case r.Err != nil:
		f.failures++
		f.rest(s.opts.Now().Add(storePauses.After(f.failures)))
	case r.Lease == 0:
		f.failures, f.pace = 0, 1
		f.rest(r.Next)
	default:
		it := itemOf(r, until)
		f.failures, f.pace = 0, min(2*f.pace, maxPace)
		if t := f.next(); t != nil && !s.closed {
			t.free--
			f.free--
			t.give(it)
		} else {
			s.giveBack(it)
		}
	}
	f.pump()
	f.tidy()
}

// next returns the next seat with a free place. A seat that did not answer in time is
// skipped while there is another one, because a delivery could otherwise spend all its
// attempts on a stuck consumer.
func (f *feed) next() *seat {
	for _, silent := range []bool{false, true} {
		for i := range f.seats {
			at := (f.turn + i) % len(f.seats)
			if t := f.seats[at]; t.free > 0 && t.silent == silent {
				f.turn = (at + 1) % len(f.seats)
				return t
			}
		}
	}
	return nil
}

// rest pauses until a time; zero means until the next event. The caller holds mu.
func (f *feed) rest(until time.Time) {
	f.stop()
	f.dry, f.at = true, until
	if until.IsZero() || f.s.closed {
		return
	}
	f.stopWait = f.s.opts.After(max(until.Sub(f.s.opts.Now()), 0), func() {
		f.s.mu.Lock()
		defer f.s.mu.Unlock()
		if f.dry && f.at.Equal(until) {
			f.wake()
		}
	})
}

// wake ends the pause. The caller holds mu.
func (f *feed) wake() {
	f.stop()
	f.dry, f.at = false, time.Time{}
	f.pump()
}

func (f *feed) stop() {
	if f.stopWait != nil {
		f.stopWait()
		f.stopWait = nil
	}
}

// tidy removes a feed without seats. The caller holds mu.
func (f *feed) tidy() {
	if len(f.seats) == 0 && f.asked == 0 {
		f.stop()
		if f.s.feeds[f.queue] == f {
			delete(f.s.feeds, f.queue)
		}
	}
}

// due announces that a queue has an item due at a time; zero means now.
func (s *Service) due(queue string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[queue]
	switch {
	case f == nil:
	case at.IsZero():
		f.wake()
	case f.dry && (f.at.IsZero() || at.Before(f.at)):
		f.rest(at)
	}
}

// storePauses are the pauses before a failed operation of the Store is repeated.
var storePauses = backoff.Exponential{First: 25 * time.Millisecond, Longest: 5 * time.Second}
