package sqlstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

func TestRS23OperationsOfOneOwnerLeaveRoomToWaitForAnother(t *testing.T) {
	for _, c := range []struct {
		name    string
		options sqlstore.Options
		size    int
	}{
		{"number", sqlstore.Options{QueueLength: 64}, 1},
		{"octets", sqlstore.Options{QueueOctets: 64 << 10}, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Dir = t.TempDir()
			s := open(t, c.options)
			defer func() { _ = s.Close() }()
			written, goOn := make(chan struct{}), make(chan struct{})
			s.Append("space", "log", "first", "", nil, time.Time{}, func(store.AppendResult) { // keeps the writer from the others
				close(written)
				<-goOn
			})
			<-written
			submit := func(owner string, n int) (accepted int, results chan error) {
				results = make(chan error, n)
				before := s.Stats().Queued
				for i := range n {
					s.Append("space", "log", fmt.Sprint(owner, i), owner, make([]byte, c.size), time.Time{}, func(r store.AppendResult) { results <- r.Err })
				}
				return s.Stats().Queued - before, results
			}
			first, refused := submit("mallory", 100)
			if first < 50 || first > 56 {
				t.Errorf("mallory has %d operations of about 64, want at most 56", first)
			}
			if n, _ := submit("mallory for caller", 10); n != 0 {
				t.Errorf("a caller of mallory has %d more", n)
			}
			if n, _ := submit("alice", 5); n != 5 {
				t.Errorf("alice has %d operations, want 5", n)
			}
			if n, _ := submit("", 1); n != 1 {
				t.Error("the endpoint itself has none")
			}
			close(goOn)
			for range 100 {
				if err := <-refused; err != nil && !errors.Is(err, store.ErrBusy) {
					t.Errorf("refused: %v", err)
				}
			}
		})
	}
}

// custody adds items of an owner to a queue until one is refused, at most n.
func custody(s *sqlstore.Store, owner string, n int) (ids []string, err error) {
	for i := range n {
		id := fmt.Sprint(owner, " ", i)
		done := make(chan error, 1)
		s.Add("space", "queue", id, "", owner, []byte("data"), time.Time{}, time.Time{}, func(r store.AddResult) {
			if done <- r.Err; r.Err == nil && !r.Fresh {
				panic("it is known")
			}
		})
		if err = <-done; err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func TestRS23ItemsOfOneOwnerLeaveRoomInAQueueForAnother(t *testing.T) {
	for _, limit := range []string{"of the store", "of the queue"} {
		t.Run(limit, func(t *testing.T) {
			options := sqlstore.Options{Dir: t.TempDir(), Waiting: 16}
			s := open(t, options)
			defer func() { _ = s.Close() }()
			bound := func() {
				if limit == "of the queue" {
					done := make(chan error, 1)
					s.Bound("space", "queue", store.Room{Items: 16, Octets: 1 << 20}, func(err error) { done <- err })
					if err := <-done; err != nil {
						t.Fatal(err)
					}
				}
			}
			bound()
			if ids, err := custody(s, "mallory", 20); len(ids) != 14 || !errors.Is(err, store.ErrQuota) {
				t.Errorf("mallory has %d of 16 items, then %v", len(ids), err)
			}
			if ids, err := custody(s, "mallory for caller", 1); len(ids) > 0 {
				t.Errorf("a caller of mallory has an item more: %v", err)
			}
			_ = s.Close()
			s = open(t, options)
			bound()
			if ids, err := custody(s, "alice", 3); len(ids) != 2 || !errors.Is(err, store.ErrShare) {
				t.Errorf("alice has %d items, then %v", len(ids), err)
			}
			for range 7 {
				leased := make(chan store.LeaseResult, 1)
				s.Lease("space", "queue", 64, time.Now().Add(time.Hour), func(r store.LeaseResult) { leased <- r })
				it := <-leased
				acked := make(chan error, 1)
				s.Ack("space", it.ID, it.Lease, func(_ bool, err error) { acked <- err })
				if err := <-acked; err != nil {
					t.Fatal(err)
				}
			}
			if ids, err := custody(s, "mallory", 20); len(ids) > 0 && err == nil {
				t.Errorf("mallory has %d items more", len(ids))
			}
		})
	}
}

func TestFairnessOfAQueue(t *testing.T) {
	kept := func(flooded bool) (n int) {
		s := open(t, sqlstore.Options{Dir: t.TempDir(), Waiting: 16})
		defer func() { _ = s.Close() }()
		whose := map[string]int{}
		for round := range 40 {
			for _, owner := range []string{"mallory", "mallory", "mallory", "alice"} {
				if owner == "mallory" && !flooded {
					continue
				}
				for i := range 4 {
					done := make(chan store.AddResult, 1)
					s.Add("space", "queue", fmt.Sprint(owner, round, i, whose[owner]), "", owner, nil, time.Time{}, time.Time{}, func(r store.AddResult) { done <- r })
					if r := <-done; r.Fresh {
						whose[owner]++
					}
				}
			}
			if round == 39 {
				break
			}
			leased := make(chan store.LeaseResult, 1)
			s.Lease("space", "queue", 64, time.Now().Add(time.Hour), func(r store.LeaseResult) { leased <- r })
			it := <-leased
			acked := make(chan error, 1)
			s.Ack("space", it.ID, it.Lease, func(_ bool, err error) { acked <- err })
			<-acked
			if len(it.ID) > 0 && it.ID[0] == 'a' {
				whose["alice"]--
			} else {
				whose["mallory"]--
			}
		}
		return whose["alice"]
	}
	fairtest.Row(t, "store: items in a queue", "places of 16", kept(false), kept(true))
}
