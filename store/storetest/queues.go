package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/store"
)

func (k *kit) add(queue, id, mark, owner, data string, expires, keep time.Time) store.AddResult {
	k.Helper()
	c := make(chan store.AddResult, 1)
	k.Add("space", queue, id, mark, owner, []byte(data), expires, keep, func(r store.AddResult) { c <- r })
	return wait(k, c)
}

// mustAdd adds a new item that is to be remembered for a day.
func (k *kit) mustAdd(queue, id, data string, expires time.Time) {
	k.Helper()
	if a := k.add(queue, id, "mark", "owner", data, expires, k.in(day)); a != (store.AddResult{Fresh: true}) {
		k.Fatalf("Add(%q, %q) = %+v, want a fresh one", queue, id, a)
	}
}

const (
	day    = 24 * time.Hour
	inline = 100 // most octets of data in a LeaseResult
)

func (k *kit) lease(queue string, until time.Time) store.LeaseResult {
	k.Helper()
	c := make(chan store.LeaseResult, 1)
	k.Lease("space", queue, inline, until, func(r store.LeaseResult) { c <- r })
	return wait(k, c)
}

func (k *kit) leaseExpired(until time.Time) store.LeaseResult {
	k.Helper()
	c := make(chan store.LeaseResult, 1)
	k.LeaseExpired("space", inline, until, func(r store.LeaseResult) { c <- r })
	return wait(k, c)
}

func (k *kit) leaseItem(id string, until time.Time) store.LeaseResult {
	k.Helper()
	c := make(chan store.LeaseResult, 1)
	k.LeaseItem("space", id, inline, until, func(r store.LeaseResult) { c <- r })
	return wait(k, c)
}

