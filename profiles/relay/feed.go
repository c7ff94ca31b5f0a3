package relay

import (
	"slices"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/store"
)

// feed leases the items of one queue for those who sit at it, in turn. It exists
// while somebody does. The Service's mu guards it; submitting to the Store under
// it is fine, because that never waits.
type feed struct {
	s     *Service
	queue string
	seats []*seat
	turn  int // of the seat that is looked at first
	free  int // places at all seats
	asked int // leases that are under way
	pace  int // how many may be: more as long as there is something

	dry      bool // nothing is due
	at       time.Time
	stopWait func() bool // of the wait for at
	failures int         // of the Store, in a row
}

// seat is a consumer of items, with a bound on those at once.
type seat struct {
	feed   *feed
	free   int         // places
	silent bool        // its last attempt was not answered in time
	give   func(*item) // is called with mu held, after a place was taken
}

// item is an item of a queue that was leased.
type item struct {
	queue   string
	id      string
	lease   uint64
	tries   int
	expired bool
	data    []byte    // nil: it is large, and read where it is needed
	until   time.Time // when the lease ends
}

// itemOf returns the item of a lease that ends at until.
func itemOf(r store.LeaseResult, until time.Time) *item {
	return &item{queue: r.Queue, id: r.ID, lease: r.Lease, tries: r.Tries, expired: r.Expired, data: r.Data, until: until}
}

const (
	// maxPace is how many leases of one queue are asked for at once. They share a
	// commit of the Store.
	maxPace = 64

	// leaseMargin is how much longer a lease lasts than an attempt, for its outcome
	// to be stored.
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

// add makes places free. The caller holds mu.
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

// pump asks for as many items as there are places for. The caller holds mu.
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

// leased takes the answer of the Store. The lease, if there is one, ends at until.
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

// next returns the seat whose turn it is among those that have a place. One that
// did not answer in time is passed over while there is another: else a delivery
// could spend all its attempts on a consumer that is stuck.
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

// rest waits until a time; zero means until something comes. The caller holds mu.
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

// wake ends a rest. The caller holds mu.
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

// tidy ends a feed that nobody sits at. The caller holds mu.
func (f *feed) tidy() {
	if len(f.seats) == 0 && f.asked == 0 {
		f.stop()
		if f.s.feeds[f.queue] == f {
			delete(f.s.feeds, f.queue)
		}
	}
}

// due says that something will be due in a queue at a time, zero for now.
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

// storePauses are the pauses before a failed operation of the Store is
// repeated.
var storePauses = backoff.Exponential{First: 25 * time.Millisecond, Longest: 5 * time.Second}
