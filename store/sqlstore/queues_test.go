package sqlstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// TestST04ItemsOfADamagedStoreAreSaved loses pages of items and of their data.
func TestST04ItemsOfADamagedStoreAreSaved(t *testing.T) {
	files := stopped(t)
	b := bytes.Clone(files["state.db"])
	cleared := 0
	for _, mark := range []string{"value 122 ", "id 122"} {
		for at := 0; ; {
			i := bytes.Index(b[at:], []byte(mark))
			if i < 0 {
				break
			}
			at += i
			page := at / 4096 * 4096
			clear(b[page : page+4096])
			cleared++
			at = page + 4096
		}
	}
	dir := files.with("state.db", b).place(t)
	if _, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir}); !errors.Is(err, store.ErrDamaged) {
		t.Fatalf("Open with %d cleared pages: %v", cleared, err)
	}
	s := open(t, sqlstore.Options{Dir: dir, AcceptDamage: true})
	defer s.Close()
	items := 0
	for q := range 3 {
		err := s.Items(t.Context(), "space", fmt.Sprint("queue ", q), 0, func(_ uint64, id string, _ int, data []byte) bool {
			var i int
			if _, err := fmt.Sscanf(id, "id %d", &i); err != nil || !bytes.Equal(data, value(i)) {
				t.Errorf("item %q has %.20q", id, data)
			}
			items++
			return true
		})
		if err != nil {
			t.Error(err)
		}
	}
	if items == 0 || items == heldItems {
		t.Errorf("%d of %d items were saved", items, heldItems)
	}
	// What was saved can be worked on.
	c := make(chan store.LeaseResult, 1)
	s.Lease("space", "queue 0", 1<<20, time.Now().Add(time.Minute), func(r store.LeaseResult) { c <- r })
	l := <-c
	if l.Err != nil || l.Lease == 0 {
		t.Fatalf("Lease: %+v", l)
	}
	done := make(chan bool, 1)
	s.Ack("space", l.ID, l.Lease, func(held bool, err error) { done <- held && err == nil })
	if !<-done {
		t.Error("an item that was saved cannot be done")
	}
}

// TestADamagedItemHoldsUpNoOthers flips a bit in the data of the first item of a
// queue.
func TestADamagedItemHoldsUpNoOthers(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlstore.Options{Dir: dir})
	for i := range 40 {
		added := make(chan error, 1)
		s.Add("space", "queue", fmt.Sprint(i), "", "owner", value(i), time.Time{}, time.Time{}, func(r store.AddResult) { added <- r.Err })
		if err := <-added; err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close()
	files := take(t, dir)
	b := files["state.db"]
	for at := 0; ; at++ { // old pages hold it, too
		i := bytes.Index(b[at:], value(0))
		if i < 0 {
			break
		}
		at += i
		b[at+10] ^= 1
	}
	s = open(t, sqlstore.Options{Dir: files.place(t)})
	defer s.Close()
	seen := 0
	for {
		c := make(chan store.LeaseResult, 1)
		s.Lease("space", "queue", 1<<20, time.Now().Add(time.Hour), func(r store.LeaseResult) { c <- r })
		l := <-c
		if l.Lease == 0 {
			if !errors.Is(l.Err, store.ErrDamaged) {
				t.Errorf("what is left is answered with %v, want ErrDamaged", l.Err)
			}
			break
		}
		if l.ID == "0" {
			t.Error("the damaged item was served")
		}
		seen++
	}
	if seen != 39 {
		t.Errorf("%d items were served, want 39", seen)
	}
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("Check: %v", err)
	}
}

// The first item is damaged; the second is not read with its lease, because it is large.
func TestADamagedItemHoldsUpNoLargeOne(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlstore.Options{Dir: dir})
	large := bytes.Repeat([]byte("large"), 1000)
	for id, data := range [][]byte{value(0), large} {
		added := make(chan error, 1)
		s.Add("space", "queue", fmt.Sprint(id), "", "owner", data, time.Time{}, time.Time{}, func(r store.AddResult) { added <- r.Err })
		if err := <-added; err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close()
	files := take(t, dir)
	b := files["state.db"]
	for at := bytes.Index(b, value(0)); at >= 0; at = bytes.Index(b, value(0)) {
		b[at+10] ^= 1
	}
	s = open(t, sqlstore.Options{Dir: files.place(t)})
	defer s.Close()
	c := make(chan store.LeaseResult, 1)
	s.Lease("space", "queue", len(large)-1, time.Now().Add(time.Hour), func(r store.LeaseResult) { c <- r })
	if l := <-c; l.ID != "1" || l.Err != nil || l.Data != nil {
		t.Errorf("leased %q with %d octets, %v; want the large item without its data", l.ID, len(l.Data), l.Err)
	}
}

