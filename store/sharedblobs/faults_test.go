package sharedblobs_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sharedblobs"
)

// path returns the file of the only object with octets.
func (c *cluster) path(t testing.TB) string {
	t.Helper()
	keys := c.keys(t)
	if len(keys) != 1 {
		t.Fatalf("objects %q, want one", keys)
	}
	return filepath.Join(c.dir, "objects", keys[0])
}

func TestST04AFlippedBitOfAnObjectIsNeverServed(t *testing.T) {
	octets := random(200_000)
	for _, at := range []int{0, 65_531, 65_533, 131_072, 200_000} {
		c := inDirectory(t)
		s := c.process(t, sharedblobs.Options{})
		put(t, s, "the blob", octets)
		path := c.path(t)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[at] ^= 4
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, process := range []*sharedblobs.Store{s, c.process(t, sharedblobs.Options{})} {
			b, _, _ := process.Blob(t.Context(), "the blob")
			for range 2 {
				n, _, err := process.ReadAt(t.Context(), "the blob", b.Version, make([]byte, len(octets)), 0)
				if !errors.Is(err, store.ErrDamaged) || n != 0 {
					t.Errorf("octet %d: ReadAt = %d, %v, want ErrDamaged", at, n, err)
				}
			}
			if _, found, err := process.Blob(t.Context(), "the blob"); found || err != nil {
				t.Error("Blob names a damaged one")
			}
			if err := process.Check(t.Context()); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), `"the blob"`) {
				t.Errorf("Check: %v, want the name", err)
			}
		}
		put(t, s, "the blob", octets) // takes its place
		if got, err := read(t, s, "the blob"); err != nil || !bytes.Equal(got, octets) {
			t.Errorf("the blob in its place: %v", err)
		}
	}
}

func TestST04APartWithDamagedOctetsIsDiscarded(t *testing.T) {
	octets := random(200_000)
	for name, damage := range map[string]func(path string) error{
		"truncated": func(path string) error { return os.Truncate(path, 70_000) },
		"lost":      os.Remove,
		"other octets": func(path string) error {
			return os.WriteFile(path, random(200_020), 0o600)
		},
	} {
		c := inDirectory(t)
		s := c.process(t, sharedblobs.Options{})
		must(t, begin(t, s, "the blob", "owner"))
		must(t, grow(t, s, "the blob", 0, octets))
		for _, key := range c.keys(t) {
			if err := damage(filepath.Join(c.dir, "objects", key)); err != nil {
				t.Fatal(err)
			}
		}
		if o := seal(t, s, "the blob", octets); o != (outcome{}) {
			t.Errorf("%s: Seal = %+v, want not sealed", name, o)
		}
		wantUsage(t, s, "owner", 0, 0)
		put(t, s, "the blob", octets)
	}
}

func TestALostObjectIsDamageAndLostObjectsAreNot(t *testing.T) {
	c := inDirectory(t)
	s := c.process(t, sharedblobs.Options{})
	put(t, s, "a", random(1000))
	dir := filepath.Join(c.dir, "objects")
	// The file system is not mounted.
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	for _, made := range []bool{false, true} {
		if made {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := read(t, s, "a"); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrDamaged) {
			t.Errorf("without the directory: %v, want ErrUnavailable", err)
		}
		if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Check: %v, want ErrUnavailable", err)
		}
		if err := s.Search(t.Context(), 0); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a search: %v, want ErrUnavailable", err)
		}
	}
	if _, err := sharedblobs.Open(t.Context(), sharedblobs.Options{Records: c.records, Space: "blobs", Objects: c.objects()}); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("Open without the objects: %v, want ErrDamaged", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, s, "a"); err != nil {
		t.Error(err)
	}
	if err := os.Remove(c.path(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, s, "a"); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("without the object: %v, want ErrDamaged", err)
	}
	must(t, remove(t, s, "a"))
	wantUsage(t, s, "owner", 0, 0)
}

