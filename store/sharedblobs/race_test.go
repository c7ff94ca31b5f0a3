package sharedblobs_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sharedblobs"
)

// together runs functions at the same time.
func together(all ...func()) {
	var work sync.WaitGroup
	for _, f := range all {
		work.Go(f)
	}
	work.Wait()
}

// onEach runs a test on a directory and on a bucket.
func onEach(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Run("directory", func(t *testing.T) { test(t, inDirectory(t)) })
	t.Run("bucket", func(t *testing.T) {
		c, _ := inBucket(t)
		test(t, c)
	})
}

func TestOfTwoProcessesOneChangesAName(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		all := []*sharedblobs.Store{c.process(t, sharedblobs.Options{}), c.process(t, sharedblobs.Options{})}
		one := func(what string, do func(i int, s *sharedblobs.Store) outcome) int {
			t.Helper()
			var got [2]outcome
			together(func() { got[0] = do(0, all[0]) }, func() { got[1] = do(1, all[1]) })
			if got[0].err != nil || got[1].err != nil || got[0].ok == got[1].ok {
				t.Fatalf("%s: %+v, want one done", what, got)
			}
			if got[0].ok {
				return 0
			}
			return 1
		}
		for round := range effort.Rounds(20) {
			name := fmt.Sprint("name ", round%3)
			one("Begin", func(_ int, s *sharedblobs.Store) outcome { return begin(t, s, name, "owner") })
			octets := [][]byte{bytes.Repeat([]byte("a"), 70_000), bytes.Repeat([]byte("b"), 70_000)}
			first := octets[one("Append", func(i int, s *sharedblobs.Store) outcome { return grow(t, s, name, 0, octets[i]) })]
			second := octets[one("Append", func(i int, s *sharedblobs.Store) outcome { return grow(t, s, name, 70_000, octets[i]) })]
			whole := append(append([]byte{}, first...), second...)
			one("Seal", func(_ int, s *sharedblobs.Store) outcome { return seal(t, s, name, whole) })
			for _, s := range all {
				if got, err := read(t, s, name); err != nil || !bytes.Equal(got, whole) {
					t.Fatal(err)
				}
			}
			if round%2 == 0 {
				one("Remove", func(_ int, s *sharedblobs.Store) outcome { return remove(t, s, name) })
			} else {
				must(t, begin(t, all[0], name, "owner"))
				one("Discard", func(_ int, s *sharedblobs.Store) outcome {
					return did(t, func(done func(bool, error)) { s.Discard(name, done) })
				})
				must(t, remove(t, all[1], name))
			}
			if _, found, err := all[0].Blob(t.Context(), name); found || err != nil {
				t.Fatal("the blob is there")
			}
		}
		wantUsage(t, all[0], "owner", 0, 0)
		if keys := c.keys(t); len(keys) != 0 {
			t.Errorf("objects %q are left", keys)
		}
	})
}

func TestVersionsOfTwoProcessesRise(t *testing.T) {
	c := inDirectory(t)
	all := []*sharedblobs.Store{c.process(t, sharedblobs.Options{}), c.process(t, sharedblobs.Options{})}
	newest := uint64(0)
	for i := range 10 {
		name := fmt.Sprint(i % 4)
		put(t, all[i%2], name, random(i))
		b, found, err := all[(i+1)%2].Blob(t.Context(), name)
		if !found || err != nil || b.Version <= newest {
			t.Fatalf("version %d of the other process after %d, %v", b.Version, newest, err)
		}
		newest = b.Version
	}
}

func TestTheQuotaHoldsForAllProcessesTogether(t *testing.T) {
	const quota, piece = 1_000_000, 30_000
	c := inDirectory(t)
	all := make([]*sharedblobs.Store, 3)
	for i := range all {
		all[i] = c.process(t, sharedblobs.Options{BlobLimits: store.BlobLimits{QuotaPerOwner: quota, Items: 100}})
	}
	octets := random(piece)
	var mu sync.Mutex
	written := 0
	var work []func()
	for i, s := range all {
		for j := range 4 {
			work = append(work, func() {
				name := fmt.Sprint(i, " ", j)
				if o := did(t, func(done func(bool, error)) { s.Begin(name, "owner", 0, nil, nil, time.Hour, done) }); !o.ok {
					t.Errorf("Begin = %+v", o)
					return
				}
				for at := 0; ; at += piece {
					o := grow(t, s, name, at, octets)
					if errors.Is(o.err, store.ErrQuota) {
						return
					}
					if !o.ok {
						t.Errorf("Append = %+v", o)
						return
					}
					mu.Lock()
					written++
					mu.Unlock()
				}
			})
		}
	}
	together(work...)
	if written != quota/piece {
		t.Errorf("%d pieces were written, want %d", written, quota/piece)
	}
	wantUsage(t, all[0], "owner", int64(written)*piece, 12)
	must(t, did(t, func(done func(bool, error)) { all[0].Discard("0 0", done) }))
	must(t, begin(t, all[1], "another", "owner"))
}

