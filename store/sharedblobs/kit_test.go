package sharedblobs_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sharedblobs"
	"github.com/slimwire/swp/store/sqlstore"
)

// cluster is what several processes share.
type cluster struct {
	records *sqlstore.Store
	dir     string
	objects func() sharedblobs.Objects // of one process
}

// inDirectory returns a cluster with a directory.
func inDirectory(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{records: newRecords(t), dir: t.TempDir()}
	c.objects = func() sharedblobs.Objects { return directory(t, c.dir) }
	return c
}

// inBucket returns a cluster with a bucket.
func inBucket(t testing.TB) (*cluster, *gateway) {
	t.Helper()
	g := newGateway(t)
	c := &cluster{records: newRecords(t), dir: g.dir}
	c.objects = func() sharedblobs.Objects { return g.bucket(t, "bucket") }
	return c, g
}

func newRecords(t testing.TB) *sqlstore.Store {
	t.Helper()
	r, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// process opens the store as one of several processes. It is closed at the end of the test.
func (c *cluster) process(t testing.TB, o sharedblobs.Options) *sharedblobs.Store {
	t.Helper()
	if o.Records == nil {
		o.Records = c.records
	}
	if o.Objects == nil {
		o.Objects = c.objects()
	}
	o.Space = "blobs"
	s, err := sharedblobs.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// outcome is the result of an operation.
type outcome struct {
	ok  bool
	err error
}

func did(t testing.TB, submit func(done func(bool, error))) outcome {
	t.Helper()
	c := make(chan outcome, 1)
	submit(func(ok bool, err error) { c <- outcome{ok, err} })
	select {
	case o := <-c:
		return o
	case <-time.After(2 * time.Minute):
		t.Fatal("done was not called")
		panic("unreachable")
	}
}

func must(t testing.TB, o outcome) {
	t.Helper()
	if !o.ok || o.err != nil {
		t.Fatalf("%v, %v, want it done", o.ok, o.err)
	}
}

func begin(t testing.TB, s store.Blobs, name, owner string) outcome {
	t.Helper()
	return did(t, func(done func(bool, error)) { s.Begin(name, owner, 0, nil, []byte("note"), time.Hour, done) })
}

func grow(t testing.TB, s store.Blobs, name string, at int, data []byte) outcome {
	t.Helper()
	return did(t, func(done func(bool, error)) { s.Append(name, uint64(at), uint64(at+len(data)), data, done) })
}

func seal(t testing.TB, s store.Blobs, name string, octets []byte) outcome {
	t.Helper()
	return did(t, func(done func(bool, error)) { s.Seal(name, sha256.Sum256(octets), 0, done) })
}

func remove(t testing.TB, s store.Blobs, name string) outcome {
	t.Helper()
	return did(t, func(done func(bool, error)) { s.Remove(name, 0, done) })
}

// put makes a blob.
func put(t testing.TB, s store.Blobs, name string, octets []byte) {
	t.Helper()
	must(t, begin(t, s, name, "owner"))
	must(t, grow(t, s, name, 0, octets))
	must(t, seal(t, s, name, octets))
}

func read(t testing.TB, s store.Blobs, name string) ([]byte, error) {
	t.Helper()
	b, found, err := s.Blob(t.Context(), name)
	if !found || err != nil {
		return nil, errors.Join(errors.New("there is no such blob"), err)
	}
	p := make([]byte, b.Size)
	n, found, err := s.ReadAt(t.Context(), name, b.Version, p, 0)
	if err == nil && (!found || n != len(p)) {
		t.Fatalf("ReadAt: %d of %d octets, found %v", n, len(p), found)
	}
	return p, err
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// keys returns the keys of all objects with octets.
func (c *cluster) keys(t testing.TB) (all []string) {
	t.Helper()
	o := c.objects()
	defer func() { _ = o.Close() }()
	err := o.List(t.Context(), "octets/", func(key string, _ time.Time) bool {
		all = append(all, key)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wantUsage waits until the ledger has this usage of an owner, with no operation under way.
func wantUsage(t testing.TB, s *sharedblobs.Store, owner string, octets, items int64) {
	t.Helper()
	want := sharedblobs.Account{Octets: octets, Items: items}
	until(t, func() bool {
		got, err := s.Account(t.Context(), owner)
		if err != nil {
			t.Fatal(err)
		}
		return got == want
	}, func() {
		got, err := s.Account(t.Context(), owner)
		t.Fatalf("usage is %+v, %v, want %+v", got, err, want)
	})
}

// until waits for a condition.
func until(t testing.TB, is func() bool, otherwise func()) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			otherwise()
		}
	}
}

// records fail as a test says.
type records struct {
	store.Records
	cut   atomic.Bool // nothing is answered but that the records are unavailable
	lose  atomic.Bool // what is written is answered so
	reads atomic.Bool // reads are answered so
	full  atomic.Bool // writes are refused for the quota of the records, after as many as
	spare atomic.Int64
}

var errCut = store.Unavailable(errors.New("the test has cut the connection"))

func (r *records) Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	switch {
	case r.full.Load() && r.spare.Add(-1) < 0:
		go done(store.PutResult{Err: store.ErrQuota})
	case r.cut.Load():
		go done(store.PutResult{Err: errCut})
	case r.lose.Load():
		r.Records.Put(space, key, was, owner, value, expires, func(store.PutResult) { done(store.PutResult{Err: errCut}) })
	default:
		r.Records.Put(space, key, was, owner, value, expires, done)
	}
}

func (r *records) Get(ctx context.Context, space, key string) (uint64, []byte, error) {
	if r.cut.Load() || r.reads.Load() {
		return 0, nil, errCut
	}
	return r.Records.Get(ctx, space, key)
}

// objects call before each change what a test says, and fail with its error.
type objects struct {
	sharedblobs.Objects
	before func(change, key string) error
}

func (o *objects) Put(ctx context.Context, key string, octets []byte) error {
	if err := o.before("put", key); err != nil {
		return err
	}
	return o.Objects.Put(ctx, key, octets)
}

func (o *objects) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := o.before("delete", key); err != nil {
			return err
		}
	}
	return o.Objects.Delete(ctx, keys...)
}