func TestAServerThatIsAwayIsUnavailableUntilItIsBack(t *testing.T) {
	c, g := inBucket(t)
	s := c.process(t, sharedblobs.Options{Timeout: 10 * time.Second})
	octets := random(300_000)
	put(t, s, "kept", octets)
	must(t, begin(t, s, "a", "owner"))
	must(t, grow(t, s, "a", 0, octets[:100_000]))
	g.stop()
	for what, o := range map[string]outcome{
		"Append": grow(t, s, "a", 100_000, octets[100_000:]),
		"Seal":   seal(t, s, "a", octets[:100_000]),
		"Begin":  begin(t, s, "b", "owner"),
	} {
		if o.ok || !errors.Is(o.err, store.ErrUnavailable) || strings.Contains(fmt.Sprint(o.err), secretKey) {
			t.Errorf("%s = %+v, want ErrUnavailable without the secret", what, o)
		}
	}
	if _, err := read(t, s, "kept"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("ReadAt: %v, want ErrUnavailable", err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Check: %v, want ErrUnavailable", err)
	}
	if p, found, err := s.Part(t.Context(), "a"); p.Held != 100_000 || p.Mark != 100_000 || !found || err != nil {
		t.Errorf("Part = %+v, %v, %v", p, found, err)
	}
	g.start(t)
	must(t, grow(t, s, "a", 100_000, octets[100_000:]))
	must(t, seal(t, s, "a", octets))
	for _, name := range []string{"a", "kept"} {
		if got, err := read(t, s, name); err != nil || !bytes.Equal(got, octets) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	wantUsage(t, s, "owner", 2*300_004, 2)
}

// Each change of a name is interrupted between the objects and the record, as by a kill: the
// process is never heard of again. Then the others have every acknowledged octet, and a search
// leaves no object without a record.
func TestACrashBetweenObjectAndRecordLeavesOnlyGarbage(t *testing.T) {
	octets := random(50_000)
	for _, test := range []struct {
		name     string
		prepare  func(t *testing.T, s store.Blobs)
		crash    func(t *testing.T, s store.Blobs, r *records, cut *atomic.Bool) // cut: objects are not deleted
		check    func(t *testing.T, s *sharedblobs.Store)
		left     int // objects
		use, has int64
	}{{
		name:    "Begin, before the record",
		prepare: func(*testing.T, store.Blobs) {},
		crash: func(t *testing.T, s store.Blobs, r *records, _ *atomic.Bool) {
			begin(t, s, "a", "owner")
		},
		check: func(t *testing.T, s *sharedblobs.Store) {
			if _, found, err := s.Part(t.Context(), "a"); found || err != nil {
				t.Error("there is a part")
			}
		},
	}, {
		name: "Append, before the record",
		prepare: func(t *testing.T, s store.Blobs) {
			must(t, begin(t, s, "a", "owner"))
			must(t, grow(t, s, "a", 0, octets[:20_000]))
		},
		crash: func(t *testing.T, s store.Blobs, r *records, _ *atomic.Bool) {
			grow(t, s, "a", 20_000, octets[20_000:])
		},
		check: func(t *testing.T, s *sharedblobs.Store) {
			if p, _, err := s.Part(t.Context(), "a"); p.Held != 20_000 || p.Mark != 20_000 {
				t.Errorf("Part = %+v, %v", p, err)
			}
		},
		left: 2, use: 20_004, has: 1,
	}, {
		name:    "Remove, after the record",
		prepare: func(t *testing.T, s store.Blobs) { put(t, s, "a", octets) },
		crash: func(t *testing.T, s store.Blobs, r *records, cut *atomic.Bool) {
			cut.Store(true)
			must(t, remove(t, s, "a"))
		},
		check: func(t *testing.T, s *sharedblobs.Store) {
			if _, found, err := s.Blob(t.Context(), "a"); found || err != nil {
				t.Error("the blob is there")
			}
		},
	}, {
		name: "Seal, after the record",
		prepare: func(t *testing.T, s store.Blobs) {
			put(t, s, "a", octets[:100])
			must(t, begin(t, s, "a", "owner"))
			must(t, grow(t, s, "a", 0, octets))
		},
		crash: func(t *testing.T, s store.Blobs, r *records, cut *atomic.Bool) {
			cut.Store(true)
			must(t, seal(t, s, "a", octets))
		},
		check: func(t *testing.T, s *sharedblobs.Store) {
			if got, err := read(t, s, "a"); err != nil || !bytes.Equal(got, octets) {
				t.Error(err)
			}
		},
		left: 1, use: 50_004, has: 1,
	}} {
		t.Run(test.name, func(t *testing.T) {
			c := inDirectory(t)
			other := c.process(t, sharedblobs.Options{}.WithLapse(400*time.Millisecond))
			r := &records{Records: c.records}
			var kept, armed atomic.Bool
			o := &objects{Objects: c.objects(), before: func(change, key string) error {
				switch {
				case change == "delete" && (kept.Load() || r.cut.Load()):
					return errCut
				case change == "put" && armed.Load():
					r.cut.Store(true) // the object is the last that the process does
				}
				return nil
			}}
			s := c.process(t, sharedblobs.Options{Records: r, Objects: o}.WithLapse(time.Hour))
			test.prepare(t, s)
			armed.Store(!strings.Contains(test.name, "after"))
			test.crash(t, s, r, &kept)
			r.cut.Store(true)
			round := other.Rounds()
			until(t, func() bool {
				if err := round(); err != nil {
					t.Fatal(err)
				}
				a, err := other.Account(t.Context(), "owner")
				return err == nil && a == sharedblobs.Account{Octets: test.use, Items: test.has}
			}, func() { wantUsage(t, other, "owner", test.use, test.has) })
			before := len(c.keys(t))
			test.check(t, other)
			if err := other.Search(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			if n := len(c.keys(t)); n < before {
				t.Errorf("%d objects of %d after a search for older ones", n, before)
			}
			if err := other.Search(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if n := len(c.keys(t)); n != test.left {
				t.Errorf("%d objects after the search, want %d", n, test.left)
			}
			test.check(t, other)
		})
	}
}

func TestALostAnswerOfTheRecordsIsSettledByReadingBack(t *testing.T) {
	c := inDirectory(t)
	r := &records{Records: c.records}
	s := c.process(t, sharedblobs.Options{Records: r})
	octets := random(10_000)
	r.lose.Store(true)
	put(t, s, "a", octets)
	if got, err := read(t, s, "a"); err != nil || !bytes.Equal(got, octets) {
		t.Error(err)
	}
	r.lose.Store(false)
	wantUsage(t, s, "owner", 10_004, 1)

	// Nothing can be read back: the operation fails, and the record decides.
	must(t, begin(t, s, "b", "owner"))
	r.lose.Store(true)
	r.reads.Store(true)
	if o := grow(t, s, "b", 0, octets); !errors.Is(o.err, store.ErrUnavailable) || o.ok {
		t.Errorf("Append = %+v, want ErrUnavailable", o)
	}
	r.lose.Store(false)
	r.reads.Store(false)
	p, _, err := s.Part(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	held := p.Held
	until(t, func() bool {
		if err := s.Recount(t.Context()); err != nil {
			t.Fatal(err)
		}
		a, err := s.Account(t.Context(), "owner")
		return err == nil && a == sharedblobs.Account{Octets: int64(10_008 + held), Items: 2}
	}, func() { wantUsage(t, s, "owner", int64(10_008+held), 2) })
	must(t, grow(t, s, "b", int(held), octets))
}

func TestRecordsWithoutRoomRefuseAndRecover(t *testing.T) {
	c := inDirectory(t)
	r := &records{Records: c.records}
	start := time.Now()
	var passed atomic.Int64
	s := c.process(t, sharedblobs.Options{Records: r, BlobLimits: store.BlobLimits{QuotaPerOwner: 5000}, Now: func() time.Time { return start.Add(time.Duration(passed.Load())) }})
	octets := random(1000)
	must(t, begin(t, s, "old", "owner"))
	must(t, grow(t, s, "old", 0, octets))
	must(t, did(t, func(done func(bool, error)) { s.Seal("old", sha256.Sum256(octets), time.Second, done) }))
	must(t, begin(t, s, "a", "owner"))
	passed.Store(int64(time.Minute))
	r.full.Store(true)
	// The quota of the owner refuses, the search for expired blobs begins, and cannot go on.
	r.spare.Store(2)
	o := did(t, func(done func(bool, error)) { s.Begin("large", "owner", 4500, nil, nil, time.Hour, done) })
	if o.ok || !errors.Is(o.err, store.ErrQuota) {
		t.Errorf("Begin = %+v, want ErrQuota", o)
	}
	for what, o := range map[string]outcome{
		"Begin": begin(t, s, "b", "owner"), "Append": grow(t, s, "a", 0, octets), "Seal": seal(t, s, "a", nil), "Remove": remove(t, s, "old"),
	} {
		if o.ok || !errors.Is(o.err, store.ErrQuota) {
			t.Errorf("%s = %+v, want ErrQuota", what, o)
		}
	}
	r.full.Store(false)
	must(t, grow(t, s, "a", 0, octets))
	must(t, seal(t, s, "a", octets))
	must(t, remove(t, s, "old"))
	wantUsage(t, s, "owner", 1004, 1)
}

func TestANameThatIsNotOneIsRefusedForGood(t *testing.T) {
	s := inDirectory(t).process(t, sharedblobs.Options{})
	if o := begin(t, s, "", "owner"); o.err == nil || store.Retryable(o.err) {
		t.Errorf("Begin of an empty name = %+v", o)
	}
}

func TestNothingIsMissingWhileTheRecordsCannotBeRead(t *testing.T) {
	c := inDirectory(t)
	r := &records{Records: c.records}
	s := c.process(t, sharedblobs.Options{Records: r})
	put(t, s, "a", random(10))
	r.reads.Store(true)
	if _, _, err := s.Part(t.Context(), "a"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Part: %v, want ErrUnavailable", err)
	}
	if _, _, err := s.Blob(t.Context(), "a"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Blob: %v, want ErrUnavailable", err)
	}
	r.reads.Store(false)
	if _, found, err := s.Part(t.Context(), "a"); found || err != nil {
		t.Errorf("Part: %v, %v, want none", found, err)
	}
	if b, found, err := s.Blob(t.Context(), "a"); b.Size != 10 || !found || err != nil {
		t.Errorf("Blob: %+v, %v, %v", b, found, err)
	}
}
