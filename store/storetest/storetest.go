// Package storetest tests the contract of package store for an engine.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
)

// Options are the options that a test needs. Zero fields mean the defaults of the engine.
type Options struct {
	Now           func() time.Time // the clock for expiry
	Quota         int64            // octets of the store
	QuotaPerOwner int64            // octets of one owner
	Apart         func(peer string) bool
	QueueLength   int // pending operations
	Waiting       int // unfinished items of one work queue
	Remembered    int // remembered items of a space
}

// Open opens the store of a directory: a new one if the directory is empty, otherwise with
// the content of the previous, closed one.
type Open func(t *testing.T, dir string, options Options) (store.Store, error)

// Run tests an engine. Every test uses a new store.
func Run(t *testing.T, open Open) { run(t, open, false) }

// RunMemory tests an engine whose Close loses all content.
func RunMemory(t *testing.T, open Open) { run(t, open, true) }

func run(t *testing.T, open Open, memory bool) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Records", records},
		{"Logs", logs},
		{"Queues", queues},
		{"Expiry", expiry},
		{"Quota", quota},
		{"Writing", writing},
		{"Limits", limits},
		{"Locks", locks},
		{"Exports", exports},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					k := &kit{T: t, open: open, dir: t.TempDir(), options: test.options, memory: memory}
					k.now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
					if test.clock {
						k.options.Now = k.clock
					}
					k.opens()
					defer func() {
						if err := k.Close(); err != nil {
							t.Error(err)
						}
					}()
					test.run(k)
				})
			}
		})
	}
}

type test struct {
	name    string
	run     func(k *kit)
	options Options
	clock   bool // the test moves the clock
}

// patience limits the wait for an expected event.
const patience = time.Minute

// never is the expiry that does not come.
var never time.Time

// did is an operation whose done function may have been called.
type did struct {
	ok  bool
	err error
}

func wait[T any](k *kit, c <-chan T) T {
	k.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		k.Fatal("done was not called")
		panic("unreachable")
	}
}

func (k *kit) put(space, key string, was uint64, owner, value string, expires time.Time) store.PutResult {
	k.Helper()
	c := make(chan store.PutResult, 1)
	k.Put(space, key, was, owner, []byte(value), expires, func(r store.PutResult) { c <- r })
	return wait(k, c)
}

// mustPut writes a new record, or one with a version, and returns the new version.
func (k *kit) mustPut(space, key string, was uint64, value string, expires time.Time) uint64 {
	k.Helper()
	p := k.put(space, key, was, "owner", value, expires)
	if p.Err != nil || !p.Wrote || p.Version == 0 || p.Current != nil {
		k.Fatalf("Put(%q, %q, %d) = %+v, want written", space, key, was, p)
	}
	return p.Version
}

func (k *kit) delete(key string, was uint64) bool {
	k.Helper()
	c := make(chan did, 1)
	k.Delete("space", key, was, func(removed bool, err error) { c <- did{removed, err} })
	d := wait(k, c)
	if d.err != nil {
		k.Fatalf("Delete(%q, %d): %v", key, was, d.err)
	}
	return d.ok
}

func (k *kit) get(space, key string) (uint64, []byte) {
	k.Helper()
	version, value, err := k.Get(k.Context(), space, key)
	if err != nil {
		k.Fatalf("Get(%q, %q): %v", space, key, err)
	}
	return version, value
}

func (k *kit) wantRecord(space, key string, version uint64, value string) {
	k.Helper()
	if got, octets := k.get(space, key); got != version || string(octets) != value {
		k.Errorf("Get(%q, %q) = version %d, %q, want version %d, %q", space, key, got, octets, version, value)
	}
}

func (k *kit) scan(space, prefix, after string) (keys []string) {
	k.Helper()
	err := k.Scan(k.Context(), space, prefix, after, func(key string, version uint64, _ []byte) bool {
		if version == 0 {
			k.Errorf("Scan: %q has version 0", key)
		}
		keys = append(keys, key)
		return true
	})
	if err != nil {
		k.Fatalf("Scan(%q, %q, %q): %v", space, prefix, after, err)
	}
	return keys
}

