package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/store"
)

// modelItem is an item in the model.
type modelItem struct {
	id, queue, data string
	n               int // order of arrival
	done, leased    bool
	lease           uint64
	tries           int
	due             time.Time
	expires, keep   time.Time
}

// modelQueues performs random operations on a store and on a model, and compares the
// answers.
func modelQueues(k *kit) {
	steps := effort.Rounds(1500)
	seed := rand.Uint64()               //nolint:gosec // no secret
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
	defer func() {
		if k.Failed() {
			k.Logf("seed %d", seed)
		}
	}()
	items := make(map[string]*modelItem)
	arrived := 0
	names := []string{"a", "b", "c"}
	minutes := func() time.Time { return k.in(time.Duration(r.IntN(10)) * time.Minute) }
	known := func(id string) *modelItem {
		it := items[id]
		if it != nil && it.done && !it.keep.After(k.clock()) {
			delete(items, id)
			return nil
		}
		return it
	}
	arrive := func(it *modelItem, queue, data string, expires time.Time) {
		arrived++
		it.n, it.queue, it.data, it.expires = arrived, queue, data, expires
		it.due, it.leased, it.tries = k.clock(), false, 0
	}
	expired := func(it *modelItem) bool { return !it.expires.IsZero() && !it.expires.After(k.clock()) }
	first := func(of func(*modelItem) bool, order func(a, b *modelItem) int) *modelItem {
		var found *modelItem
		for _, it := range items {
			if !it.done && of(it) && (found == nil || order(it, found) < 0) {
				found = it
			}
		}
		return found
	}
	for step := range steps {
		k.pass(time.Duration(r.IntN(60)) * time.Second)
		id, queue := fmt.Sprint(r.IntN(20)), names[r.IntN(len(names))]
		it := known(id)
		what := fmt.Sprintf("step %d, item %s, queue %s", step, id, queue)
		switch r.IntN(11) {
		case 10:
			until := minutes().Add(time.Second)
			l := k.leaseItem(id, until)
			if it == nil || it.done || it.leased && it.due.After(k.clock()) {
				k.wantSame(what+": LeaseItem", store.LeaseResult{}, l)
				continue
			}
			if l.ID != id || l.Lease == 0 || l.Queue != it.queue || l.Tries != it.tries || string(l.Data) != it.data || l.Expired != expired(it) {
				k.Fatalf("%s: LeaseItem = %+v, want %+v", what, l, it)
			}
			it.lease, it.leased, it.due = l.Lease, true, until
		case 0, 1, 2:
			var expires time.Time
			if r.IntN(2) == 0 {
				expires = minutes().Add(time.Second)
			}
			data, keep := fmt.Sprint("data ", step), minutes()
			a := k.add(queue, id, "mark", "owner", data, expires, keep)
			k.wantSame(what+": Add", store.AddResult{Fresh: it == nil, Equal: it != nil}, a)
			if it == nil {
				it = &modelItem{id: id, keep: keep}
				items[id] = it
				arrive(it, queue, data, expires)
			}
		case 3, 4, 5:
			until := minutes().Add(time.Second)
			l := k.lease(queue, until)
			want := first(func(it *modelItem) bool { return it.queue == queue && !it.due.After(k.clock()) },
				func(a, b *modelItem) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.n, b.n)) })
			if want == nil {
				if l.Lease != 0 || l.Err != nil {
					k.Fatalf("%s: Lease = %+v, want nothing", what, l)
				}
				continue
			}
			want.tries++
			if l.ID != want.id || l.Tries != want.tries || string(l.Data) != want.data || l.Expired != expired(want) {
				k.Fatalf("%s: Lease = %+v, want %+v", what, l, want)
			}
			want.lease, want.leased, want.due = l.Lease, true, until
		case 6:
			until := minutes().Add(time.Second)
			l := k.leaseExpired(until)
			if l.Lease == 0 {
				if it := first(func(it *modelItem) bool { return expired(it) && (!it.leased || !it.due.After(k.clock())) }, byExpiry); it != nil {
					k.Fatalf("%s: LeaseExpired = %+v, want %+v", what, l, it)
				}
				continue
			}
			want := items[l.ID]
			if want == nil || want.done || !expired(want) || want.leased && want.due.After(k.clock()) || l.Tries != want.tries || l.Queue != want.queue {
				k.Fatalf("%s: LeaseExpired = %+v, which is %+v", what, l, want)
			}
			want.lease, want.leased, want.due = l.Lease, true, until
		case 7, 8, 9:
			if it == nil {
				continue
			}
			lease := it.lease
			if r.IntN(5) == 0 {
				lease += uint64(r.IntN(3))
			}
			want := !it.done && it.leased && lease == it.lease && lease != 0
			switch r.IntN(3) {
			case 0:
				k.wantSame(what+": Ack", want, k.ack(id, lease))
				if want {
					it.done, it.leased, it.data = true, false, ""
				}
			case 1:
				due, counts := minutes(), r.IntN(2) == 0
				k.wantSame(what+": Nack", want, k.nack(id, lease, due, counts))
				if want {
					it.leased, it.due = false, due
					if !counts && it.tries > 0 {
						it.tries--
					}
				}
			case 2:
				data := fmt.Sprint("moved ", step)
				k.wantSame(what+": Move", want, k.move(id, lease, queue, data, never))
				if want {
					arrive(it, queue, data, never)
				}
			}
		}
		if step%100 == 99 && !k.memory {
			k.reopen()
		}
		for _, it := range items {
			if it = known(it.id); it == nil {
				continue
			}
			state := store.Waiting
			switch {
			case it.done:
				state = store.Done
			case it.leased && it.due.After(k.clock()):
				state = store.Leased
			}
			k.wantItem(it.id, it.queue, state, it.tries)
		}
		var want []string
		for _, it := range items {
			if it.queue == queue && !it.done {
				want = append(want, it.id)
			}
		}
		slices.SortFunc(want, func(a, b string) int { return cmp.Compare(items[a].n, items[b].n) })
		got, _ := k.items(queue, 0)
		k.wantSame(what+": Items", want, got)
	}
}

func byExpiry(a, b *modelItem) int { return a.expires.Compare(b.expires) }