// ids lists all ids by pages.
func (k *kit) ids(most int) (all []string) {
	k.Helper()
	for after := ""; ; after = all[len(all)-1] {
		page, err := k.IDs(k.Context(), "space", after, most)
		if err != nil || len(page) > most {
			k.Fatalf("IDs after %q: %q, %v", after, page, err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}

// mustLease expects an item to be due and leases it for a minute.
func (k *kit) mustLease(queue, id string, tries int) uint64 {
	k.Helper()
	l := k.lease(queue, k.in(time.Minute))
	if l.Err != nil || l.Lease == 0 || l.ID != id || l.Tries != tries {
		k.Fatalf("Lease(%q) = %+v, want %q, taken for the %d. time", queue, l, id, tries)
	}
	return l.Lease
}

// nothingDue expects that no item is due before next; zero means never.
func (k *kit) nothingDue(queue string, next time.Time) {
	k.Helper()
	l := k.lease(queue, k.in(time.Minute))
	if l.Err != nil || l.Lease != 0 || !l.Next.Equal(next) {
		k.Errorf("Lease(%q) = %+v, want nothing until %v", queue, l, next)
	}
}

// settled submits the end of a lease and returns held.
func (k *kit) settled(submit func(done func(bool, error))) bool {
	k.Helper()
	c := make(chan did, 1)
	submit(func(held bool, err error) { c <- did{held, err} })
	p := wait(k, c)
	if p.err != nil {
		k.Fatal(p.err)
	}
	return p.ok
}

func (k *kit) ack(id string, lease uint64) bool {
	k.Helper()
	return k.settled(func(done func(bool, error)) { k.Ack("space", id, lease, done) })
}

func (k *kit) nack(id string, lease uint64, due time.Time, counts bool) bool {
	k.Helper()
	return k.settled(func(done func(bool, error)) { k.Nack("space", id, lease, due, counts, done) })
}

func (k *kit) move(id string, lease uint64, queue, data string, expires time.Time) bool {
	k.Helper()
	return k.settled(func(done func(bool, error)) { k.Move("space", id, lease, queue, []byte(data), expires, done) })
}

func (k *kit) wantItem(id, queue, state string, tries int) {
	k.Helper()
	q, s, n, err := k.Item(k.Context(), "space", id)
	if err != nil || q != queue || s != state || n != tries {
		k.Errorf("Item(%q) = %q, %q, %d, %v, want %q, %q, %d", id, q, s, n, err, queue, state, tries)
	}
}

// bound gives a queue its own limit.
func (k *kit) bound(queue string, most store.Room) {
	k.Helper()
	c := make(chan error, 1)
	k.Bound("space", queue, most, func(err error) { c <- err })
	if err := wait(k, c); err != nil {
		k.Fatal(err)
	}
}

func (k *kit) wantHeld(queue string, want store.Room) {
	k.Helper()
	if got := k.Holds("space", queue); got != want {
		k.Errorf("Holds(%q) = %+v, want %+v", queue, got, want)
	}
}

func (k *kit) items(queue string, after uint64) (ids []string, last uint64) {
	k.Helper()
	err := k.Items(k.Context(), "space", queue, after, func(n uint64, id string, _ int, data []byte) bool {
		if n <= last || data == nil {
			k.Errorf("Items: number %d after %d, %d octets", n, last, len(data))
		}
		ids, last = append(ids, id), n
		return true
	})
	if err != nil {
		k.Fatal(err)
	}
	return ids, last
}

var queues = []test{
	{name: "ItemsAreTakenByTheirIDs", clock: true, run: func(k *kit) {
		k.mustAdd("a", "2", "two", never)
		k.mustAdd("b", "1", "one", k.in(time.Minute))
		k.mustAdd("a", "3", "three", never)
		k.Add("other", "a", "9", "mark", "owner", []byte("nine"), never, never, func(store.AddResult) {})
		k.wantSame("IDs", []string{"1", "2", "3"}, k.ids(2))
		k.nack("2", k.mustLease("a", "2", 1), k.in(time.Hour), true)
		k.pass(time.Minute)
		until := k.in(time.Minute)
		for _, want := range []store.LeaseResult{
			{ID: "1", Queue: "b", Data: []byte("one"), Expired: true}, {ID: "2", Queue: "a", Data: []byte("two"), Tries: 1},
		} {
			l := k.leaseItem(want.ID, until)
			if want.Lease = l.Lease; l.Lease == 0 {
				k.Fatalf("LeaseItem(%q) = %+v", want.ID, l)
			}
			k.wantSame("LeaseItem", want, l)
			k.wantItem(want.ID, want.Queue, store.Leased, want.Tries)
			k.wantSame("LeaseItem of a leased item", store.LeaseResult{}, k.leaseItem(want.ID, until))
		}
		k.mustLease("a", "3", 1)
		k.wantSame("LeaseItem of an unknown item", store.LeaseResult{}, k.leaseItem("4", until))
		k.pass(time.Minute)
		if !k.ack("2", k.leaseItem("2", k.in(time.Minute)).Lease) {
			k.Error("the lease is not held")
		}
		k.wantSame("LeaseItem of a done item", store.LeaseResult{}, k.leaseItem("2", k.in(time.Minute)))
		k.wantSame("IDs", []string{"1", "2", "3"}, k.ids(3))
	}},
	{name: "ItemsAreTakenInTheOrderOfTheirArrival", clock: true, run: func(k *kit) {
		k.nothingDue("queue", never)
		for i := range 5 {
			k.mustAdd("queue", fmt.Sprint(i), fmt.Sprint("data ", i), never)
			k.mustAdd("other", fmt.Sprint("other ", i), "", never)
		}
		seen := make(map[uint64]bool)
		for i := range 5 {
			l := k.lease("queue", k.in(time.Hour))
			if l.Err != nil || l.ID != fmt.Sprint(i) || string(l.Data) != fmt.Sprint("data ", i) || l.Tries != 1 || l.Expired || seen[l.Lease] {
				k.Errorf("Lease = %+v, want item %d under a lease of its own", l, i)
			}
			seen[l.Lease] = true
			k.wantItem(l.ID, "queue", store.Leased, 1)
			if !k.ack(l.ID, l.Lease) {
				k.Errorf("item %d is not held", i)
			}
			k.wantItem(l.ID, "queue", store.Done, 1)
			if k.ack(l.ID, l.Lease) {
				k.Errorf("item %d was done twice", i)
			}
		}
		k.nothingDue("queue", never)
		l := k.lease("other", k.in(time.Hour))
		if l.ID != "other 0" || string(l.Data) != "" || l.Data == nil {
			k.Errorf("Lease = %+v, want other 0 with empty data", l)
		}
	}},
	{name: "AnIDStandsForOneItemInItsSpace", clock: true, run: func(k *kit) {
		k.mustAdd("queue", "id", "data", never)
		for _, c := range []struct {
			queue, mark string
			want        store.AddResult
		}{
			{"queue", "mark", store.AddResult{Equal: true}},
			{"queue", "another", store.AddResult{}},
			{"elsewhere", "mark", store.AddResult{Equal: true}},
		} {
			if a := k.add(c.queue, "id", c.mark, "other", "x", never, k.in(day)); a != c.want {
				k.Errorf("Add to %q with mark %q = %+v, want %+v", c.queue, c.mark, a, c.want)
			}
		}
		k.nothingDue("elsewhere", never)
		k.ack("id", k.mustLease("queue", "id", 1))
		k.pass(day - time.Microsecond)
		if a := k.add("queue", "id", "mark", "owner", "data", never, k.in(day)); a != (store.AddResult{Equal: true}) {
			k.Errorf("Add of an id that is done and remembered = %+v", a)
		}
		k.nothingDue("queue", never)
		k.pass(time.Microsecond)
		k.wantItem("id", "", "", 0)
		k.mustAdd("queue", "id", "again", never)
		if l := k.lease("queue", k.in(time.Minute)); string(l.Data) != "again" || l.Tries != 1 {
			k.Errorf("Lease = %+v, want the new item", l)
		}
	}},
	{name: "AnIDIsRememberedWhileTheItemIsNotDone", clock: true, run: func(k *kit) {
		k.mustAdd("queue", "id", "data", never)
		k.pass(10 * day)
		if a := k.add("queue", "id", "mark", "owner", "data", never, k.in(day)); a != (store.AddResult{Equal: true}) {
			k.Errorf("Add = %+v, want it to be known", a)
		}
		k.ack("id", k.mustLease("queue", "id", 1))
		k.wantItem("id", "", "", 0)
		k.mustAdd("queue", "id", "data", never)
		// An id that is not remembered.
		k.add("queue", "brief", "mark", "owner", "data", never, never)
		k.mustLease("queue", "id", 1)
		k.ack("brief", k.mustLease("queue", "brief", 1))
		k.wantItem("brief", "", "", 0)
	}},
	{name: "ALeaseEndsByItself", clock: true, run: func(k *kit) {
		k.mustAdd("queue", "id", "data", never)
		first := k.mustLease("queue", "id", 1)
		k.nothingDue("queue", k.in(time.Minute))
		k.pass(time.Minute - time.Microsecond)
		k.nothingDue("queue", k.in(time.Microsecond))
		k.pass(time.Microsecond)
		k.wantItem("id", "queue", store.Waiting, 1)
		second := k.mustLease("queue", "id", 2)
		if k.ack("id", first) || k.nack("id", first, never, true) || k.move("id", first, "queue", "x", never) {
			k.Error("who lost the lease still ends it")
		}
		k.wantItem("id", "queue", store.Leased, 2)
		// A late Ack counts until another consumer takes the item.
		k.pass(time.Hour)
		if !k.ack("id", second) {
			k.Error("a late Ack is refused although nobody else has taken the item")
		}
		k.nothingDue("queue", never)
	}},
	{name: "NackMakesAnItemDue", clock: true, run: func(k *kit) {
		k.mustAdd("queue", "a", "1", never)
		k.mustAdd("queue", "b", "2", never)
		if !k.nack("a", k.mustLease("queue", "a", 1), k.in(time.Second), true) {
			k.Error("not held")
		}
		k.wantItem("a", "queue", store.Waiting, 1)
		b := k.mustLease("queue", "b", 1)
		k.nothingDue("queue", k.in(time.Second))
		k.pass(time.Second)
		k.nack("b", b, never, false)
		k.wantItem("b", "queue", store.Waiting, 0)
		a := k.mustLease("queue", "a", 2)
		k.mustLease("queue", "b", 1)
		k.nack("a", a, k.in(-time.Hour), true) // a time in the past means now
		k.mustLease("queue", "a", 3)
	}},
	{name: "MoveIsOneStep", clock: true, run: func(k *kit) {
		k.mustAdd("queue", "id", "data", k.in(time.Hour))
		k.mustAdd("queue", "late", "data", never)
		lease := k.mustLease("queue", "id", 1)
		if !k.move("id", lease, "dead", "other data", never) {
			k.Error("not held")
		}
		k.wantItem("id", "dead", store.Waiting, 0)
		k.mustLease("queue", "late", 1)
		k.nothingDue("queue", k.in(time.Minute))
		if a := k.add("queue", "id", "mark", "owner", "data", never, k.in(day)); a != (store.AddResult{Equal: true}) {
			k.Errorf("Add = %+v, want it to be known", a)
		}
		k.pass(time.Hour)
		if l := k.leaseExpired(k.in(time.Minute)); l.Lease != 0 {
			k.Errorf("LeaseExpired = %+v, want nothing: the item got another expiry", l)
		}
		l := k.lease("dead", k.in(time.Minute))
		if l.ID != "id" || string(l.Data) != "other data" || l.Tries != 1 || l.Lease == lease {
			k.Errorf("Lease = %+v", l)
		}
		if k.ack("id", lease) {
			k.Error("the lease from before still holds")
		}
		if !k.move("id", l.Lease, "dead", "third", never) { // to the end of its own queue
			k.Error("not held")
		}
		k.reopen()
		if l := k.lease("dead", k.in(time.Minute)); string(l.Data) != "third" {
			k.Errorf("Lease = %+v", l)
		}
	}},
	{name: "WhatExpiresIsGivenOutToBeSettled", clock: true, run: func(k *kit) {
		if l := k.leaseExpired(k.in(time.Minute)); l.Lease != 0 || !l.Next.IsZero() {
			k.Errorf("LeaseExpired = %+v, want nothing ever", l)
		}
		k.mustAdd("a", "hour", "data", k.in(time.Hour))
		k.mustAdd("b", "minute", "data", k.in(time.Minute))
		k.mustAdd("b", "taken", "data", k.in(2*time.Minute))
		k.mustAdd("b", "never", "data", never)
		if l := k.leaseExpired(k.in(time.Minute)); l.Lease != 0 || !l.Next.Equal(k.in(time.Minute)) {
			k.Errorf("LeaseExpired = %+v, want nothing for a minute", l)
		}
		k.pass(time.Minute)
		if l := k.lease("b", k.in(time.Minute)); l.ID != "minute" || !l.Expired {
			k.Errorf("Lease = %+v, want the item that has expired, and that said", l)
		} else {
			k.nack("minute", l.Lease, never, true)
		}
		l := k.leaseExpired(k.in(time.Minute))
		if l.ID != "minute" || l.Queue != "b" || string(l.Data) != "data" || l.Tries != 1 {
			k.Errorf("LeaseExpired = %+v, want minute of b, taken once", l)
		}
		k.ack("minute", l.Lease)
		k.mustLease("b", "taken", 1)
		k.pass(30 * time.Second)
		k.mustLease("b", "never", 1)
		k.pass(30 * time.Second) // the leased item has expired, and its lease has ended
		l = k.leaseExpired(k.in(time.Minute))
		if l.ID != "taken" {
			k.Errorf("LeaseExpired = %+v, want taken", l)
		}
		if again := k.leaseExpired(k.in(time.Minute)); again.Lease != 0 || !again.Next.Equal(k.in(time.Minute)) {
			k.Errorf("LeaseExpired = %+v, want nothing while somebody has it", again)
		}
		k.ack("taken", l.Lease)
		if l := k.leaseExpired(k.in(time.Minute)); l.Lease != 0 || !l.Next.Equal(k.in(58*time.Minute)) {
			k.Errorf("LeaseExpired = %+v, want nothing for 58 minutes", l)
		}
		k.pass(58 * time.Minute)
		if l := k.leaseExpired(k.in(time.Minute)); l.ID != "hour" || l.Queue != "a" {
			k.Errorf("LeaseExpired = %+v, want hour of a", l)
		}
	}},
	{name: "AClockSetBackDelaysNothing", clock: true, run: func(k *kit) {
		k.mustAdd("queue", "id", "data", k.in(2*time.Hour))
		k.nack("id", k.mustLease("queue", "id", 1), k.in(time.Minute), true)
		k.pass(time.Minute)
		k.mustLease("queue", "id", 2)
		k.pass(-time.Hour)
		k.nothingDue("queue", k.in(time.Hour+time.Minute)) // on the clock after the jump
		k.reopen()
		k.pass(time.Minute)
		k.mustLease("queue", "id", 3)
	}},
	{name: "LargeDataIsLeftOut", clock: true, run: func(k *kit) {
		small, large := fill(inline), fill(inline+1)
		k.mustAdd("queue", "small", small, never)
		k.mustAdd("queue", "large", large, never)
		k.mustAdd("queue", "largest", fill(store.MaxValue), never)
		if l := k.lease("queue", k.in(time.Minute)); string(l.Data) != small {
			k.Errorf("Lease = %+v", l)
		}
		for _, want := range []struct{ id, data string }{{"large", large}, {"largest", fill(store.MaxValue)}} {
			l := k.lease("queue", k.in(time.Minute))
			if l.ID != want.id || l.Data != nil {
				k.Errorf("Lease = %+v, want %s without data", l, want.id)
			}
			data, err := k.Data(k.Context(), "space", want.id)
			if err != nil || string(data) != want.data {
				k.Errorf("Data(%q) = %d octets, %v", want.id, len(data), err)
			}
			k.ack(l.ID, l.Lease)
			if data, err := k.Data(k.Context(), "space", want.id); data != nil || err != nil {
				k.Errorf("Data of what is done = %d octets, %v", len(data), err)
			}
		}
		if data, err := k.Data(k.Context(), "space", "nobody"); data != nil || err != nil {
			k.Errorf("Data of nothing = %d octets, %v", len(data), err)
		}
	}},
	{name: "ItemsOutliveTheStore", clock: true, run: func(k *kit) {
		for i := range 4 {
			k.mustAdd("queue", fmt.Sprint(i), fmt.Sprint("data ", i), never)
		}
		k.ack("0", k.mustLease("queue", "0", 1))
		k.nack("1", k.mustLease("queue", "1", 1), k.in(time.Hour), true)
		k.mustLease("queue", "2", 1)
		k.reopen()
		k.wantItem("0", "queue", store.Done, 1)
		k.mustLease("queue", "3", 1)
		k.pass(time.Minute) // the lease ends
		l := k.lease("queue", k.in(2*time.Hour))
		if l.ID != "2" || l.Tries != 2 || string(l.Data) != "data 2" {
			k.Errorf("Lease = %+v, want 2 for the second time", l)
		}
		k.ack("3", k.mustLease("queue", "3", 2))
		k.pass(time.Hour)
		k.mustLease("queue", "1", 2)
		if a := k.add("queue", "0", "mark", "owner", "x", never, k.in(day)); a != (store.AddResult{Equal: true}) {
			k.Errorf("Add of an id from before = %+v", a)
		}
	}},
	{name: "ItemsAreListedInTheOrderTheyCameIn", clock: true, run: func(k *kit) {
		const n = 600
		for i := range n {
			k.Add("space", "queue", fmt.Sprintf("%03d", i), "", "owner", []byte(fill(i%3*5000)), never, k.in(day), func(store.AddResult) {})
		}
		k.mustAdd("other", "first", "x", never)
		k.mustAdd("other", "second", "x", never)
		k.move("first", k.mustLease("other", "first", 1), "queue", "moved", never)
		k.ack("000", k.mustLease("queue", "000", 1))
		ids, last := k.items("queue", 0)
		if len(ids) != n || ids[0] != "001" || ids[n-1] != "first" || !slices.IsSorted(ids[:n-1]) {
			k.Errorf("%d items, from %q to %q", len(ids), ids[0], ids[len(ids)-1])
		}
		if ids, _ := k.items("queue", last); ids != nil {
			k.Errorf("after the last there is %q", ids)
		}
		if ids, _ := k.items("queue", 1<<64-1); ids != nil {
			k.Errorf("after the last possible number there is %q", ids)
		}
		calls := 0
		err := k.Items(k.Context(), "space", "queue", 0, func(uint64, string, int, []byte) bool { calls++; return calls < 3 })
		if err != nil || calls != 3 {
			k.Errorf("%d calls of yield, %v", calls, err)
		}
		if ids, _ := k.items("nothing", 0); ids != nil {
			k.Errorf("a queue that never was has %q", ids)
		}
	}},
	{name: "NamesAreAnyOctets", clock: true, run: func(k *kit) {
		odd := []string{"*", ">", "a b", "a\r\nb", "\x00", "\x00\x00", "$SYS.x", "%", "'", "\xff", ""}
		for _, name := range odd {
			k.mustAdd("q"+name, "i"+name, name, never)
		}
		for _, name := range odd {
			l := k.lease("q"+name, k.in(time.Hour))
			if l.ID != "i"+name || string(l.Data) != name {
				k.Errorf("Lease(%q) = %+v", "q"+name, l)
			}
			k.nothingDue("q"+name, k.in(time.Hour))
		}
	}},
	{name: "SpacesAreApart", clock: true, run: func(k *kit) {
		k.mustAdd("queue", "id", "data", never)
		c := make(chan store.AddResult, 1)
		k.Add("other", "queue", "id", "another mark", "owner", []byte("y"), never, never, func(r store.AddResult) { c <- r })
		if a := wait(k, c); a != (store.AddResult{Fresh: true}) {
			k.Errorf("Add in another space = %+v", a)
		}
		lease := k.mustLease("queue", "id", 1)
		held := make(chan bool, 1)
		k.Ack("other", "id", lease, func(h bool, _ error) { held <- h })
		if wait(k, held) {
			k.Error("a lease holds in another space")
		}
	}},
	{name: "AFullQueueRefusesItems", options: Options{Waiting: 3}, clock: true, run: func(k *kit) {
		for i := range 3 {
			k.mustAdd("queue", fmt.Sprint(i), "x", never)
		}
		k.wantErr("Add to a full queue", k.add("queue", "3", "", "owner", "x", never, k.in(day)).Err, store.ErrQuota)
		k.wantItem("3", "", "", 0)
		if a := k.add("queue", "0", "mark", "owner", "x", never, k.in(day)); a != (store.AddResult{Equal: true}) {
			k.Errorf("Add of a known id to a full queue = %+v", a)
		}
		k.mustAdd("other", "4", "x", never)
		// A leased item still counts; Move is never refused.
		lease := k.mustLease("queue", "0", 1)
		k.wantErr("Add", k.add("queue", "3", "", "owner", "x", never, k.in(day)).Err, store.ErrQuota)
		if !k.move("4", k.mustLease("other", "4", 1), "queue", "x", never) {
			k.Error("Move into a full queue is refused")
		}
		k.ack("0", lease)
		k.wantErr("Add", k.add("queue", "3", "", "owner", "x", never, k.in(day)).Err, store.ErrQuota)
		k.ack("1", k.mustLease("queue", "1", 1))
		k.mustAdd("queue", "3", "x", never)
		k.reopen()
		k.wantErr("Add", k.add("queue", "5", "", "owner", "x", never, k.in(day)).Err, store.ErrQuota)
	}},
	{name: "AQueueCanHaveABoundOfItsOwn", options: Options{Waiting: 1}, clock: true, run: func(k *kit) {
		k.mustAdd("queue", "0", "12", never)
		k.mustAdd("other", "x", "x", never)
		k.bound("queue", store.Room{Items: 3, Octets: 10})
		k.mustAdd("queue", "1", "345", never)
		k.wantErr("Add of octets over the bound", k.add("queue", "2", "", "owner", "678901", never, k.in(day)).Err, store.ErrQuota)
		k.wantItem("2", "", "", 0)
		if a := k.add("queue", "2", "", "another owner", "67890", never, k.in(day)); !a.Fresh { // one owner may not use all octets
			k.Errorf("Add by another owner = %+v", a)
		}
		k.wantHeld("queue", store.Room{Items: 3, Octets: 10})
		k.wantErr("Add of an item over the bound", k.add("queue", "3", "", "owner", "", never, k.in(day)).Err, store.ErrQuota)
		k.wantErr("Add to another queue", k.add("other", "3", "", "owner", "", never, k.in(day)).Err, store.ErrQuota)
		// A leased item still counts. Ack and Move make room; Move into the queue is never
		// refused.
		lease := k.mustLease("queue", "0", 1)
		k.wantErr("Add", k.add("queue", "3", "", "owner", "", never, k.in(day)).Err, store.ErrQuota)
		k.ack("0", lease)
		if !k.move("1", k.mustLease("queue", "1", 1), "elsewhere", "x", never) || !k.move("x", k.mustLease("other", "x", 1), "queue", "1234567", never) {
			k.Error("Move is refused")
		}
		k.wantHeld("queue", store.Room{Items: 2, Octets: 12})
		k.bound("queue", store.Room{Items: 3, Octets: 15})
		k.mustAdd("queue", "3", "8", never)
		// Bound has to be repeated after the store is opened again.
		k.reopen()
		k.wantHeld("queue", store.Room{})
		k.bound("queue", store.Room{Items: 3, Octets: 100})
		k.wantHeld("queue", store.Room{Items: 3, Octets: 13})
		k.wantErr("Add", k.add("queue", "4", "", "owner", "", never, k.in(day)).Err, store.ErrQuota)
	}},
	{name: "ASpaceRemembersSoMany", options: Options{Remembered: 3}, clock: true, run: func(k *kit) {
		for i := range 3 {
			k.mustAdd(fmt.Sprint("queue ", i), fmt.Sprint(i), "x", never)
		}
		k.ack("0", k.mustLease("queue 0", "0", 1))
		refused := func() {
			k.Helper()
			k.wantErr("Add", k.add("queue", "new", "", "owner", "x", never, k.in(day)).Err, store.ErrQuota)
		}
		refused()
		k.reopen()
		refused()
		k.pass(day)
		k.mustAdd("queue", "new", "x", never)
		refused2 := k.add("queue", "newer", "", "owner", "x", never, k.in(day))
		k.wantErr("Add", refused2.Err, store.ErrQuota)
	}},
	{name: "TheOwnerPaysForItems", options: Options{QuotaPerOwner: 20_000}, clock: true, run: func(k *kit) {
		next := 0
		fillUp := func(owner string) (n int) {
			k.Helper()
			for range 100 {
				a := k.add("queue", fmt.Sprint(owner, next), "", owner, fill(1000), never, k.in(day))
				if next++; a.Err != nil {
					k.wantErr("Add over the quota", a.Err, store.ErrQuota)
					return n
				}
				n++
			}
			k.Fatal("100 items of 1,000 octets are not refused")
			return 0
		}
		n := fillUp("a")
		if n < 10 || n > 19 {
			k.Errorf("%d items of 1,000 octets fit a quota of 20,000", n)
		}
		if other := fillUp("b"); other != n {
			k.Errorf("%d items of another owner fit, want %d", other, n)
		}
		if p := k.put("space", "key", 0, "a", fill(1000), never); p.Err == nil {
			k.Error("a record of the first owner is not refused")
		}
		// A done item counts only its id.
		first := k.lease("queue", k.in(time.Hour))
		k.ack(first.ID, first.Lease)
		if again := fillUp("a"); again != 0 && again != 1 {
			k.Errorf("%d items fit where one was done", again)
		}
		second := k.lease("queue", k.in(time.Hour))
		// Move is not refused, but counts against the quota.
		if !k.move(second.ID, second.Lease, "dead", fill(3000), never) {
			k.Error("Move over the quota is refused")
		}
		for range 3 {
			l := k.lease("queue", k.in(time.Hour))
			k.ack(l.ID, l.Lease)
		}
		if again := fillUp("a"); again != 0 && again != 1 {
			k.Errorf("%d items fit although one has grown by 2,000 octets", again)
		}
		// All items of a are done and forgotten.
		for {
			l := k.lease("queue", k.in(100*time.Hour))
			if l.Lease == 0 {
				break
			}
			k.ack(l.ID, l.Lease)
		}
		l := k.lease("dead", k.in(100*time.Hour))
		k.ack(l.ID, l.Lease)
		k.pass(day)
		k.reopen()
		if again := fillUp("a"); again != n {
			k.Errorf("%d items fit after all were forgotten, want %d", again, n)
		}
	}},
	{name: "ManyTakeAndNoneTwice", clock: true, run: func(k *kit) {
		const items, takers = 400, 8
		for i := range items {
			k.Add("space", "queue", fmt.Sprint(i), "", "owner", []byte("x"), never, k.in(day), func(store.AddResult) {})
		}
		var mu sync.Mutex
		taken := make(map[string]int)
		var wg sync.WaitGroup
		for range takers {
			wg.Go(func() {
				for {
					l := k.lease("queue", k.in(time.Hour))
					if l.Lease == 0 {
						return
					}
					mu.Lock()
					taken[l.ID]++
					mu.Unlock()
					if !k.ack(l.ID, l.Lease) {
						k.Errorf("%q is not held by who took it", l.ID)
					}
				}
			})
		}
		wg.Wait()
		if len(taken) != items {
			k.Errorf("%d of %d items were taken", len(taken), items)
		}
		for id, n := range taken {
			if n != 1 {
				k.Errorf("%q was taken %d times", id, n)
			}
		}
	}},
	{name: "AnItemHasOneLeaseAtATime", clock: true, run: oneLeaseAtATime},
	{name: "AgainstAModel", clock: true, run: modelQueues},
	{name: "QueuesHoldTheirLimits", clock: true, run: func(k *kit) {
		space, name, owner := fill(store.MaxSpace+1), fill(store.MaxName+1), fill(store.MaxOwner+1)
		errs := make(chan error, 1)
		add := func(space, queue, id, mark, owner string, size int) error {
			k.Add(space, queue, id, mark, owner, []byte(fill(size)), never, never, func(r store.AddResult) { errs <- r.Err })
			return wait(k, errs)
		}
		if err := add(fill(store.MaxSpace), fill(store.MaxName), fill(store.MaxName), fill(store.MaxName), fill(store.MaxOwner), store.MaxValue); err != nil {
			k.Errorf("Add at the limits: %v", err)
		}
		held := func(_ bool, err error) { errs <- err }
		yield := func(uint64, string, int, []byte) bool { return true }
		ctx := k.Context()
		for _, c := range []struct {
			what string
			call func() error
		}{
			{"Add space", func() error { return add(space, "q", "i", "m", "o", 1) }},
			{"Add queue", func() error { return add("s", name, "i", "m", "o", 1) }},
			{"Add id", func() error { return add("s", "q", name, "m", "o", 1) }},
			{"Add mark", func() error { return add("s", "q", "i", name, "o", 1) }},
			{"Add owner", func() error { return add("s", "q", "i", "m", owner, 1) }},
			{"Add data", func() error { return add("s", "q", "i", "m", "o", store.MaxValue+1) }},
			{"Lease queue", func() error { return k.lease(name, never).Err }},
			{"Ack id", func() error { k.Ack("s", name, 1, held); return wait(k, errs) }},
			{"Nack id", func() error { k.Nack("s", name, 1, never, true, held); return wait(k, errs) }},
			{"Move queue", func() error { k.Move("s", "i", 1, name, nil, never, held); return wait(k, errs) }},
			{"Move data", func() error {
				k.Move("s", "i", 1, "q", []byte(fill(store.MaxValue+1)), never, held)
				return wait(k, errs)
			}},
			{"Item id", func() error { _, _, _, err := k.Item(ctx, "s", name); return err }},
			{"Data id", func() error { _, err := k.Data(ctx, "s", name); return err }},
			{"Items queue", func() error { return k.Items(ctx, "s", name, 0, yield) }},
		} {
			k.wantErr(c.what, c.call(), store.ErrTooLarge)
		}
	}},
	{name: "AClosedStoreHasNoQueues", clock: true, run: func(k *kit) {
		k.mustAdd("queue", "id", "x", never)
		lease := k.mustLease("queue", "id", 1)
		if err := k.Close(); err != nil {
			k.Fatal(err)
		}
		errs := make(chan error, 1)
		held := func(_ bool, err error) { errs <- err }
		k.wantErr("Add", k.add("queue", "new", "", "owner", "x", never, never).Err, store.ErrClosed)
		k.wantErr("Lease", k.lease("queue", never).Err, store.ErrClosed)
		k.wantErr("LeaseExpired", k.leaseExpired(never).Err, store.ErrClosed)
		k.Ack("space", "id", lease, held)
		k.wantErr("Ack", wait(k, errs), store.ErrClosed)
		k.Nack("space", "id", lease, never, true, held)
		k.wantErr("Nack", wait(k, errs), store.ErrClosed)
		k.Move("space", "id", lease, "q", nil, never, held)
		k.wantErr("Move", wait(k, errs), store.ErrClosed)
		_, _, _, err := k.Item(k.Context(), "space", "id")
		k.wantErr("Item", err, store.ErrClosed)
		_, err = k.Data(k.Context(), "space", "id")
		k.wantErr("Data", err, store.ErrClosed)
		k.wantErr("Items", k.Items(k.Context(), "space", "queue", 0, func(uint64, string, int, []byte) bool { return true }), store.ErrClosed)
	}},
	{name: "AnItemThatMovesWhileItIsReadIsNotDamaged", run: func(k *kit) {
		const moves, ahead = 40, 8
		add := func(n int) { k.mustAdd("one", strconv.Itoa(n), fill(inline), never) }
		for n := range ahead {
			add(n)
		}
		var at atomic.Int64
		var reader sync.WaitGroup
		read := func(what func(id string) error) {
			reader.Go(func() {
				for n := at.Load(); n < moves; n = at.Load() {
					if err := what(strconv.FormatInt(n, 10)); err != nil {
						k.Error(err)
						return
					}
				}
			})
		}
		read(func(id string) error {
			_, _, _, err := k.Item(k.Context(), "space", id)
			return err
		})
		read(func(id string) error {
			_, err := k.Data(k.Context(), "space", id)
			return err
		})
		for _, queue := range []string{"one", "two"} {
			read(func(string) error {
				return k.Items(k.Context(), "space", queue, 0, func(_ uint64, id string, _ int, data []byte) bool {
					if want := map[string]int{"one": inline, "two": 1}[queue]; len(data) != want {
						k.Errorf("%q in %q has %d octets, want %d", id, queue, len(data), want)
					}
					return true
				})
			})
		}
		for n := range moves {
			id := strconv.Itoa(n)
			if !k.move(id, k.mustLease("one", id, 1), "two", "x", never) {
				k.Fatalf("%s was not moved", id)
			}
			add(n + ahead)
			if n >= ahead {
				id := strconv.Itoa(n - ahead)
				if !k.ack(id, k.mustLease("two", id, 1)) {
					k.Fatalf("%s was not acknowledged", id)
				}
			}
			at.Store(int64(n + 1))
		}
		reader.Wait()
		if err := k.check(); err != nil {
			k.Error(err)
		}
	}},
	{name: "ReadingQueuesEndsWithItsContext", clock: true, run: func(k *kit) {
		k.mustAdd("queue", "id", "x", never)
		ctx, cancel := context.WithCancel(k.Context())
		cancel()
		if _, _, _, err := k.Item(ctx, "space", "id"); !errors.Is(err, context.Canceled) {
			k.Errorf("Item: %v", err)
		}
		if _, err := k.Data(ctx, "space", "id"); !errors.Is(err, context.Canceled) {
			k.Errorf("Data: %v", err)
		}
		if err := k.Items(ctx, "space", "queue", 0, func(uint64, string, int, []byte) bool { return true }); !errors.Is(err, context.Canceled) {
			k.Errorf("Items: %v", err)
		}
	}},
}

// wantSame compares a result with the expected one.
func (k *kit) wantSame(what string, want, got any) {
	k.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		k.Fatalf("%s:\n%s", what, diff)
	}
}
