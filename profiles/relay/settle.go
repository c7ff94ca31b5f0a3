package relay

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/slimwire/swp/internal/backoff"
)

// outcome is how an attempt has ended.
type outcome uint8

const (
	failed    outcome = iota // worth another attempt
	processed                // by the consumer
	refused                  // another attempt is of no use
	unmade                   // it was never sent
	unread                   // nor could it be: the Store has not got its data, now or for good
	overdue                  // nor will it be: the time of the delivery is over
)

// endLease ends the lease of a delivery as its attempt has ended. It waits for the
// Store, and returns how the delivery stands then.
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
		return Retry // it could not be stored, or is somebody else's by now
	case how == refused:
		return s.bury(it, Rejected)
	case how == overdue:
		it.tries-- // this one was not made
		return s.bury(it, "")
	case how == unmade:
		s.retry(it, time.Time{}, false)
	case how == unread:
		s.retry(it, s.opts.Now().Add(storePauses.Longest), false)
	case it.tries >= s.limits.Load().MaxAttempts:
		return s.bury(it, MaxAttempts)
	case s.ctx.Err() != nil:
		s.retry(it, time.Time{}, true) // whoever opens the Store next goes on at once
	default:
		s.retry(it, s.opts.Now().Add(s.backoff(it.tries)), true)
	}
	return Retry
}

// retry makes an item due at a time, zero for now. If the Store cannot, the lease
// ends by itself.
func (s *Service) retry(it *item, at time.Time, counts bool) {
	if !s.conclude(it, func(done func(bool, error)) { s.opts.Store.Nack(space, it.id, it.lease, at, counts, done) }) {
		at = it.until
	}
	s.due(it.queue, at)
}

// giveBack makes an item due that nobody could take. The caller holds mu.
func (s *Service) giveBack(it *item) {
	s.work.Add(1)
	s.opts.Store.Nack(space, it.id, it.lease, time.Time{}, false, func(bool, error) {
		s.due(it.queue, time.Time{})
		s.work.Done()
	})
}

// backoff is the pause after the attempt of a number.
func (s *Service) backoff(attempt int) time.Duration {
	pause := backoff.Exponential{First: s.limits.Load().Backoff, Longest: s.limits.Load().MaxBackoff}.After(attempt - 1)
	if s.opts.Jitter > 0 {
		pause += time.Duration(rand.Float64() * s.opts.Jitter * float64(pause)) //nolint:gosec // no secret
	}
	return pause
}

// conclude submits the end of a lease and waits for it. A failed operation of
// the Store is repeated while the lease lasts. It returns whether the lease was
// held.
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
		if !passing(r.err) || !s.opts.Now().Before(it.until) || backoff.Wait(s.ctx, storePauses.After(n)) != nil {
			return false
		}
	}
}

// within returns a context that ends when a time has passed, on the clock of the
// Service.
func (s *Service) within(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(s.ctx)
	stop := s.opts.After(max(d, 0), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// passing reports whether an operation of the Store that failed is worth another
// try.
func passing(err error) bool {
	var kind interface{ Retryable() bool }
	return errors.As(err, &kind) && kind.Retryable()
}

// largeSlots is how many items are held at once that were read by themselves. Each
// may have 8 MiB.
const largeSlots = 16

// load returns what is stored of an item, and a function that gives up the memory
// it takes. release is never nil.
func (s *Service) load(ctx context.Context, it *item) (r *record, release func(), err error) {
	release = func() {}
	data := it.data
	if data == nil {
		select {
		case s.large <- struct{}{}:
			release = func() { <-s.large }
		case <-ctx.Done():
			return nil, release, ctx.Err()
		}
		if data, err = s.opts.Store.Data(ctx, space, it.id); err != nil {
			return nil, release, err
		}
	}
	r, err = decodeRecord(data)
	return r, release, err
}
