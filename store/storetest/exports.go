package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/archive"
)

// exported returns the file of an export with one section.
func exported(k *kit, from any) []byte {
	k.Helper()
	return exportedWith(k, from, func(store.Piece) {})
}

// exportedWith is exported. It calls each with the pieces before they are written.
func exportedWith(k *kit, from any, each func(store.Piece)) []byte {
	k.Helper()
	var file bytes.Buffer
	w := archive.NewWriter(&file)
	err := w.Begin("content")
	if err == nil {
		err = from.(store.Exporter).Export(k.Context(), func(p store.Piece) error {
			each(p)
			return w.Write(p)
		})
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = w.End()
	}
	if err != nil {
		k.Fatal(err)
	}
	return file.Bytes()
}

// imported fills an engine with the section of a file.
func imported(k *kit, to any, file []byte) error {
	k.Helper()
	r := archive.NewReader(bytes.NewReader(file))
	if _, err := r.Section(); err != nil {
		return err
	}
	return to.(store.Importer).Import(k.Context(), r.Next)
}

// pieces returns the pieces of a file after Start.
func pieces(k *kit, file []byte) (all []string) {
	k.Helper()
	r := archive.NewReader(bytes.NewReader(file))
	_, err := r.Section()
	for err == nil {
		var p store.Piece
		if p, err = r.Next(); err == nil {
			switch large := p.(type) {
			case *store.Record:
				large.Value = short(large.Value)
			case *store.Octets:
				large.Data = short(large.Data)
			}
			all = append(all, fmt.Sprintf("%T %+v", p, p))
		}
	}
	if err != io.EOF || len(all) == 0 {
		k.Fatalf("after %d pieces: %v", len(all), err)
	}
	return all[1:]
}