func (k *kit) append(space, log, id, owner, data string, expires time.Time) store.AppendResult {
	k.Helper()
	c := make(chan store.AppendResult, 1)
	k.Append(space, log, id, owner, []byte(data), expires, func(r store.AppendResult) { c <- r })
	return wait(k, c)
}

// mustAppend appends an entry and expects its number.
func (k *kit) mustAppend(log, id, data string, expires time.Time, seq uint64) {
	k.Helper()
	if a := k.append("space", log, id, "owner", data, expires); a != (store.AppendResult{Seq: seq, Fresh: true}) {
		k.Fatalf("Append(%q, %q) = %+v, want a fresh %d", log, id, a, seq)
	}
}

func (k *kit) appendAll(log string, entries []store.Entry) store.AppendAllResult {
	k.Helper()
	c := make(chan store.AppendAllResult, 1)
	k.AppendAll("space", log, "owner", entries, never, func(r store.AppendAllResult) { c <- r })
	return wait(k, c)
}

// appendTogether appends entries with the ids "id 1" and on, without waiting for each.
func (k *kit) appendTogether(log string, entries int, expires func(i int) time.Time) {
	k.Helper()
	told := make(chan store.AppendResult, entries)
	for i := 1; i <= entries; i++ {
		k.Append("space", log, fmt.Sprint("id ", i), "owner", fmt.Append(nil, "data ", i), expires(i), func(r store.AppendResult) { told <- r })
	}
	for i := range entries {
		if r := wait(k, told); r != (store.AppendResult{Seq: uint64(i + 1), Fresh: true}) {
			k.Fatalf("entry %d: %+v", i+1, r)
		}
	}
}

func (k *kit) done(submit func(done func(error))) {
	k.Helper()
	c := make(chan error, 1)
	submit(func(err error) { c <- err })
	if err := wait(k, c); err != nil {
		k.Fatal(err)
	}
}

func (k *kit) trim(log string, through uint64) {
	k.Helper()
	k.done(func(done func(error)) { k.Trim("space", log, through, done) })
}

func (k *kit) drop(log string) {
	k.Helper()
	k.done(func(done func(error)) { k.Drop("space", log, done) })
}

type entry struct {
	seq      uint64
	id, data string
}

func (k *kit) read(log string, after uint64) (entries []entry) {
	k.Helper()
	err := k.Read(k.Context(), "space", log, after, func(seq uint64, id string, data []byte) bool {
		entries = append(entries, entry{seq, id, string(data)})
		return true
	})
	if err != nil {
		k.Fatalf("Read(%q, %d): %v", log, after, err)
	}
	return entries
}

func (k *kit) wantSpan(log string, first, last uint64) {
	k.Helper()
	f, l, err := k.Span(k.Context(), "space", log)
	if err != nil {
		k.Fatal(err)
	}
	if f != first || l != last {
		k.Errorf("Span(%q) = %d to %d, want %d to %d", log, f, l, first, last)
	}
}

// wantErr expects an error of a kind, with the properties of the kind.
func (k *kit) wantErr(what string, err error, kind *store.Error) {
	k.Helper()
	if !errors.Is(err, kind) {
		k.Errorf("%s: error %v, want %v", what, err, kind)
		return
	}
	var said interface {
		StoreDetail() string
		Retryable() bool
	}
	if !errors.As(err, &said) || said.StoreDetail() != kind.StoreDetail() || said.Retryable() != kind.Retryable() {
		k.Errorf("%s: error %v does not say %q", what, err, kind.StoreDetail())
	}
}

func fill(size int) string { return string(bytes.Repeat([]byte{'x'}, size)) }

func (k *kit) check() error {
	ctx, cancel := context.WithTimeout(k.Context(), patience)
	defer cancel()
	return k.Check(ctx)
}
