//go:build unix

package pgstore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/pgstore"
)

// burst submits operations without waiting for each, and counts those that were not refused.
func burst(t *testing.T, n int, submit func(i int, done func(error))) (accepted int) {
	t.Helper()
	var pending sync.WaitGroup
	for i := range n {
		pending.Add(1)
		submit(i, func(err error) { // one at a time
			defer pending.Done()
			switch {
			case err == nil:
				accepted++
			case !errors.Is(err, store.ErrQuota) && !errors.Is(err, store.ErrShare):
				t.Errorf("operation %d: %v", i, err)
			}
		})
	}
	pending.Wait()
	return accepted
}

func TestLimitsHoldWithinATransaction(t *testing.T) {
	s := open(t, pgstore.Options{DSN: database(t), Limits: store.Limits{QuotaPerOwner: 20_000, Quota: 100_000, Waiting: 10, Remembered: 100}})
	value := make([]byte, 1000)
	puts := func(owner string) int {
		return burst(t, 100, func(i int, done func(error)) {
			s.Put("space", fmt.Sprint(owner, i), 0, owner, value, time.Time{}, func(r store.PutResult) { done(r.Err) })
		})
	}
	if a, b := puts("a"), puts("b"); a != 18 || b != 18 {
		t.Errorf("%d and %d records of 1,000 octets fit 20,000, want 18 each", a, b)
	}
	appends := burst(t, 100, func(_ int, done func(error)) {
		s.Append("space", "log", "", "c", value, time.Time{}, func(r store.AppendResult) { done(r.Err) })
	})
	if appends != 18 {
		t.Errorf("%d entries fit, want 18", appends)
	}
	items := burst(t, 100, func(i int, done func(error)) {
		s.Add("space", "queue", fmt.Sprint(i), "", "d", nil, time.Time{}, time.Time{}, func(r store.AddResult) { done(r.Err) })
	})
	if items != 9 { // an eighth is left for other owners
		t.Errorf("%d items of one owner fit a queue of 10, want 9", items)
	}
	if more := burst(t, 10, func(i int, done func(error)) {
		s.Add("space", "queue", fmt.Sprint("more ", i), "", "e", nil, time.Time{}, time.Time{}, func(r store.AddResult) { done(r.Err) })
	}); more != 1 {
		t.Errorf("%d items of another owner fit, want 1", more)
	}
}

// What callers have stored before their octets were counted together counts.
func TestCallersOfAnEarlierSchemaCountForTheirPeer(t *testing.T) {
	dsn := database(t)
	restore := pgstore.Earlier(2)
	s := open(t, pgstore.Options{DSN: dsn})
	value := make([]byte, 1000)
	puts := func(s *pgstore.Store, owner string, n int) int {
		return burst(t, n, func(i int, done func(error)) {
			s.Put("space", fmt.Sprint(owner, i), 0, owner, value, time.Time{}, func(r store.PutResult) { done(r.Err) })
		})
	}
	if a, b := puts(s, "peer for a", 9), puts(s, "peer", 4); a != 9 || b != 4 {
		t.Fatalf("%d and %d records", a, b)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	restore()
	s = open(t, pgstore.Options{DSN: dsn, Migrate: true, Limits: store.Limits{QuotaPerOwner: 20_000}})
	if n := puts(s, "peer for b", 100); n != 5 {
		t.Errorf("%d records of another caller fit beside 13, want 5", n)
	}
	if n := puts(s, "other", 100); n != 18 {
		t.Errorf("%d records of another peer fit, want 18", n)
	}
}
