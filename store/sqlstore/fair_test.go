package sqlstore_test

import (
	"errors"
	"fmt"
	"strings"
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
			options := sqlstore.Options{Dir: t.TempDir(), Limits: store.Limits{Waiting: 16}}
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
		s := open(t, sqlstore.Options{Dir: t.TempDir(), Limits: store.Limits{Waiting: 16}})
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

// occupied opens a store whose writer is busy until goOn is called.
func occupied(t *testing.T, options sqlstore.Options) (s *sqlstore.Store, goOn func()) {
	options.Dir = t.TempDir()
	s = open(t, options)
	t.Cleanup(func() { _ = s.Close() })
	written, on := make(chan struct{}), make(chan struct{})
	s.Append("space", "log", "first", "", nil, time.Time{}, func(store.AppendResult) {
		close(written)
		<-on
	})
	<-written
	return s, func() { close(on) }
}

// batchOperations is the limit of operations in one transaction.
const batchOperations = 1024

func TestRS25ALongBacklogOfWritesIsServedInTurn(t *testing.T) {
	s, goOn := occupied(t, sqlstore.Options{})
	const many = 5 * batchOperations
	done := make(chan string, many+10)
	for i := range many {
		s.Append("space", "log", fmt.Sprint("m", i), "mallory", []byte("data"), time.Time{}, func(store.AppendResult) { done <- "mallory" })
	}
	for i := range 5 {
		s.Append("space", "log", fmt.Sprint("a", i), "alice", []byte("data"), time.Time{}, func(r store.AppendResult) { done <- fmt.Sprint("alice", r.Seq > 0) })
		s.Put("space", fmt.Sprint("key", i), 0, "", []byte("data"), time.Time{}, func(store.PutResult) { done <- "" })
	}
	goOn()
	count := map[string]int{}
	for range batchOperations { // the first transaction
		count[<-done]++
	}
	if count["alicetrue"] != 5 || count[""] != 5 {
		t.Errorf("the first transaction has %v, want all 5 of alice and 5 of the endpoint", count)
	}
}

func TestRS25ABacklogKeepsTheOrderOfOneRecordAndOfOneOwner(t *testing.T) {
	s, goOn := occupied(t, sqlstore.Options{})
	ctx := t.Context()
	var order []string
	told := func(what string) func() { return func() { order = append(order, what) } } // called by the writer only
	for i := range 2 * batchOperations {
		s.Append("space", "flood", fmt.Sprint(i), "mallory", nil, time.Time{}, func(store.AppendResult) {})
	}
	put := func(key, owner, value string) {
		f := told(owner + value)
		s.Put("space", key, 0, owner, []byte(value), time.Time{}, func(store.PutResult) { f() })
	}
	remove := func(key string) {
		f := told("removed")
		s.Delete("space", key, 0, func(bool, error) { f() })
	}
	put("key", "mallory", "1")
	remove("key") // would be earlier, in the turn of the endpoint
	put("key", "alice", "2")
	put("other", "alice", "3")
	s.Append("space", "own log", "id", "mallory", nil, time.Time{}, func(store.AppendResult) {})
	s.Drop("space", "own log", func(error) {})
	goOn()
	if err := s.Check(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // all is written
		t.Fatal(err)
	}
	got := fmt.Sprint(order)
	for _, pair := range [][2]string{{"mallory1", "removed"}, {"removed", "alice2"}} {
		if strings.Index(got, pair[0]) > strings.Index(got, pair[1]) {
			t.Errorf("%q comes after %q in %s", pair[0], pair[1], got)
		}
	}
}

func TestFairnessOfTheWriter(t *testing.T) {
	written := func(flooded bool) (n int) {
		s, goOn := occupied(t, sqlstore.Options{})
		done := make(chan bool, 8*batchOperations)
		write := func(owner string, many int) {
			for i := range many {
				s.Append("space", "log", fmt.Sprint(owner, i), owner, nil, time.Time{}, func(store.AppendResult) { done <- owner == "alice" })
			}
		}
		if flooded {
			write("mallory", 4*batchOperations)
		}
		write("alice", 2*batchOperations)
		goOn()
		for range batchOperations {
			if <-done {
				n++
			}
		}
		return n
	}
	fairtest.Row(t, "store: writes in a backlog", "operations of 1,024", written(false), written(true))
}

// leaseAll leases items of a queue and returns their owners.
func leaseAll(t *testing.T, s *sqlstore.Store, n int) (owners []string, held []store.LeaseResult) {
	t.Helper()
	for range n {
		leased := make(chan store.LeaseResult, 1)
		s.Lease("space", "queue", 64, time.Now().Add(time.Hour), func(r store.LeaseResult) { leased <- r })
		it := <-leased
		if it.Err != nil {
			t.Fatal(it.Err)
		}
		owner, _, _ := strings.Cut(it.ID, " ")
		owners, held = append(owners, owner), append(held, it)
	}
	return owners, held
}

func TestRS25ALongQueueIsServedInTurnByOwner(t *testing.T) {
	options := sqlstore.Options{Dir: t.TempDir()}
	s := open(t, options)
	defer func() { _ = s.Close() }()
	fill := func(owner string, n int) {
		t.Helper()
		if ids, err := custody(s, owner, n); len(ids) != n {
			t.Fatalf("%s has %d items: %v", owner, len(ids), err)
		}
	}
	fill("mallory", 200)
	fill("alice", 3)
	owners, held := leaseAll(t, s, 6)
	if n := strings.Count(fmt.Sprint(owners), "alice"); n != 3 {
		t.Errorf("%d of 6 leases are alice's: %q", n, owners)
	}
	ended := make(chan bool, 1)
	for _, it := range held {
		if it.ID == "alice 0" {
			s.Nack("space", it.ID, it.Lease, time.Time{}, true, func(held bool, _ error) { ended <- held })
			if !<-ended {
				t.Error("the lease of alice 0 was not held")
			}
		}
	}
	if _, held := leaseAll(t, s, 2); held[0].ID != "alice 0" && held[1].ID != "alice 0" {
		t.Errorf("what is due again is not in turn: %q, %q", held[0].ID, held[1].ID)
	}
	_ = s.Close()
	s = open(t, options)
	fill("bob", 2)
	owners, _ = leaseAll(t, s, 4)
	if n := strings.Count(fmt.Sprint(owners), "bob"); n != 2 {
		t.Errorf("after a restart %d of 4 leases are bob's: %q", n, owners)
	}
	if _, held := leaseAll(t, s, 1); held[0].ID == "" {
		t.Error("nothing of mallory is due")
	}
	owners, _ = leaseAll(t, s, 190) // until nothing is due
	if n := strings.Count(fmt.Sprint(owners), "mallory"); n < 180 {
		t.Errorf("%d further leases are mallory's", n)
	}
	if owners, _ := leaseAll(t, s, 10); owners[9] != "" {
		t.Errorf("leased twice: %q", owners)
	}
}

func TestFairnessOfALongQueue(t *testing.T) {
	leased := func(flooded bool) (n int) {
		s := open(t, sqlstore.Options{Dir: t.TempDir()})
		defer func() { _ = s.Close() }()
		for _, owner := range []string{"mallory", "alice"} {
			if owner == "mallory" && !flooded {
				continue
			}
			if ids, err := custody(s, owner, 100); len(ids) != 100 {
				t.Fatal(err)
			}
		}
		owners, _ := leaseAll(t, s, 20)
		return strings.Count(fmt.Sprint(owners), "alice")
	}
	fairtest.Row(t, "store: leases of a long queue", "leases of 20", leased(false), leased(true))
}

// kept puts records of an owner until one is refused, and returns how many are kept.
func kept(s *sqlstore.Store, owner string, size int) (n int, err error) {
	for {
		done := make(chan store.PutResult, 1)
		s.Put("space", fmt.Sprint(owner, n), 0, owner, make([]byte, size), time.Time{}, func(r store.PutResult) { done <- r })
		if r := <-done; r.Err != nil {
			return n, r.Err
		}
		n++
	}
}

func TestRS26OwnersShareTheQuota(t *testing.T) {
	const record = 1000 // with its name and overhead
	options := sqlstore.Options{Dir: t.TempDir(), Limits: store.Limits{Quota: 80 * record, QuotaPerOwner: 80 * record}}
	put := func(s *sqlstore.Store, owner string) (int, error) {
		return kept(s, owner, record-sqlstore.Overhead-len("space")-len(owner)-3)
	}
	s := open(t, options)
	if n, err := put(s, "mallory"); n < 70 || n > 71 || !errors.Is(err, store.ErrQuota) {
		t.Errorf("mallory has %d records of 80, then %v", n, err)
	}
	if n, err := put(s, "mallory for caller"); n > 0 || !errors.Is(err, store.ErrShare) {
		t.Errorf("a caller of mallory has %d more, then %v", n, err)
	}
	_ = s.Close()
	s = open(t, options)
	defer func() { _ = s.Close() }()
	if n, err := put(s, "alice"); n < 8 || n > 10 || !errors.Is(err, store.ErrShare) {
		t.Errorf("alice has %d records, then %v", n, err)
	}
	if n, err := put(s, ""); n > 2 || !errors.Is(err, store.ErrQuota) {
		t.Errorf("the endpoint itself has %d records, then %v", n, err)
	}
	deleted := make(chan error, 1)
	for i := range 45 {
		s.Delete("space", fmt.Sprint("mallory", i), 0, func(_ bool, err error) { deleted <- err })
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for i := range 60 { // alice's share is 35
		done := make(chan store.PutResult, 1)
		s.Put("space", fmt.Sprint("more", i), 0, "alice", make([]byte, 900), time.Time{}, func(r store.PutResult) { done <- r })
		if r := <-done; r.Err == nil {
			n++
		}
	}
	if n < 25 {
		t.Errorf("alice has only %d records more when mallory has 25", n)
	}
}

func TestFairnessOfTheQuota(t *testing.T) {
	got := func(flooded bool) (n int) {
		s := open(t, sqlstore.Options{Dir: t.TempDir(), Limits: store.Limits{Quota: 64_000, QuotaPerOwner: 64_000}})
		defer func() { _ = s.Close() }()
		whose := map[string]int{}
		for round := range 100 {
			for _, owner := range []string{"mallory", "mallory", "mallory", "alice"} {
				if owner == "mallory" && !flooded {
					continue
				}
				for range 2 {
					done := make(chan store.PutResult, 1)
					s.Put("space", fmt.Sprintf("%s %03d", owner, whose[owner]), 0, owner, make([]byte, 900), time.Time{}, func(r store.PutResult) { done <- r })
					if r := <-done; r.Err == nil && r.Wrote {
						whose[owner]++
					}
				}
			}
			// The one with most deletes one: data goes as time passes.
			most := "alice"
			if whose["mallory"] > whose["alice"] {
				most = "mallory"
			}
			if round == 99 {
				break
			}
			whose[most]--
			done := make(chan error, 1)
			s.Delete("space", fmt.Sprintf("%s %03d", most, whose[most]), 0, func(_ bool, err error) { done <- err })
			<-done
		}
		return whose["alice"]
	}
	fairtest.Row(t, "store: octets of the quota", "records", got(false), got(true))
}

func TestRS26RememberedIdsOfOneOwnerLeaveRoomForAnother(t *testing.T) {
	options := sqlstore.Options{Dir: t.TempDir(), Limits: store.Limits{Remembered: 16}}
	s := open(t, options)
	defer func() { _ = s.Close() }()
	done := func(owner string, i int) error {
		added := make(chan error, 1)
		s.Add("space", "queue", fmt.Sprint(owner, " ", i), "", owner, nil, time.Time{}, time.Now().Add(time.Hour), func(r store.AddResult) { added <- r.Err })
		if err := <-added; err != nil {
			return err
		}
		_, held := leaseAll(t, s, 1)
		s.Ack("space", held[0].ID, held[0].Lease, func(_ bool, err error) { added <- err })
		return <-added
	}
	count := func(owner string) (n int, err error) {
		for n < 20 && err == nil {
			if err = done(owner, n); err == nil {
				n++
			}
		}
		return n, err
	}
	if n, err := count("mallory"); n != 14 || !errors.Is(err, store.ErrQuota) {
		t.Errorf("%d ids of mallory are remembered, then %v", n, err)
	}
	_ = s.Close()
	s = open(t, options)
	if n, err := count("alice"); n != 2 || !errors.Is(err, store.ErrShare) {
		t.Errorf("%d ids of alice are remembered, then %v", n, err)
	}
}
