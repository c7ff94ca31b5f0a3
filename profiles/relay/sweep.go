package relay

import (
	"strings"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/store"
)

// sweeper makes the waiting deliveries of denied publishers dead. Those that a consumer or a
// partner has are dead when they return, see endLease.
type sweeper struct {
	s     *Service
	alarm chan struct{} // one slot; filled when a publisher may have been denied
}

const (
	sweepPage   = 256 // ids that are read at once
	maxSweeping = 64  // deliveries that are made dead at once; they share commits of the Store
)

// review is called after a change of the access rules.
func (s *Service) review() {
	if s.sweeper.s == nil {
		return
	}
	select {
	case s.sweeper.alarm <- struct{}{}:
	default:
	}
}

// run works until the Service is closed.
func (w *sweeper) run() {
	for {
		select {
		case <-w.s.ctx.Done():
			return
		case <-w.alarm:
		}
		for n := 1; w.sweep() != nil; n++ {
			if backoff.Wait(w.s.ctx, storePauses.After(n)) != nil {
				return
			}
		}
	}
}

// sweep looks at one delivery of each publisher, and at all of those that are denied: their
// ids begin with the publisher.
func (w *sweeper) sweep() error {
	s := w.s
	places := make(chan struct{}, maxSweeping)
	var work sync.WaitGroup
	defer work.Wait()
	for after, most := "", 1; ; {
		ids, err := s.opts.Store.IDs(s.ctx, space, after, most)
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			publisher, _ := splitID(id)
			if !s.opts.Denied(publisher) {
				after, most = max(id, lastID(publisher)), 1
				break
			}
			after, most = id, sweepPage
			select {
			case places <- struct{}{}:
			case <-s.ctx.Done():
				return s.ctx.Err()
			}
			work.Go(func() {
				w.end(id)
				<-places
			})
		}
	}
}

// lastID is not below any id of a publisher, and below those of publishers that follow.
func lastID(publisher string) string {
	first := itemID(publisher, "")
	return first + strings.Repeat("\xff", max(0, maxKey-len(first)))
}

// end makes a delivery dead if it waits. After a failure of the Store it waits for its turn.
func (w *sweeper) end(id string) {
	s := w.s
	if queue, state, _, err := s.opts.Store.Item(s.ctx, space, id); err != nil || state != store.Waiting || !live(queue) {
		return
	}
	until := s.opts.Now().Add(leaseMargin)
	leased := make(chan store.LeaseResult, 1)
	s.opts.Store.LeaseItem(space, id, inline, until, func(r store.LeaseResult) { leased <- r })
	r := <-leased
	if r.Lease == 0 { // taken or ended since
		return
	}
	it := itemOf(r, until)
	if !live(it.queue) || !s.denied(it) {
		s.retry(it, time.Time{}, true) // LeaseItem has not counted a try
		return
	}
	s.bury(it, Rejected)
}
