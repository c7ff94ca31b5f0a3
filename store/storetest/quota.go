package storetest

import (
	"fmt"
	"time"

	"github.com/slimwire/swp/store"
)

// fillUp puts records of one owner until one is refused, and returns their number.
func (k *kit) fillUp(owner string, expires time.Time) int {
	k.Helper()
	return k.fillUntil(owner, expires, store.ErrQuota)
}

func (k *kit) fillUntil(owner string, expires time.Time, refused *store.Error) int {
	k.Helper()
	for i := range 1000 {
		p := k.put("space", fmt.Sprintf("%s/%d", owner, i), 0, owner, fill(1000), expires)
		if p.Err != nil {
			k.wantErr("Put over the quota", p.Err, refused)
			if p.Wrote {
				k.Error("written and refused")
			}
			return i
		}
	}
	k.Fatal("1,000 records of 1,000 octets are not refused")
	return 0
}

// apart lets the callers of one peer have a quota each.
func apart(peer string) bool { return peer == "partner" }

var quota = []test{
	{name: "AnOwnerIsRefusedAboveItsQuota", options: Options{QuotaPerOwner: 20_000}, run: func(k *kit) {
		// The engine decides what names and overhead count, within the limits checked here.
		n := k.fillUp("a", never)
		if n < 10 || n > 19 {
			k.Errorf("%d records of 1,000 octets fit a quota of 20,000", n)
		}
		for i := range n {
			if version, value := k.get("space", fmt.Sprintf("a/%d", i)); version == 0 || len(value) != 1000 {
				k.Errorf("record %d of %d is lost", i, n)
			}
		}
		if other := k.fillUp("b", never); other != n {
			k.Errorf("%d records of another owner fit, want %d", other, n)
		}
		if a := k.append("space", "log", "", "a", fill(1000), never); a.Err == nil {
			k.Error("an entry of the first owner is not refused")
		} else {
			k.wantErr("Append over the quota", a.Err, store.ErrQuota)
		}
		k.wantSpan("log", 1, 0)
	}},
	{name: "APeerAndItsCallersHaveOneQuota", options: Options{QuotaPerOwner: 20_000, Apart: apart}, run: func(k *kit) {
		n := k.fillUp("other", never)
		if each := k.fillUp("partner for x", never); each != n || k.fillUp("partner for y", never) != n || k.fillUp("partner", never) != n {
			k.Errorf("%d records of a caller of a peer apart fit, want %d", each, n)
		}
		if mine := k.fillUp("peer for a", never); mine != n {
			k.Errorf("%d records of a caller fit, want %d", mine, n)
		}
		full := func(owners ...string) {
			k.Helper()
			for _, owner := range owners {
				if more := k.fillUp(owner, never); more > 0 {
					k.Errorf("%d more records fit as %s", more, owner)
				}
				if a := k.append("space", "log", "", owner, fill(1000), never); a.Err == nil {
					k.Errorf("an entry of %s is not refused", owner)
				} else {
					k.wantErr("Append over the quota of "+owner, a.Err, store.ErrQuota)
				}
			}
		}
		full("peer for b", "peer", "peer for far for c")
		if name := k.fillUp("peer fort", never); name != n { // an ordinary name
			k.Errorf("%d records of another peer fit, want %d", name, n)
		}
		k.reopen()
		full("peer for b", "peer")
		version, _ := k.get("space", "peer for a/0")
		k.delete("peer for a/0", version)
		if more := k.fillUp("peer for b", never); more != 1 {
			k.Errorf("%d records of another caller fit into the room of one", more)
		}
		full("peer for a")
	}},
	{name: "AppendAllAboveAQuotaWritesNothing", options: Options{QuotaPerOwner: 20_000}, run: func(k *kit) {
		list := []store.Entry{{ID: "a", Data: []byte(fill(9000))}, {ID: "b", Data: []byte(fill(9000))}}
		if r := k.appendAll("log", list); r.Err != nil {
			k.Fatal(r.Err)
		}
		more := []store.Entry{{ID: "a", Data: []byte(fill(9000))}, {ID: "c", Data: []byte("small")}, {ID: "d", Data: []byte(fill(9000))}}
		k.wantErr("AppendAll over the quota", k.appendAll("log", more).Err, store.ErrQuota)
		k.wantErr("AppendAll to a new log over the quota", k.appendAll("other", more).Err, store.ErrQuota)
		k.wantSpan("log", 1, 2)
		k.wantSpan("other", 1, 0)
		if r := k.appendAll("log", list); r.Err != nil || r.Seqs[1] != 2 {
			k.Errorf("AppendAll of what is there = %+v", r)
		}
		if r := k.appendAll("log", more[:2]); r.Err != nil || r.Seqs[1] != 3 {
			k.Errorf("AppendAll of what is there and little more = %+v", r)
		}
	}},
	{name: "RoomThatIsMadeIsThere", options: Options{QuotaPerOwner: 20_000}, run: func(k *kit) {
		n := k.fillUp("a", never)
		k.delete("a/3", 0)
		if p := k.put("space", "a/3", 0, "a", fill(1000), never); !p.Wrote {
			k.Errorf("Put after Delete = %+v", p)
		}
		version, _ := k.get("space", "a/4")
		p := k.put("space", "a/4", version, "a", fill(3000), never)
		k.wantErr("a larger value", p.Err, store.ErrQuota)
		k.wantRecord("space", "a/4", version, fill(1000))
		if p = k.put("space", "a/4", version, "a", "small", never); !p.Wrote {
			k.Errorf("a smaller value = %+v", p)
		}
		for i := range n {
			k.delete(fmt.Sprintf("a/%d", i), 0)
		}
		if again := k.fillUp("a", never); again != n {
			k.Errorf("%d records fit after all were deleted, want %d", again, n)
		}
		k.reopen()
		if p := k.put("space", "one more", 0, "a", fill(1000), never); p.Err == nil {
			k.Error("the quota is not used up any more after the store was opened again")
		}
	}},
	{name: "ARecordKeepsItsOwner", options: Options{QuotaPerOwner: 20_000}, run: func(k *kit) {
		n := k.fillUp("a", never)
		version, _ := k.get("space", "a/0")
		if p := k.put("space", "a/0", version, "b", "small", never); !p.Wrote {
			k.Fatalf("Put by another owner = %+v", p)
		}
		// Owner a has room again; owner b has used none.
		if p := k.put("space", "a/new", 0, "a", fill(900), never); !p.Wrote {
			k.Errorf("Put into the room = %+v", p)
		}
		if other := k.fillUp("b", never); other != n {
			k.Errorf("%d records of the other owner fit, want %d", other, n)
		}
	}},
	{name: "TrimDropAndExpiryMakeRoom", options: Options{QuotaPerOwner: 20_000}, clock: true, run: func(k *kit) {
		fillLog := func() (n int) {
			for {
				if a := k.append("space", "log", "", "a", fill(1000), k.in(time.Hour)); a.Err != nil {
					return n
				}
				n++
			}
		}
		n := fillLog()
		for _, step := range []struct {
			name string
			room func()
		}{
			{"Trim", func() { k.trim("log", 1<<64-1) }},
			{"Drop", func() { k.drop("log") }},
			{"expiry", func() { k.pass(time.Hour) }},
		} {
			step.room()
			if again := fillLog(); again != n {
				k.Errorf("%d entries fit after %s, want %d", again, step.name, n)
			}
		}
		k.pass(time.Hour)
		records := k.fillUp("a", k.in(time.Hour))
		k.pass(time.Hour)
		if again := k.fillUp("a", never); again != records {
			k.Errorf("%d records fit after others expired, want %d", again, records)
		}
	}},
	{name: "AKnownIDIsAnsweredAboveTheQuota", options: Options{QuotaPerOwner: 20_000}, run: func(k *kit) {
		if a := k.append("space", "log", "id", "a", "x", never); !a.Fresh {
			k.Fatalf("Append = %+v", a)
		}
		k.fillUp("a", never)
		for range 100 {
			if p := k.put("space", "fill "+fmt.Sprint(k.scan("space", "fill", "")), 0, "a", "", never); p.Err != nil {
				break
			}
		}
		if a := k.append("space", "log", "id", "a", "x", never); a != (store.AppendResult{Seq: 1, Equal: true}) {
			k.Errorf("Append of a known id = %+v, want its number", a)
		}
	}},
	{name: "TheStoreIsRefusedAboveItsQuota", options: Options{Quota: 40_000, QuotaPerOwner: 30_000}, run: func(k *kit) {
		a, b := k.fillUp("a", never), k.fillUntil("b", never, store.ErrShare)
		if b >= a || a+b > 39 {
			k.Errorf("%d and %d records of 1,000 octets fit 30,000 each and 40,000 in all", a, b)
		}
		k.delete("a/0", 0)
		if p := k.put("space", "b/new", 0, "b", fill(1000), never); !p.Wrote {
			k.Errorf("Put into the room that another owner has left = %+v", p)
		}
	}},
}