// The first process writes small pieces, the second large ones; the digest of the segments that the
// first has filled is in the record.
func TestAnUploadContinuesInAnotherProcess(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		all := []*sharedblobs.Store{c.process(t, sharedblobs.Options{}), c.process(t, sharedblobs.Options{})}
		octets := random(3*sharedblobs.FullSize + 12_345)
		must(t, begin(t, all[0], "a", "owner"))
		r := rand.New(rand.NewPCG(1, 2))
		for at, i := 0, 0; at < len(octets); i++ {
			n := 1 + r.IntN(40_000)
			if i > 40 {
				n = 1 + r.IntN(4<<20)
			}
			n = min(n, len(octets)-at)
			must(t, grow(t, all[i/3%2], "a", at, octets[at:at+n]))
			at += n
		}
		before := len(c.keys(t))
		must(t, seal(t, all[1], "a", octets))
		if n := len(c.keys(t)); n != 4 {
			t.Errorf("%d objects, want 3 full ones and the rest; %d before the seal", n, before)
		}
		for _, s := range all {
			if got, err := read(t, s, "a"); err != nil || !bytes.Equal(got, octets) {
				t.Error(err)
			}
		}
		must(t, remove(t, all[0], "a"))
		if keys := c.keys(t); len(keys) != 0 {
			t.Errorf("objects %q are left", keys)
		}
	})
}

// A process that has written nothing yet seals a part that another one has made.
func TestAPartIsSealedByAnotherProcess(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		first := c.process(t, sharedblobs.Options{})
		must(t, begin(t, first, "a", "owner"))
		must(t, grow(t, first, "a", 0, []byte("octets")))
		second := c.process(t, sharedblobs.Options{})
		must(t, seal(t, second, "a", []byte("octets")))
		if got, err := read(t, second, "a"); err != nil || string(got) != "octets" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestManySmallAppendsNeedFewObjects(t *testing.T) {
	c := inDirectory(t)
	s := c.process(t, sharedblobs.Options{})
	const appends = 600
	octets := random(10 * appends)
	must(t, begin(t, s, "a", "owner"))
	for at := 0; at < len(octets); at += 10 {
		must(t, grow(t, s, "a", at, octets[at:at+10]))
		if at%1000 == 0 {
			if n := len(c.keys(t)); n > 3*16 {
				t.Fatalf("%d objects after %d Appends", n, at/10)
			}
		}
	}
	must(t, seal(t, s, "a", octets))
	if got, err := read(t, s, "a"); err != nil || !bytes.Equal(got, octets) {
		t.Error(err)
	}
}

// A process loses its connection in the middle of an operation, and returns after the others
// have given it up: its usage was counted without it, so that it may not go on.
func TestAProcessThatWasGivenUpChangesNothing(t *testing.T) {
	c := inDirectory(t)
	other := c.process(t, sharedblobs.Options{}.WithLapse(400*time.Millisecond))
	r := &records{Records: c.records}
	blocked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	o := &objects{Objects: c.objects(), before: func(change, _ string) error {
		if change == "put" {
			once.Do(func() {
				r.cut.Store(true)
				close(blocked)
				<-release
			})
		}
		return nil
	}}
	s := c.process(t, sharedblobs.Options{Records: r, Objects: o}.WithLapse(400*time.Millisecond))
	must(t, did(t, func(done func(bool, error)) { s.Begin("a", "owner", 0, nil, nil, time.Hour, done) }))
	late := make(chan outcome, 1)
	s.Append("a", 0, 1, random(1000), func(ok bool, err error) { late <- outcome{ok, err} })
	<-blocked
	if a, err := other.Account(t.Context(), "owner"); err != nil || a.Octets != 1000 || !a.Open {
		t.Fatalf("usage during the Append: %+v, %v", a, err)
	}
	round := other.Rounds()
	until(t, func() bool {
		if err := round(); err != nil {
			t.Fatal(err)
		}
		a, err := other.Account(t.Context(), "owner")
		return err == nil && a == sharedblobs.Account{Items: 1}
	}, func() { wantUsage(t, other, "owner", 0, 1) })
	r.cut.Store(false)
	close(release)
	if o := <-late; o.ok || !errors.Is(o.err, store.ErrUnavailable) {
		t.Errorf("the late Append = %+v, want ErrUnavailable", o)
	}
	if p, _, err := other.Part(t.Context(), "a"); p.Held != 0 || err != nil {
		t.Errorf("the part has %d octets, %v", p.Held, err)
	}
	until(t, func() bool {
		if err := other.Recount(t.Context()); err != nil {
			t.Fatal(err)
		}
		a, err := other.Account(t.Context(), "owner")
		return err == nil && a == sharedblobs.Account{Items: 1}
	}, func() { wantUsage(t, other, "owner", 0, 1) })
	must(t, grow(t, other, "a", 0, random(1000)))
}
