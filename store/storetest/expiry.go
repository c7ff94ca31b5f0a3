package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/slimwire/swp/store"
)

var expiry = []test{
	{name: "ARecordIsGoneWhenItExpires", clock: true, run: func(k *kit) {
		before := k.mustPut("space", "key", 0, "value", k.in(time.Minute))
		k.mustPut("space", "stays", 0, "value", never)
		k.pass(time.Minute - time.Microsecond)
		k.wantRecord("space", "key", before, "value")
		k.pass(time.Microsecond)
		k.wantRecord("space", "key", 0, "")
		if keys := k.scan("space", "", ""); !slices.Equal(keys, []string{"stays"}) {
			k.Errorf("Scan = %q", keys)
		}
		if p := k.put("space", "key", before, "owner", "again", never); p.Wrote || p.Version != 0 || p.Current != nil || p.Err != nil {
			k.Errorf("Put over an expired version = %+v, want as if there was none", p)
		}
		if !k.delete("key", before+1) {
			k.Error("removing an expired record does not succeed")
		}
		k.mustPut("space", "key", 0, "v", k.in(time.Minute))
		k.pass(time.Minute)
		if after := k.mustPut("space", "key", 0, "again", never); after <= before {
			k.Errorf("version %d after %d expired", after, before)
		}
	}},
	{name: "PutMovesTheExpiry", clock: true, run: func(k *kit) {
		a := k.mustPut("space", "longer", 0, "value", k.in(time.Minute))
		b := k.mustPut("space", "shorter", 0, "value", never)
		a = k.mustPut("space", "longer", a, "value", k.in(time.Hour))
		k.mustPut("space", "shorter", b, "value", k.in(time.Minute))
		k.pass(time.Minute)
		k.wantRecord("space", "longer", a, "value")
		k.wantRecord("space", "shorter", 0, "")
		k.mustPut("space", "longer", a, "value", never)
		k.pass(1000 * time.Hour)
		if version, _ := k.get("space", "longer"); version == 0 {
			k.Error("a record without expiry is gone")
		}
	}},
	{name: "WhatIsPutExpiredIsNeverThere", clock: true, run: func(k *kit) {
		k.mustPut("space", "key", 0, "value", k.in(-time.Hour))
		k.wantRecord("space", "key", 0, "")
		k.mustPut("space", "key", 0, "value", time.Unix(0, 0))
		k.wantRecord("space", "key", 0, "")
		k.mustAppend("log", "id", "x", k.in(0), 1)
		k.wantSpan("log", 2, 1)
		k.mustAppend("log", "id", "x", never, 2)
	}},
	{name: "AFarExpiryIsFar", clock: true, run: func(k *kit) {
		version := k.mustPut("space", "key", 0, "value", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
		k.pass(100 * 365 * 24 * time.Hour)
		k.wantRecord("space", "key", version, "value")
	}},
	{name: "AnEntryIsGoneWhenItExpires", clock: true, run: func(k *kit) {
		k.mustAppend("log", "a", "x", k.in(time.Minute), 1)
		k.mustAppend("log", "b", "x", k.in(time.Hour), 2)
		k.mustAppend("log", "c", "x", k.in(time.Minute), 3)
		k.pass(time.Minute - time.Microsecond)
		k.wantSpan("log", 1, 3)
		if a := k.append("space", "log", "c", "owner", "x", never); a != (store.AppendResult{Seq: 3, Equal: true}) {
			k.Errorf("id before it expires = %+v", a)
		}
		k.pass(time.Microsecond)
		k.wantSpan("log", 2, 3)
		if entries := k.read("log", 0); len(entries) != 1 || entries[0].seq != 2 {
			k.Errorf("Read = %v, want number 2", entries)
		}
		k.mustAppend("log", "c", "x", k.in(time.Minute), 4)
		k.mustAppend("log", "a", "x", k.in(time.Minute), 5)
		k.pass(time.Hour)
		k.wantSpan("log", 6, 5)
		if entries := k.read("log", 0); entries != nil {
			k.Errorf("an expired log has %v", entries)
		}
		k.mustAppend("log", "a", "x", never, 6)
	}},
	{name: "EntriesThatAreAppendedTogetherExpireApart", clock: true, run: func(k *kit) {
		const entries = 60
		start := k.clock()
		k.appendTogether("log", entries, func(i int) time.Time {
			if i%3 == 0 {
				return never
			}
			return start.Add(time.Minute + time.Duration(i)*100*time.Millisecond)
		})
		left := func(at time.Duration) (list []uint64) {
			for i := 1; i <= entries; i++ {
				if i%3 == 0 || at < time.Minute+time.Duration(i)*100*time.Millisecond {
					list = append(list, uint64(i))
				}
			}
			return list
		}
		for _, at := range []time.Duration{0, time.Minute, time.Minute + time.Second, time.Minute + 3500*time.Millisecond, time.Hour} {
			k.pass(start.Add(at).Sub(k.clock()))
			if err := k.check(); err != nil {
				k.Fatal(err)
			}
			var seqs []uint64
			for _, e := range k.read("log", 0) {
				if seqs = append(seqs, e.seq); e.data != fmt.Sprint("data ", e.seq) {
					k.Errorf("entry %d is %q", e.seq, e.data)
				}
			}
			if want := left(at); !slices.Equal(seqs, want) {
				k.Errorf("after %v: %v, want %v", at, seqs, want)
			}
			k.wantSpan("log", left(at)[0], entries)
		}
		k.mustAppend("log", "id 1", "again", never, entries+1)
	}},
	{name: "NumbersAreUsedUpAlsoAfterExpiryAndReopening", clock: true, run: func(k *kit) {
		for i := range uint64(3) {
			k.mustAppend("log", "", "x", k.in(time.Minute), i+1)
		}
		k.pass(time.Hour)
		if err := k.check(); err != nil {
			k.Fatal(err)
		}
		k.reopen()
		k.wantSpan("log", 4, 3)
		k.mustAppend("log", "", "x", never, 4)
	}},
	{name: "AClockSetBackRevivesNothing", clock: true, run: func(k *kit) {
		k.mustPut("space", "key", 0, "value", k.in(time.Minute))
		stays := k.mustPut("space", "stays", 0, "value", k.in(3*time.Hour))
		k.mustAppend("log", "id", "x", k.in(time.Minute), 1)
		k.pass(time.Hour)
		k.wantRecord("space", "key", 0, "")
		k.pass(-time.Hour)
		k.wantRecord("space", "key", 0, "")
		k.wantSpan("log", 2, 1)
		if err := k.check(); err != nil { // a write stores the time
			k.Fatal(err)
		}
		k.reopen()
		k.wantRecord("space", "key", 0, "")
		k.wantSpan("log", 2, 1)
		// Nothing expires early.
		k.wantRecord("space", "stays", stays, "value")
		fresh := k.mustPut("space", "fresh", 0, "value", k.in(time.Minute))
		k.wantRecord("space", "fresh", fresh, "value")
		k.pass(time.Minute - time.Microsecond)
		k.wantRecord("space", "fresh", fresh, "value")
		k.pass(time.Microsecond)
		k.wantRecord("space", "fresh", 0, "")
	}},
}
