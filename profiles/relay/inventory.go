package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// Queues lists the queues of a space of a Store with unfinished items, whose names are greater than after,
// in the order of their octets, until yield returns false.
type Queues interface {
	Queues(ctx context.Context, space, after string, yield func(name string, items int64) bool) error
}

// Line is a queue of deliveries that are not dead.
type Line struct {
	Topic      string // empty: that of a partner
	Partner    string // the deliveries are for topics of this partner
	Deliveries int64
	Consumers  int // attached here, or 1 for a partner that is connected
}

// Lines calls yield with the queues after a place, in the order of places, until yield returns false.
func (s *Service) Lines(ctx context.Context, in Queues, after string, yield func(place string, l *Line) bool) error {
	return in.Queues(ctx, space, after, func(name string, items int64) bool {
		if !live(name) {
			return true
		}
		l := &Line{Deliveries: items}
		if name[0] == kindOnward {
			l.Partner = name[1:]
		} else {
			l.Topic = name[1:]
		}
		s.mu.Lock()
		if f := s.feeds[name]; f != nil {
			l.Consumers = len(f.seats)
		}
		s.mu.Unlock()
		return yield(name, l)
	})
}

// Stored is a delivery in the Store.
type Stored struct {
	Publisher  string // begins with NUL if it is a pseudonym, because a partner has the delivery
	DeliveryID []byte // with the publisher, see Key
	Topic      string
	State      State // Queued, Retry or DeadState
	Leased     bool  // a consumer, a partner or a notice has it now
	Attempts   int
	Taken      time.Time // time of custody
	Size       int       // octets of its payload

	// Fields of a dead delivery.
	Died    time.Time
	Reason  Reason
	Told    bool // its publisher has acknowledged the notice
	Refusal *Refusal
}

// Deliveries calls yield with the deliveries after a place, dead ones or the others, in the order of
// places, until yield returns false.
func (s *Service) Deliveries(ctx context.Context, in Queues, dead bool, after string, yield func(place string, d *Stored) bool) error {
	queue, n := splitSpot(after)
	for more := true; more; {
		if queue == "" || n == lastItem {
			var next string
			err := in.Queues(ctx, space, queue, func(name string, _ int64) bool {
				if live(name) == dead {
					return true
				}
				next = name
				return false
			})
			if err != nil || next == "" {
				return err
			}
			queue, n = next, 0
		}
		type found struct {
			n    uint64
			id   string
			item Stored
		}
		var page []found // because a Store is not to be read while it is
		err := s.opts.Store.Items(ctx, space, queue, n, func(n uint64, id string, tries int, data []byte) bool {
			page = append(page, found{n, id, stored(queue, id, tries, data)})
			return len(page) < pageOfItems
		})
		if err != nil {
			return err
		}
		for _, f := range page {
			_, state, _, err := s.opts.Store.Item(ctx, space, f.id)
			if err != nil {
				return err
			}
			f.item.Leased = state == store.Leased
			if more = yield(spot(queue, f.n), &f.item); !more {
				break
			}
			n = f.n
		}
		if len(page) < pageOfItems {
			n = lastItem
		}
	}
	return nil
}

// pageOfItems is how many deliveries of a queue are read at once.
const pageOfItems = 64

// lastItem is the number after that of all items.
const lastItem = 1<<63 - 1

// spot returns the place of an item of a queue.
func spot(queue string, n uint64) string { return fmt.Sprintf("%016x%s", n, queue) }

// splitSpot is the inverse of spot.
func splitSpot(place string) (queue string, n uint64) {
	if len(place) < 16 {
		return "", 0
	}
	if _, err := fmt.Sscanf(place[:16], "%016x", &n); err != nil {
		return "", 0
	}
	return place[16:], n
}

// stored describes an item of a queue. One that cannot be read has its ids only.
func stored(queue, id string, tries int, data []byte) Stored {
	publisher, deliveryID := splitID(id)
	d := Stored{Publisher: publisher, DeliveryID: []byte(deliveryID), State: Queued, Attempts: tries}
	if tries > 1 {
		d.State = Retry
	}
	if !live(queue) {
		d.State, d.Told = DeadState, queue[0] == kindTold
	}
	if r, err := decodeRecord(data); err == nil {
		d.Topic, d.Taken, d.Size = r.topic, r.taken, max(len(r.payload), r.size)
		if !live(queue) {
			d.Attempts, d.Died, d.Reason, d.Refusal = r.attempts, r.died, r.reason, r.refusal
		}
	}
	return d
}

// Key returns the key of a delivery of a publisher, for Retry, Refuse, Drop and Release.
func Key(publisher string, deliveryID []byte) string { return itemID(publisher, deliveryID) }

