package relay

import (
	"context"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/store"
)

// outcome is the outcome of an attempt.
type outcome uint8

const (
	failed     outcome = iota // to be retried
	processed                 // processed by the consumer
	refused                   // refused; a retry is useless
	unanswered                // the consumer has left, or was silent: failed or unmade, see attempt.blame
	unmade                    // was not sent, or it was not its turn
	unread                    // was not sent: the Store cannot read its data, now or permanently
	overdue                   // was not sent: the delivery has expired
	denied                    // was not sent: its publisher may do nothing now
)

// endLease ends the lease of a delivery after an attempt. It waits for the Store, and
// returns the resulting state.
func (s *Service) endLease(it *item, how outcome) State {
	if how == failed || how == refused {
		s.failed.Add(1)
	}
	switch {
	case how == processed:
		if s.conclude(it, func(done func(bool, error)) { s.opts.Store.Ack(space, it.id, it.lease, done) }) {
			s.acked.Add(1)
			return Acked
		}
		return Retry // not stored, or leased again in the meantime
	case how == refused:
		return s.bury(it, Rejected)
	case how == overdue:
		it.tries-- // this attempt was not made
		return s.bury(it, "")
	case how == denied:
		it.tries--
		return s.bury(it, Rejected)
	case how == unmade:
		s.retry(it, time.Time{}, false)
	case how == unread:
		s.retry(it, s.opts.Now().Add(storePauses.Longest), false)
	case it.tries >= s.limits.Load().MaxAttempts:
		return s.bury(it, MaxAttempts)
	case s.ctx.Err() != nil:
		s.retry(it, time.Time{}, true) // the next process continues at once
	default:
		s.retry(it, s.opts.Now().Add(s.backoff(it.tries)), true)
	}
	return Retry
}

// denied reports whether the publisher of a delivery may do nothing now.
func (s *Service) denied(it *item) bool {
	publisher, _ := splitID(it.id)
	return s.opts.Denied != nil && s.opts.Denied(publisher)
}

// retry makes an item due at a time; zero means now. If the Store fails, the lease expires
// by itself.
func (s *Service) retry(it *item, at time.Time, counts bool) {
	if !s.conclude(it, func(done func(bool, error)) { s.opts.Store.Nack(space, it.id, it.lease, at, counts, done) }) {
		at = it.until
	}
	s.due(it.queue, at)
}

// giveBack makes an item due that no consumer could take. The caller holds mu.
func (s *Service) giveBack(it *item) {
	s.work.Add(1)
	s.opts.Store.Nack(space, it.id, it.lease, time.Time{}, false, func(bool, error) {
		s.due(it.queue, time.Time{})
		s.work.Done()
	})
}

// backoff returns the pause after the attempt with a number.
func (s *Service) backoff(attempt int) time.Duration {
	pause := backoff.Exponential{First: s.limits.Load().Backoff, Longest: s.limits.Load().MaxBackoff}.After(attempt - 1)
	return backoff.Extend(pause, s.opts.Jitter)
}

// conclude submits the end of a lease and waits for it. It repeats failed operations of the
// Store while the lease lasts. It reports whether the lease was held.
func (s *Service) conclude(it *item, submit func(done func(held bool, err error))) bool {
	type result struct {
		held bool
		err  error
	}
	done := make(chan result, 1)
	for n := 1; ; n++ {
		submit(func(held bool, err error) { done <- result{held, err} })
		r := <-done
		if r.err == nil {
			return r.held
		}
		if !store.Retryable(r.err) || !s.opts.Now().Before(it.until) || backoff.Wait(s.ctx, storePauses.After(n)) != nil {
			return false
		}
	}
}

// within returns a context that ends after a duration on the clock of the Service.
func (s *Service) within(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(s.ctx)
	stop := s.opts.After(max(d, 0), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// largeSlots limits the separately read items in memory. Each may have 8 MiB. Those who
// receive them share the slots.
const largeSlots = 16

// load returns the stored record of an item for an identity that receives it, "" for this
// endpoint, and a function that releases its memory. release is never nil.
func (s *Service) load(ctx context.Context, to string, it *item) (r *record, release func(), err error) {
	release = func() {}
	data := it.data
	if data == nil {
		if err := s.large.Take(ctx, to); err != nil {
			return nil, release, err
		}
		release = func() { s.large.Give(to) }
		if data, err = s.opts.Store.Data(ctx, space, it.id); err != nil {
			return nil, release, err
		}
	}
	r, err = decodeRecord(data)
	return r, release, err
}
