package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/slimwire/swp/store"
)

var records = []test{
	{name: "PutMakesWhatDoesNotExist", run: func(k *kit) {
		k.wantRecord("space", "key", 0, "")
		version := k.mustPut("space", "key", 0, "value", never)
		k.wantRecord("space", "key", version, "value")
	}},
	{name: "PutRefusesAnotherVersion", run: func(k *kit) {
		version := k.mustPut("space", "key", 0, "first", never)
		for _, was := range []uint64{0, version + 1, 1<<64 - 1} {
			p := k.put("space", "key", was, "owner", "second", never)
			if p.Err != nil || p.Wrote || p.Version != version || string(p.Current) != "first" {
				k.Errorf("Put with version %d over %d = %+v, want version and value that are there", was, version, p)
			}
		}
		k.wantRecord("space", "key", version, "first")
		next := k.mustPut("space", "key", version, "second", never)
		if next <= version {
			k.Errorf("version %d after %d", next, version)
		}
		k.wantRecord("space", "key", next, "second")
	}},
	{name: "PutOfAVersionNeedsARecord", run: func(k *kit) {
		p := k.put("space", "key", 7, "owner", "value", never)
		if p.Err != nil || p.Wrote || p.Version != 0 || p.Current != nil {
			k.Errorf("Put with version 7 of no record = %+v, want not written, version 0, nil", p)
		}
		k.wantRecord("space", "key", 0, "")
	}},
	{name: "VersionsGrowPastDeletionAndReopening", run: func(k *kit) {
		before := k.mustPut("space", "key", 0, "1", never)
		k.delete("key", before)
		after := k.mustPut("space", "key", 0, "2", never)
		if after <= before {
			k.Errorf("version %d after %d was deleted", after, before)
		}
		k.delete("key", 0)
		k.reopen()
		if last := k.mustPut("space", "key", 0, "3", never); last <= after {
			k.Errorf("version %d after %d was deleted and the store opened again", last, after)
		}
	}},
	{name: "EmptyIsAValueAndAName", run: func(k *kit) {
		version := k.mustPut("", "", 0, "", never)
		k.wantRecord("", "", version, "")
		if p := k.put("", "", 0, "", "", never); p.Wrote || p.Version != version || len(p.Current) != 0 {
			k.Errorf("Put over an empty value = %+v", p)
		}
		if keys := k.scan("", "", ""); len(keys) != 0 {
			// No key is greater than itself.
			k.Errorf("Scan after the empty key = %q, want none", keys)
		}
	}},
	{name: "DeleteOfAVersion", run: func(k *kit) {
		if !k.delete("key", 0) || !k.delete("key", 7) {
			k.Error("removing what is not there does not succeed")
		}
		version := k.mustPut("space", "key", 0, "value", never)
		if k.delete("key", version+1) {
			k.Error("removed another version")
		}
		k.wantRecord("space", "key", version, "value")
		if !k.delete("key", version) {
			k.Error("did not remove the version that is there")
		}
		k.wantRecord("space", "key", 0, "")
		k.mustPut("space", "key", 0, "value", never)
		if !k.delete("key", 0) {
			k.Error("did not remove whatever is there")
		}
		k.wantRecord("space", "key", 0, "")
	}},
	{name: "RecordsOutliveTheStore", run: func(k *kit) {
		version := k.mustPut("space", "key", 0, "value", never)
		k.mustPut("space", "other", 0, "value", never)
		k.delete("other", 0)
		k.reopen()
		k.wantRecord("space", "key", version, "value")
		k.wantRecord("space", "other", 0, "")
	}},
	{name: "SpacesAndKeysDoNotMeet", run: func(k *kit) {
		a := k.mustPut("ab", "c", 0, "1", never)
		b := k.mustPut("a", "bc", 0, "2", never)
		c := k.mustPut("abc", "", 0, "3", never)
		k.wantRecord("ab", "c", a, "1")
		k.wantRecord("a", "bc", b, "2")
		k.wantRecord("abc", "", c, "3")
		if keys := k.scan("a", "", ""); !slices.Equal(keys, []string{"bc"}) {
			k.Errorf("Scan of one space = %q", keys)
		}
	}},
	{name: "NamesAreAnyOctets", run: func(k *kit) {
		odd := []string{
			"\x00", "\x00\x00", "a\x00b", "%", "_", "a%", "a_c", "*", "?", "[a]", "'", `"`, `\`, ";--", "\xff", "\xff\xff",
			"\xc3\x28", "ä", "A", "a", "a/b", "../x", " ", "\n", strings.Repeat("\xff", store.MaxName),
		}
		want := make(map[string]uint64)
		for _, name := range odd {
			want[name] = k.mustPut("s\x00%", name, 0, "value of "+name, never)
		}
		slices.Sort(odd)
		if keys := k.scan("s\x00%", "", ""); !slices.Equal(keys, odd) {
			k.Errorf("Scan = %q, want %q", keys, odd)
		}
		for name, version := range want {
			k.wantRecord("s\x00%", name, version, "value of "+name)
			var with []string
			for _, other := range odd {
				if strings.HasPrefix(other, name) {
					with = append(with, other)
				}
			}
			// A key is not greater than an equal key, but begins with it.
			if keys := k.scan("s\x00%", name, ""); !slices.Equal(keys, with) {
				k.Errorf("Scan of prefix %q = %q, want %q", name, keys, with)
			}
		}
	}},
	{name: "ScanGoesOnAfterAKey", run: func(k *kit) {
		for _, key := range []string{"a", "b", "b1", "b2", "b3", "c"} {
			k.mustPut("space", key, 0, "value", never)
		}
		for _, c := range []struct {
			prefix, after string
			want          []string
		}{
			{"", "", []string{"a", "b", "b1", "b2", "b3", "c"}},
			{"b", "", []string{"b", "b1", "b2", "b3"}},
			{"b", "b", []string{"b1", "b2", "b3"}},
			{"b", "b2", []string{"b3"}},
			{"b", "b20", []string{"b3"}},
			{"b", "c", nil},
			{"b", "a", []string{"b", "b1", "b2", "b3"}},
			{"", "b3", []string{"c"}},
			{"d", "", nil},
		} {
			if keys := k.scan("space", c.prefix, c.after); !slices.Equal(keys, c.want) {
				k.Errorf("Scan(%q, after %q) = %q, want %q", c.prefix, c.after, keys, c.want)
			}
		}
	}},
	{name: "ScanStopsWhenYieldSaysSo", run: func(k *kit) {
		for i := range 10 {
			k.mustPut("space", fmt.Sprint(i), 0, "value", never)
		}
		calls := 0
		err := k.Scan(k.Context(), "space", "", "", func(string, uint64, []byte) bool {
			calls++
			return calls < 3
		})
		if err != nil || calls != 3 {
			k.Errorf("%d calls of yield, error %v, want 3", calls, err)
		}
	}},
	{name: "ScanReachesEveryRecordOfManyAndLarge", run: func(k *kit) {
		var want []string
		var pending sync.WaitGroup
		for i := range 700 {
			key := fmt.Sprintf("%04d", i)
			want = append(want, key)
			pending.Add(1)
			k.Put("space", key, 0, "owner", []byte(fill(i%5*3000)), never, func(r store.PutResult) {
				if !r.Wrote {
					k.Errorf("Put(%q): %v", key, r.Err)
				}
				pending.Done()
			})
		}
		pending.Wait()
		if keys := k.scan("space", "", ""); !slices.Equal(keys, want) {
			k.Errorf("Scan gives %d records, want %d", len(keys), len(want))
		}
	}},
	{name: "YieldMayUseTheStore", run: func(k *kit) {
		for i := range 3 {
			k.mustPut("space", fmt.Sprint(i), 0, "value", never)
		}
		for _, key := range k.scan("space", "", "") {
			err := k.Scan(k.Context(), "space", key, "", func(key string, version uint64, _ []byte) bool {
				k.wantRecord("space", key, version, "value")
				return k.delete(key, version)
			})
			if err != nil {
				k.Error(err)
			}
		}
		if keys := k.scan("space", "", ""); len(keys) != 0 {
			k.Errorf("%q are left", keys)
		}
	}},
	{name: "ValuesAreNotShared", run: func(k *kit) {
		value := []byte("value")
		c := make(chan store.PutResult, 1)
		k.Put("space", "key", 0, "owner", value, never, func(r store.PutResult) { c <- r })
		version := wait(k, c).Version
		clear(value)
		_, got := k.get("space", "key")
		clear(got)
		clear(k.put("space", "key", 0, "owner", "other", never).Current)
		k.wantRecord("space", "key", version, "value")
	}},
	{name: "OneOfManyPutsWins", run: func(k *kit) {
		const rivals, rounds = 8, 25
		var won [rivals]int
		var wg sync.WaitGroup
		for r := range rivals {
			wg.Go(func() {
				for won[r] < rounds {
					version, value := k.get("space", "counter")
					var n int
					_, _ = fmt.Sscan(string(value), &n)
					if p := k.put("space", "counter", version, "owner", fmt.Sprint(n+1), never); p.Err != nil {
						k.Error(p.Err)
						return
					} else if p.Wrote {
						won[r]++
					}
				}
			})
		}
		wg.Wait()
		if _, value := k.get("space", "counter"); string(value) != fmt.Sprint(rivals*rounds) {
			k.Errorf("counted %s, want %d", value, rivals*rounds)
		}
	}},
	{name: "OneOfManyMakersWins", run: func(k *kit) {
		var wrote atomic.Int64
		var pending sync.WaitGroup
		for i := range 64 {
			pending.Add(1)
			k.Put("space", "key", 0, "owner", []byte{byte(i)}, never, func(r store.PutResult) {
				if r.Wrote {
					wrote.Add(1)
				} else if r.Err != nil || len(r.Current) != 1 {
					k.Errorf("current %v, error %v", r.Current, r.Err)
				}
				pending.Done()
			})
		}
		pending.Wait()
		if wrote.Load() != 1 {
			k.Errorf("%d of 64 wrote, want 1", wrote.Load())
		}
	}},
	{name: "GetSeesWhatWasAcknowledged", run: func(k *kit) {
		var wg sync.WaitGroup
		for r := range 4 {
			wg.Go(func() {
				key := fmt.Sprint(r)
				var version uint64
				for i := range 50 {
					value := fmt.Sprint(i)
					p := k.put("space", key, version, "owner", value, never)
					if !p.Wrote {
						k.Errorf("Put = %+v", p)
						return
					}
					version = p.Version
					k.wantRecord("space", key, version, value)
				}
			})
		}
		wg.Wait()
	}},
}