// lease leases the delivery with a key for an operator. The error says why it cannot be changed now.
func (s *Service) lease(ctx context.Context, key string) (*item, error) {
	if s.opts.Store == nil {
		return nil, errNoRelay
	}
	queue, state, _, err := s.opts.Store.Item(ctx, space, key)
	switch {
	case err != nil:
		return nil, unavailable(err)
	case queue == "" || state == store.Done:
		return nil, errNothing
	}
	until := s.opts.Now().Add(leaseMargin)
	leased := make(chan store.LeaseResult, 1)
	s.opts.Store.LeaseItem(space, key, inline, until, func(r store.LeaseResult) { leased <- r })
	r := <-leased
	switch {
	case r.Err != nil:
		return nil, unavailable(r.Err)
	case r.Lease == 0:
		return nil, errLeased
	}
	return itemOf(r, until), nil
}

// Why an operator cannot change a delivery.
var (
	errNothing = profiles.Errorf(profiles.NotFound, "relay: there is no such delivery")
	errLeased  = profiles.Errorf(profiles.RateLimitExceeded, "relay: a consumer, a partner or a notice to its publisher has the delivery now; try again later")
	errAlive   = profiles.Errorf(profiles.InvalidProfilePayload, "relay: the delivery is not dead")
	errDead    = profiles.Errorf(profiles.InvalidProfilePayload, "relay: the delivery is dead")
	errGone    = profiles.Errorf(profiles.InvalidProfilePayload, "relay: a partner has the payload of the delivery, so it can be retried only there")
	errLapsed  = errors.New("the lease has ended; try again")
)

// Retry makes the delivery with a key due now. A dead one waits for the consumers of its topic again, without
// attempts and for the time of a new one. It waits for the Store.
func (s *Service) Retry(ctx context.Context, key string) error {
	it, err := s.lease(ctx, key)
	if err != nil {
		return err
	}
	if live(it.queue) {
		s.retry(it, time.Time{}, true) // the lease has not counted a try
		return nil
	}
	r, release, err := s.load(ctx, "", it)
	defer release()
	switch {
	case err != nil:
	case r.size > 0:
		err = errGone
	}
	if err != nil {
		s.retry(it, time.Time{}, true)
		return err
	}
	expires := s.opts.Now().Add(s.limits.Load().Retention)
	if r.bound, r.ttl = "", min(r.ttl, s.limits.Load().Retention); r.ttl > 0 {
		r.bound, expires = TTLExpired, s.opts.Now().Add(r.ttl)
	}
	r.reason, r.attempts, r.died, r.refusal, r.taken = "", 0, time.Time{}, nil, s.opts.Now()
	data := r.append(make([]byte, 0, maxHead+len(r.payload)))
	queue := s.queue([]byte(r.topic))
	if !s.conclude(it, func(done func(bool, error)) { s.opts.Store.Move(space, it.id, it.lease, queue, data, expires, done) }) {
		return unavailable(errLapsed)
	}
	s.expiry.sooner(expires)
	s.due(queue, time.Time{})
	return nil
}

// Refuse makes the delivery with a key dead, with the reason Rejected. Its publisher is told. It waits for the
// Store.
func (s *Service) Refuse(ctx context.Context, key string) error {
	it, err := s.lease(ctx, key)
	if err != nil {
		return err
	}
	if !live(it.queue) {
		s.retry(it, time.Time{}, true)
		return errDead
	}
	if s.bury(it, Rejected) != DeadState {
		return unavailable(errLapsed)
	}
	return nil
}

// Drop removes the dead delivery with a key, whether or not its publisher was told. Its id stays known. It
// waits for the Store.
func (s *Service) Drop(ctx context.Context, key string) error {
	it, err := s.lease(ctx, key)
	if err != nil {
		return err
	}
	if live(it.queue) {
		s.retry(it, time.Time{}, true)
		return errAlive
	}
	if !s.conclude(it, func(done func(bool, error)) { s.opts.Store.Ack(space, it.id, it.lease, done) }) {
		return unavailable(errLapsed)
	}
	return nil
}

// Release ends the attempts to deliver the delivery with a key that its consumers have not answered.
// They count as failed, and an answer that comes later is not accepted. Without attempts it fails. It waits
// for the Store.
func (s *Service) Release(ctx context.Context, key string) error {
	publisher, deliveryID := splitID(key)
	var open []*attempt
	s.mu.Lock()
	for k, list := range s.attempts {
		for _, at := range list {
			if k.deliveryID == deliveryID && at.publisher == publisher && !at.over {
				open = append(open, at)
			}
		}
	}
	s.mu.Unlock()
	stored, ended := make(chan State, len(open)), 0
	for _, at := range open {
		if at.answer(failed, func(state State) { stored <- state }) {
			ended++
		}
	}
	if ended == 0 {
		return profiles.Errorf(profiles.NotFound, "relay: no consumer has the delivery")
	}
	for range ended {
		select {
		case <-stored:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