// A queue of up to 64 items is read in its order, a longer one by owners. In one transaction the queue is
// first short, then long, then short again.
func TestAnItemIsLeasedOnceWhileItsQueueBecomesLongAndShort(t *testing.T) {
	s := open(t, sqlstore.Options{Dir: t.TempDir()})
	defer s.Close()
	const short = 64
	until := time.Now().Add(time.Hour)
	add := func(i int, done func()) {
		s.Add("space", "queue", fmt.Sprintf("%03d", i), "", "owner", nil, time.Time{}, until, func(r store.AddResult) {
			if r.Err != nil {
				t.Error(r.Err)
			}
			done()
		})
	}
	var added sync.WaitGroup
	for i := range short {
		added.Add(1)
		add(i, added.Done)
	}
	added.Wait()

	var all sync.WaitGroup
	leases := make(map[string]int)
	lease := func() {
		all.Add(1)
		s.Lease("space", "queue", 1<<10, until, func(r store.LeaseResult) {
			if r.Err != nil || r.Lease == 0 {
				t.Errorf("lease %d, %v", r.Lease, r.Err)
			}
			leases[r.ID]++
			all.Done()
		})
	}
	all.Add(3)
	s.Lease("space", "queue", 1<<10, until, func(first store.LeaseResult) {
		leases[first.ID]++
		lease() // what a done function submits is one transaction
		lease()
		add(short, all.Done)
		lease()
		s.Ack("space", first.ID, first.Lease, func(held bool, err error) {
			if !held || err != nil {
				t.Errorf("Ack: held %v, %v", held, err)
			}
			all.Done()
		})
		lease()
		lease()
		all.Done()
	})
	all.Wait()
	for id, n := range leases {
		if n != 1 {
			t.Errorf("item %s has %d leases", id, n)
		}
	}
	if len(leases) != 6 {
		t.Errorf("%d items are leased, want 6", len(leases))
	}
}

// BenchmarkQueue runs closed loops: each adds an item, takes one and is done with
// it, and waits for the acknowledgement of each step.
func BenchmarkQueue(b *testing.B) {
	for _, level := range []store.Durability{store.Power, store.Process} {
		for _, workers := range []int{1, 64} {
			b.Run(string(level)+"/"+name(workers), func(b *testing.B) {
				s := open(b, sqlstore.Options{Dir: b.TempDir(), Durability: level, Limits: store.Limits{QuotaPerOwner: 1 << 40, Quota: 1 << 40, Remembered: 1 << 40}})
				defer s.Close()
				data := make([]byte, 256)
				expires, keep := time.Now().Add(time.Hour), time.Now().Add(24*time.Hour)
				left := make(chan struct{}, b.N)
				for range b.N {
					left <- struct{}{}
				}
				close(left)
				finished := make(chan error, workers)
				b.ReportAllocs()
				b.ResetTimer()
				for w := range workers {
					queue, ids := fmt.Sprint("queue ", w), newIDs(w)
					var next func()
					next = func() {
						if _, more := <-left; !more {
							finished <- nil
							return
						}
						s.Add("space", queue, ids(), "0123456789abcdef", "spiffe://a.example/publisher", data, expires, keep, func(r store.AddResult) {
							if r.Err != nil {
								finished <- r.Err
								return
							}
							s.Lease("space", queue, 1<<16, expires, func(r store.LeaseResult) {
								s.Ack("space", r.ID, r.Lease, func(_ bool, err error) {
									if err != nil {
										finished <- err
										return
									}
									next()
								})
							})
						})
					}
					next()
				}
				for range workers {
					if err := <-finished; err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
			})
		}
	}
}
