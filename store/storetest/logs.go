package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/store"
)

var logs = []test{
	{name: "NumbersBeginWithOneAndHaveNoGaps", run: func(k *kit) {
		k.wantSpan("log", 1, 0)
		if entries := k.read("log", 0); entries != nil {
			k.Errorf("a log that was never written has %v", entries)
		}
		for i := range uint64(5) {
			k.mustAppend("log", "", fmt.Sprint(i), never, i+1)
			k.mustAppend("other", "", "x", never, i+1)
		}
		k.wantSpan("log", 1, 5)
		want := []entry{{1, "", "0"}, {2, "", "1"}, {3, "", "2"}, {4, "", "3"}, {5, "", "4"}}
		if diff := cmp.Diff(want, k.read("log", 0), cmp.AllowUnexported(entry{})); diff != "" {
			k.Error(diff)
		}
		if diff := cmp.Diff(want[3:], k.read("log", 3), cmp.AllowUnexported(entry{})); diff != "" {
			k.Error(diff)
		}
		if entries := k.read("log", 1<<64-1); entries != nil {
			k.Errorf("after the last possible number there is %v", entries)
		}
	}},
	{name: "AnIDIsAppendedOnce", run: func(k *kit) {
		k.mustAppend("log", "a", "1", never, 1)
		k.mustAppend("log", "b", "1", never, 2)
		if a := k.append("space", "log", "a", "other", "1", never); a != (store.AppendResult{Seq: 1, Equal: true}) {
			k.Errorf("same id, same data = %+v", a)
		}
		if a := k.append("space", "log", "a", "owner", "2", never); a != (store.AppendResult{Seq: 1}) {
			k.Errorf("same id, other data = %+v", a)
		}
		k.mustAppend("other", "a", "1", never, 1)
		if a := k.append("other space", "log", "a", "owner", "1", never); a != (store.AppendResult{Seq: 1, Fresh: true}) {
			k.Errorf("same id in another space = %+v", a)
		}
		k.mustAppend("log", "", "1", never, 3)
		k.mustAppend("log", "", "1", never, 4)
		k.wantSpan("log", 1, 4)
	}},
	{name: "IDsAndDataAreAnyOctets", run: func(k *kit) {
		odd := []string{"\x00", "\x00\x00", "%", "'", "\xff", "\xc3\x28", fill(1024)}
		var want []entry
		for i, id := range odd {
			k.mustAppend("l\x00g", id, id+id, never, uint64(i+1))
			want = append(want, entry{uint64(i + 1), id, id + id})
		}
		k.mustAppend("l\x00g", "", "", never, uint64(len(odd)+1))
		want = append(want, entry{uint64(len(odd) + 1), "", ""})
		if diff := cmp.Diff(want, k.read("l\x00g", 0), cmp.AllowUnexported(entry{})); diff != "" {
			k.Error(diff)
		}
		k.wantSpan("l", 1, 0)
	}},
	{name: "TrimUsesNumbersUp", run: func(k *kit) {
		for i := range uint64(5) {
			k.mustAppend("log", fmt.Sprint(i+1), "x", never, i+1)
		}
		k.trim("log", 0)
		k.wantSpan("log", 1, 5)
		k.trim("log", 2)
		k.trim("log", 1)
		k.wantSpan("log", 3, 5)
		if entries := k.read("log", 0); len(entries) != 3 || entries[0].seq != 3 {
			k.Errorf("after Trim through 2 there is %v", entries)
		}
		if a := k.append("space", "log", "3", "owner", "x", never); a != (store.AppendResult{Seq: 3, Equal: true}) {
			k.Errorf("id of an entry that is held = %+v", a)
		}
		k.mustAppend("log", "2", "x", never, 6)
		k.trim("log", 1<<64-1)
		k.wantSpan("log", 7, 6)
		if entries := k.read("log", 0); entries != nil {
			k.Errorf("a trimmed log has %v", entries)
		}
		k.mustAppend("log", "6", "x", never, 7)
		k.wantSpan("log", 7, 7)
		k.trim("never written", 5)
		k.wantSpan("never written", 1, 0)
	}},
	{name: "NumbersAreUsedUpAlsoAfterReopening", run: func(k *kit) {
		for i := range uint64(3) {
			k.mustAppend("log", "", "x", never, i+1)
		}
		k.trim("log", 3)
		k.reopen()
		k.wantSpan("log", 4, 3)
		k.mustAppend("log", "", "x", never, 4)
	}},
	{name: "DropForgetsEverything", run: func(k *kit) {
		for i := range uint64(3) {
			k.mustAppend("log", fmt.Sprint(i), "x", never, i+1)
			k.mustAppend("other", fmt.Sprint(i), "x", never, i+1)
		}
		k.drop("log")
		k.drop("never written")
		k.wantSpan("log", 1, 0)
		if entries := k.read("log", 0); entries != nil {
			k.Errorf("a dropped log has %v", entries)
		}
		k.mustAppend("log", "2", "y", never, 1)
		k.drop("log")
		k.drop("log")
		k.reopen()
		k.wantSpan("log", 1, 0)
		k.wantSpan("other", 1, 3)
		k.mustAppend("log", "2", "z", never, 1)
		if entries := k.read("log", 0); len(entries) != 1 || entries[0].data != "z" {
			k.Errorf("a log that began again has %v", entries)
		}
	}},
	{name: "AppendAllAppendsEachInOrder", run: func(k *kit) {
		k.mustAppend("log", "b", "there", never, 1)
		list := []store.Entry{{ID: "a", Data: []byte("1")}, {ID: "b", Data: []byte("2")}, {Data: []byte("3")}, {ID: "a", Data: []byte("4")}, {Data: []byte("5")}}
		if r := k.appendAll("log", list); r.Err != nil || !slices.Equal(r.Seqs, []uint64{2, 1, 3, 2, 4}) {
			k.Errorf("AppendAll = %+v", r)
		}
		if r := k.appendAll("log", list[:2]); r.Err != nil || !slices.Equal(r.Seqs, []uint64{2, 1}) {
			k.Errorf("AppendAll of what is there = %+v", r)
		}
		if r := k.appendAll("other", nil); r.Err != nil || len(r.Seqs) != 0 {
			k.Errorf("AppendAll of nothing = %+v", r)
		}
		want := []entry{{1, "b", "there"}, {2, "a", "1"}, {3, "", "3"}, {4, "", "5"}}
		if diff := cmp.Diff(want, k.read("log", 0), cmp.AllowUnexported(entry{})); diff != "" {
			k.Error(diff)
		}
		k.wantSpan("other", 1, 0)
		k.wantErr("too large", k.appendAll("log", []store.Entry{{Data: []byte("6")}, {ID: fill(store.MaxName + 1)}}).Err, store.ErrTooLarge)
		k.wantSpan("log", 1, 4)
	}},
	{name: "EntriesThatAreAppendedTogetherAreTrimmedApart", run: func(k *kit) {
		const entries = 100
		k.appendTogether("log", entries, func(int) time.Time { return never })
		k.trim("log", 37)
		k.wantSpan("log", 38, entries)
		if a := k.append("space", "log", "id 38", "owner", "data 38", never); a != (store.AppendResult{Seq: 38, Equal: true}) {
			k.Errorf("the first that is left: %+v", a)
		}
		if a := k.append("space", "log", "id 100", "owner", "data", never); a != (store.AppendResult{Seq: 100}) {
			k.Errorf("the last with other data: %+v", a)
		}
		k.mustAppend("log", "id 37", "again", never, entries+1)
		k.mustAppend("log", "id 1", "again", never, entries+2)
		k.reopen()
		k.trim("log", 60)
		got := k.read("log", 50)
		if len(got) != entries+2-60 || got[0] != (entry{61, "id 61", "data 61"}) || got[len(got)-1] != (entry{entries + 2, "id 1", "again"}) {
			k.Errorf("%d entries after 60: %v", len(got), got)
		}
	}},
	{name: "EntriesOutliveTheStore", run: func(k *kit) {
		k.mustAppend("log", "a", "1", never, 1)
		k.mustAppend("log", "b", "2", never, 2)
		k.reopen()
		if a := k.append("space", "log", "a", "owner", "1", never); a != (store.AppendResult{Seq: 1, Equal: true}) {
			k.Errorf("id from before = %+v", a)
		}
		k.mustAppend("log", "c", "3", never, 3)
		want := []entry{{1, "a", "1"}, {2, "b", "2"}, {3, "c", "3"}}
		if diff := cmp.Diff(want, k.read("log", 0), cmp.AllowUnexported(entry{})); diff != "" {
			k.Error(diff)
		}
	}},
	{name: "ReadStopsWhenYieldSaysSo", run: func(k *kit) {
		for i := range uint64(10) {
			k.mustAppend("log", "", "x", never, i+1)
		}
		calls := 0
		err := k.Read(k.Context(), "space", "log", 4, func(seq uint64, _ string, _ []byte) bool {
			calls++
			return seq < 6
		})
		if err != nil || calls != 2 {
			k.Errorf("%d calls of yield, error %v, want 2", calls, err)
		}
	}},
	{name: "ReadReachesEveryEntryOfManyAndLarge", run: func(k *kit) {
		const entries = 700
		var pending sync.WaitGroup
		for i := range entries {
			pending.Add(1)
			k.Append("space", "log", "", "owner", []byte(fill(i%5*3000)), never, func(r store.AppendResult) {
				if r.Seq != uint64(i+1) {
					k.Errorf("number %d, error %v, want %d", r.Seq, r.Err, i+1)
				}
				pending.Done()
			})
		}
		pending.Wait()
		for i, e := range k.read("log", 0) {
			if e.seq != uint64(i+1) || len(e.data) != i%5*3000 {
				k.Fatalf("entry %d has number %d and %d octets", i, e.seq, len(e.data))
			}
		}
		if n := len(k.read("log", 100)); n != entries-100 {
			k.Errorf("%d entries after 100, want %d", n, entries-100)
		}
	}},
	{name: "YieldMayUseTheStore", run: func(k *kit) {
		k.mustAppend("log", "", "x", never, 1)
		var seen []uint64
		err := k.Read(k.Context(), "space", "log", 0, func(seq uint64, _ string, _ []byte) bool {
			if seen = append(seen, seq); seq == 1 {
				k.mustAppend("log", "", "y", never, 2)
				k.trim("log", 1)
				k.wantSpan("log", 2, 2)
			}
			return true
		})
		if err != nil || seen[0] != 1 {
			k.Errorf("read %v, error %v", seen, err)
		}
	}},
	{name: "ManyAppendAtOnce", run: func(k *kit) {
		const writers, each = 8, 50
		seqs := make([][]uint64, writers)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					a := k.append("space", "log", fmt.Sprintf("%d/%d", w, i), "owner", "x", never)
					if a.Err != nil || !a.Fresh {
						k.Errorf("Append = %+v", a)
						return
					}
					seqs[w] = append(seqs[w], a.Seq)
				}
			})
		}
		wg.Wait()
		for w, of := range seqs {
			if !slices.IsSorted(of) {
				k.Errorf("numbers of writer %d are out of order: %v", w, of)
			}
		}
		all := slices.Sorted(slices.Values(slices.Concat(seqs...)))
		for i, seq := range all {
			if seq != uint64(i+1) {
				k.Fatalf("number %d is %d", i+1, seq)
			}
		}
		k.wantSpan("log", 1, writers*each)
	}},
	{name: "OneOfManyAppendsOfAnIDIsFresh", run: func(k *kit) {
		fresh := 0
		var pending sync.WaitGroup
		for range 64 {
			pending.Add(1)
			k.Append("space", "log", "id", "owner", []byte("x"), never, func(r store.AppendResult) {
				if r.Fresh {
					fresh++ // done functions run one at a time
				}
				if r.Err != nil || r.Seq != 1 || r.Fresh == r.Equal {
					k.Errorf("Append = %d, fresh %v, equal %v, %v", r.Seq, r.Fresh, r.Equal, r.Err)
				}
				pending.Done()
			})
		}
		pending.Wait()
		if fresh != 1 {
			k.Errorf("%d of 64 are fresh, want 1", fresh)
		}
	}},
}