// short returns a digest in place of many octets.
func short(b []byte) []byte {
	if len(b) < 1000 {
		return b
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// second opens another, empty store with a separate clock. The test closes it.
func (k *kit) second() *kit {
	k.Helper()
	other := &kit{T: k.T, open: k.open, dir: k.TempDir(), options: k.options, memory: k.memory, now: k.clock()}
	if k.options.Now != nil {
		other.options.Now = other.clock
	}
	other.opens()
	k.Cleanup(func() {
		if err := other.Close(); err != nil {
			k.Error(err)
		}
	})
	return other
}

// copied returns a second store with the content of the first.
func (k *kit) copied() *kit {
	k.Helper()
	other := k.second()
	file := exported(k, k.Store)
	if err := imported(k, other.Store, file); err != nil {
		k.Fatal(err)
	}
	k.wantSame("the export of the import", strings.Join(pieces(k, file), "\n"), strings.Join(pieces(k, exported(k, other.Store)), "\n"))
	k.wantSame("what the import shows", observed(k, true), observed(other, true))
	return other
}

// observed returns what a client sees of the content that populate makes. Without numbers it leaves
// out those that another engine may give otherwise.
func observed(k *kit, numbers bool) string {
	k.Helper()
	var seen strings.Builder
	ctx := k.Context()
	number := func(n uint64) uint64 {
		if numbers {
			return n
		}
		return 0
	}
	for _, space := range []string{"space", "other", "none"} {
		err := k.Scan(ctx, space, "", "", func(key string, version uint64, value []byte) bool {
			got, octets, err := k.Get(ctx, space, key)
			_, _ = fmt.Fprintf(&seen, "record %q %q %d %d octets, %d %v %t\n", space, key, number(version), len(value), number(got), err, bytes.Equal(octets, value))
			return true
		})
		if err != nil {
			k.Fatal(err)
		}
		for _, log := range []string{"log", "trimmed", "expired", "long", "none", "dropped"} {
			first, last, err := k.Span(ctx, space, log)
			_, _ = fmt.Fprintf(&seen, "log %q %q %d to %d %v\n", space, log, first, last, err)
			err = k.Read(ctx, space, log, 0, func(seq uint64, id string, data []byte) bool {
				_, _ = fmt.Fprintf(&seen, "entry %d %q %q\n", seq, id, data)
				return true
			})
			if err != nil {
				k.Fatal(err)
			}
		}
		ids, err := k.IDs(ctx, space, "", 1000)
		if err != nil {
			k.Fatal(err)
		}
		for _, id := range ids {
			queue, state, tries, err := k.Item(ctx, space, id)
			data, failed := k.Data(ctx, space, id)
			if state != "" {
				_, _ = fmt.Fprintf(&seen, "item %q %q in %q %q %d %v: %q %v\n", space, id, queue, state, tries, err, data, failed)
			}
		}
		for _, queue := range []string{"queue", "dead", "none"} {
			err := k.Items(ctx, space, queue, 0, func(n uint64, id string, tries int, data []byte) bool {
				_, _ = fmt.Fprintf(&seen, "%q %q: %d %q %d %q\n", space, queue, number(n), id, tries, data)
				return true
			})
			if err != nil {
				k.Fatal(err)
			}
		}
	}
	return seen.String()
}

// numbers of populate that are not in the content.
type numbers struct {
	held, lapsed uint64 // leases that have not ended
	deleted      uint64 // the last version, of a record that was deleted
}

// populate writes content of every kind.
func populate(k *kit) (l numbers) {
	k.Helper()
	v := k.mustPut("space", "key", 0, "first", never)
	k.mustPut("space", "key", v, "second", never)
	k.mustPut("space", "", 0, "", never)
	k.mustPut("space", "brief", 0, "value", k.in(time.Hour))
	k.mustPut("space", "gone", 0, "value", k.in(time.Second))
	k.mustPut("space", "large", 0, fill(store.MaxValue), never)
	if p := k.put("other", "key\x00\xff", 0, "", "of the endpoint", never); !p.Wrote {
		k.Fatal(p)
	}

	k.mustAppend("log", "", "without an id", never, 1)
	k.mustAppend("log", "id", "with an id", never, 2)
	k.mustAppend("log", "brief", "expires", k.in(time.Hour), 3)
	k.mustAppend("log", "gone", "", k.in(time.Second), 4)
	k.mustAppend("trimmed", "id", "data", never, 1)
	k.mustAppend("trimmed", "", "data", never, 2)
	k.trim("trimmed", 2)
	k.mustAppend("expired", "id", "data", k.in(time.Second), 1)
	k.appendTogether("long", 1000, func(i int) time.Time { return never })
	k.trim("long", 700)
	k.mustAppend("dropped", "id", "data", never, 1)
	k.drop("dropped")
	if a := k.append("other", "log", "id", "another", "data", never); !a.Fresh {
		k.Fatal(a)
	}

	keep := k.in(24 * time.Hour)
	for _, id := range []string{"done", "held", "lapsed", "tried", "later", "dead", "forgotten"} {
		k.mustAdd("queue", id, "data of "+id, never)
	}
	if a := k.add("queue", "remembered", "mark", "owner", "data", never, keep); !a.Fresh {
		k.Fatal(a)
	}
	take := func(id string, until time.Time) uint64 {
		r := k.leaseItem(id, until)
		if r.Lease == 0 || r.Err != nil {
			k.Fatalf("lease of %q: %+v", id, r)
		}
		return r.Lease
	}
	ends := func(held bool) {
		if !held {
			k.Fatal("a lease was not held")
		}
	}
	first := k.lease("queue", k.in(time.Minute)) // counts as a try
	ends(k.nack(first.ID, first.Lease, never, true))
	ends(k.ack("remembered", take("remembered", k.in(time.Minute))))
	ends(k.ack("forgotten", take("forgotten", k.in(time.Minute))))
	ends(k.nack("later", take("later", k.in(time.Minute)), k.in(30*time.Minute), true))
	ends(k.move("dead", take("dead", k.in(time.Minute)), "dead", "why", k.in(2*time.Hour)))
	l.held = take("held", k.in(20*time.Minute))
	l.lapsed = take("lapsed", k.in(time.Second))
	if a := k.add("queue", "expiring", "mark", "another", "", k.in(time.Hour), never); !a.Fresh {
		k.Fatal(a)
	}
	k.pass(2 * time.Second)
	l.deleted = k.mustPut("space", "deleted", 0, "value", never)
	if !k.delete("deleted", 0) {
		k.Fatal("not deleted")
	}
	return l
}

// answers performs operations whose outcome depends on what is not seen of the content, and returns
// the outcomes.
func answers(k *kit, l numbers) string {
	k.Helper()
	var told strings.Builder
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(&told, format+"\n", args...) }
	if v := k.mustPut("space", "deleted", 0, "again", never); v <= l.deleted {
		k.Errorf("version %d after %d was deleted", v, l.deleted)
	}
	version, _ := k.get("space", "key")
	p := k.put("space", "key", version-1, "owner", "x", never)
	say("put over an old version: %t %t", p.Wrote, p.Version == version)
	p = k.put("space", "key", version, "owner", "third", never)
	say("put over the version: %t", p.Wrote)
	for _, log := range []string{"log", "trimmed", "expired", "long", "dropped", "new"} {
		for _, id := range []string{"id", "gone", "brief", "id 1", "id 900", ""} {
			say("append to %q of %q: %+v", log, id, k.append("space", log, id, "owner", "with an id", never))
		}
	}
	for _, id := range []string{"remembered", "forgotten", "held", "dead"} {
		say("add of %q: %+v", id, k.add("queue", id, "mark", "owner", "data", never, never))
	}
	say("acks: %t %t %t", k.ack("held", l.held+100), k.ack("lapsed", l.lapsed), k.ack("tried", l.lapsed))
	for range 3 { // moves the clock past leases, due times and expiries
		for _, queue := range []string{"queue", "dead"} {
			for {
				r := k.lease(queue, k.in(100*time.Hour))
				say("lease in %q: %t %q %d %t %q %v %v", queue, r.Lease > l.held, r.ID, r.Tries, r.Expired, r.Data, r.Next, r.Err)
				if r.Lease == 0 {
					break
				}
			}
		}
		k.pass(25 * time.Minute)
	}
	say("ack of a lease that another has taken: %t", k.ack("held", l.held))
	say("%s", observed(k, false))
	k.pass(24 * time.Hour)
	say("%s", observed(k, false))
	say("add of an id that is forgotten: %+v", k.add("queue", "remembered", "mark", "owner", "data", never, never))
	return told.String()
}

// untilRefused submits writes until one is refused, because Close has begun. Those before it are
// done when the engine goes on.
func (k *kit) untilRefused() {
	refused := make(chan struct{})
	var once sync.Once
	for {
		k.Put("space", "key", 0, "owner", nil, never, func(p store.PutResult) {
			if errors.Is(p.Err, store.ErrClosed) {
				once.Do(func() { close(refused) })
			}
		})
		select {
		case <-refused:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

var exports = []test{
	{name: "AnImportShowsAndAnswersLikeTheExported", clock: true, run: func(k *kit) {
		l := populate(k)
		other := k.copied()
		k.wantSame("answers", answers(k, l), answers(other, l))
	}},
	{name: "AnImportIsKept", clock: true, run: func(k *kit) {
		l := populate(k)
		other := k.copied()
		other.reopen()
		k.wantSame("what the import shows", observed(k, true), observed(other, true))
		k.wantSame("answers", answers(k, l), answers(other, l))
	}},
	{name: "AnEmptyStoreCanBeExported", run: func(k *kit) {
		other := k.second()
		if err := imported(k, other.Store, exported(k, k.Store)); err != nil {
			k.Fatal(err)
		}
		other.mustPut("space", "key", 0, "value", never)
	}},
	{name: "LifetimesRemainIfTheClockOfTheExportedWasAhead", clock: true, run: func(k *kit) {
		k.mustPut("space", "key", 0, "value", k.in(3*time.Hour))
		k.pass(2 * time.Hour)
		k.mustPut("space", "other", 0, "value", never) // the store has seen the time
		k.pass(-2 * time.Hour)
		other := k.copied()
		other.pass(time.Hour - time.Second)
		if version, _ := other.get("space", "key"); version == 0 {
			k.Error("the record expired before its time")
		}
		version := other.mustPut("space", "new", 0, "value", other.in(time.Minute))
		other.pass(time.Second)
		other.wantRecord("space", "key", 0, "")
		other.wantRecord("space", "new", version, "value")
		other.pass(time.Minute)
		other.wantRecord("space", "new", 0, "")
	}},
	{name: "AnImportCountsAgainstQuotas", options: Options{QuotaPerOwner: 1 << 20}, run: func(k *kit) {
		k.mustPut("space", "key", 0, fill(1<<20-1000), never)
		k.mustAppend("log", "id", fill(200), never, 1)
		k.mustAdd("queue", "id", fill(200), never)
		other := k.copied()
		for _, one := range []*kit{k, other} {
			p := one.put("space", "more", 0, "owner", fill(500), never)
			one.wantErr("Put above the quota", p.Err, store.ErrQuota)
			one.trim("log", 1)
			if !one.delete("key", 0) {
				k.Fatal("not deleted")
			}
			one.mustPut("space", "more", 0, fill(1<<20-2000), never)
		}
	}},
	{name: "AnImportNeedsAStoreThatWasNeverWritten", run: func(k *kit) {
		k.mustPut("space", "key", 0, "value", never)
		file := exported(k, k.Store)
		k.wantErr("Import into what is exported", imported(k, k.Store, file), store.ErrUsed)
		k.delete("key", 0)
		k.wantErr("Import after the last record was removed", imported(k, k.Store, file), store.ErrUsed)
		other := k.second()
		if err := imported(k, other.Store, file); err != nil {
			k.Fatal(err)
		}
		k.wantErr("a second Import", imported(k, other.Store, file), store.ErrUsed)
	}},
	{name: "AfterAFailedImportTheStoreIsEmpty", clock: true, run: func(k *kit) {
		l := populate(k)
		file := exported(k, k.Store)
		other := k.second()
		empty := observed(other, true)
		total := len(pieces(k, file)) + 1
		gone := errors.New("gone")
		for _, good := range []int{0, 1, 5, total / 2, total} {
			r := archive.NewReader(bytes.NewReader(file))
			if _, err := r.Section(); err != nil {
				k.Fatal(err)
			}
			came := 0
			err := other.Store.(store.Importer).Import(k.Context(), func() (store.Piece, error) {
				if came++; came > good {
					return nil, gone
				}
				return r.Next()
			})
			if !errors.Is(err, gone) {
				k.Errorf("after %d pieces: %v, want that of the source", good, err)
			}
			k.wantSame("what a failed import shows", empty, observed(other, true))
		}
		if err := other.check(); err != nil {
			k.Error(err)
		}
		if err := imported(k, other.Store, file); err != nil {
			k.Fatal(err)
		}
		k.wantSame("answers", answers(k, l), answers(other, l))
	}},
	{name: "AnImportRefusesPiecesThatDoNotFit", run: func(k *kit) {
		start := &store.Start{Clock: 1, Versions: 10, Items: 10}
		record := &store.Record{Space: "space", Key: "key", Version: 1}
		log := &store.Log{Space: "space", Name: "log", Last: 2}
		entry := func(seq uint64, id string) store.Piece { return &store.LogEntry{Seq: seq, ID: id} }
		item := func(id string, n uint64) store.Piece {
			return &store.Item{Space: "space", Queue: "queue", ID: id, Number: n, Data: []byte("data")}
		}
		for name, all := range map[string][]store.Piece{
			"no piece":                           {},
			"a record before the start":          {record},
			"two starts":                         {start, start},
			"a clock without end":                {&store.Start{Clock: 1 << 63}},
			"counters without end":               {&store.Start{Versions: 1<<63 - 1}},
			"a record twice":                     {start, record, record},
			"a record without a version":         {start, &store.Record{Space: "space", Key: "key"}},
			"a record above the last version":    {start, &store.Record{Space: "space", Key: "key", Version: 11}},
			"a record too large":                 {start, &store.Record{Version: 1, Value: make([]byte, store.MaxValue+1)}},
			"a key too long":                     {start, &store.Record{Version: 1, Key: fill(store.MaxName + 1)}},
			"an expiry without end":              {start, &store.Record{Version: 1, Expires: 1 << 63}},
			"an entry without a log":             {start, entry(1, "")},
			"an entry after a record":            {start, log, record, entry(1, "")},
			"entry 0":                            {start, log, entry(0, "")},
			"an entry after the last of its log": {start, log, entry(3, "")},
			"entries that go back":               {start, log, entry(2, ""), entry(1, "")},
			"an id twice in a log":               {start, log, entry(1, "id"), entry(2, "id")},
			"a log twice":                        {start, log, log},
			"an item twice":                      {start, item("id", 1), item("id", 2)},
			"two items with a number":            {start, item("id", 1), item("another", 1)},
			"an item above the last number":      {start, item("id", 11)},
			"a lease above the last number":      {start, &store.Item{ID: "id", Number: 1, Lease: 11}},
			"a done item with data":              {start, &store.Item{ID: "id", Number: 1, Done: true, Data: []byte("data")}},
			"an item of more tries than can be":  {start, &store.Item{ID: "id", Number: 1, Tries: 1 << 31}},
			"octets that are of no blob":         {start, &store.Octets{Data: []byte("data")}},
			"a blob":                             {start, &store.Blob{Name: "name"}},
			"what is good, and then what is not": {start, record, log, entry(1, "id"), item("id", 1), item("id", 1)},
		} {
			err := k.Store.(store.Importer).Import(k.Context(), func() (store.Piece, error) {
				if len(all) == 0 {
					return nil, io.EOF
				}
				p := all[0]
				all = all[1:]
				return p, nil
			})
			if err == nil {
				k.Errorf("%s: imported", name)
			}
			if errors.Is(err, store.ErrUsed) {
				k.Fatalf("%s: %v, although what was before was refused", name, err)
			}
		}
		if err := k.check(); err != nil {
			k.Error(err)
		}
		k.mustPut("space", "key", 0, "value", never)
	}},
	{name: "AnExportHasAllThatWasAcknowledgedBefore", run: func(k *kit) {
		const writers, rounds, each = 4, 5, 100
		var last [writers]atomic.Uint64 // acknowledged
		told := make(chan error, writers*rounds*each)
		var write func(i int, n, most uint64)
		write = func(i int, n, most uint64) {
			name := fmt.Sprintf("%d %08d", i, n)
			k.Append("space", fmt.Sprint("log ", i), name, "owner", []byte("data"), never, func(a store.AppendResult) {
				k.Put("space", name, 0, "owner", []byte("value"), never, func(p store.PutResult) {
					k.Add("space", fmt.Sprint("queue ", i), name, "mark", "owner", []byte("data"), never, never, func(q store.AddResult) {
						last[i].Store(n)
						told <- errors.Join(a.Err, p.Err, q.Err)
						if n < most {
							write(i, n+1, most)
						}
					})
				})
			})
		}
		for round := range uint64(rounds) {
			for i := range writers {
				write(i, round*each+1, (round+1)*each)
			}
			one := func() {
				if err := wait(k, told); err != nil {
					k.Error(err)
				}
			}
			for range each {
				one()
			}
			var before [writers]uint64
			for i := range writers {
				before[i] = last[i].Load()
			}
			other := k.second()
			if err := imported(k, other.Store, exported(k, k.Store)); err != nil {
				k.Fatal(err)
			}
			for i, want := range before {
				entries := other.read(fmt.Sprint("log ", i), 0)
				records := other.scan("space", fmt.Sprint(i, " "), "")
				items, _ := other.items(fmt.Sprint("queue ", i), 0)
				if e, r, n := len(entries), len(records), len(items); uint64(n) < want || r < n || e < r || e > n+1 {
					k.Errorf("round %d, writer %d: %d entries, %d records and %d items are exported, %d of each were acknowledged", round, i, e, r, n, want)
				}
			}
			for range (writers - 1) * each {
				one()
			}
		}
	}},
	{name: "AnExportEndsWithItsContextItsYieldAndTheStore", run: func(k *kit) {
		for i := range 100 {
			k.mustPut("space", fmt.Sprint(i), 0, "value", never)
		}
		from := k.Store.(store.Exporter)
		ctx, cancel := context.WithCancel(k.Context())
		n := 0
		err := from.Export(ctx, func(store.Piece) error {
			if n++; n == 10 {
				cancel()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) || n != 10 {
			k.Errorf("after its context has ended: %d pieces, %v", n, err)
		}
		gone := errors.New("gone")
		if err := from.Export(k.Context(), func(store.Piece) error { return gone }); !errors.Is(err, gone) {
			k.Errorf("%v, want the error of yield", err)
		}
		err = k.second().Store.(store.Importer).Import(ctx, func() (store.Piece, error) { return &store.Start{}, nil })
		if !errors.Is(err, context.Canceled) {
			k.Errorf("Import after its context has ended: %v", err)
		}
		k.mustPut("space", "key", 0, "value", never)
		closed := k.second()
		closed.mustPut("space", "key", 0, "value", never)
		ended := make(chan error)
		err = closed.Store.(store.Exporter).Export(k.Context(), func(p store.Piece) error {
			if _, is := p.(*store.Start); is {
				go func() { ended <- closed.Close() }()
				closed.untilRefused()
			}
			return nil
		})
		k.wantErr("Export of a store that closes", err, store.ErrClosed)
		if err := wait(k, ended); err != nil {
			k.Error(err)
		}
		k.wantErr("Export of a closed store", closed.Store.(store.Exporter).Export(k.Context(), func(store.Piece) error { return nil }), store.ErrClosed)
	}},
}
