package sqlstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

func put(s *sqlstore.Store, key, owner string, size int) error {
	errs := make(chan error, 1)
	s.Put("space", key, 0, owner, make([]byte, size), time.Time{}, func(r store.PutResult) {
		if r.Err == nil && !r.Wrote {
			r.Err = errors.New("not written")
		}
		errs <- r.Err
	})
	return <-errs
}

func TestQuotaIsExact(t *testing.T) {
	const size = 1000
	one := int64(len("space") + len("a") + size + sqlstore.Overhead)
	for _, c := range []struct {
		name    string
		owner   string // that of the endpoint itself is "", which has no share
		options sqlstore.Options
		refused bool
	}{
		{"owner at its limit", "owner", sqlstore.Options{Limits: store.Limits{QuotaPerOwner: 2 * one}}, false},
		{"owner above", "owner", sqlstore.Options{Limits: store.Limits{QuotaPerOwner: 2*one - 1}}, true},
		{"store at its limit", "", sqlstore.Options{Limits: store.Limits{Quota: 2 * one}}, false},
		{"store above", "", sqlstore.Options{Limits: store.Limits{Quota: 2*one - 1}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Dir = t.TempDir()
			s := open(t, c.options)
			defer func() { _ = s.Close() }()
			if err := put(s, "a", c.owner, size); err != nil {
				t.Fatal(err)
			}
			if err := put(s, "b", c.owner, size); errors.Is(err, store.ErrQuota) != c.refused {
				t.Errorf("second record: %v", err)
			}
			want := one
			if !c.refused {
				want *= 2
			}
			if used := s.Stats().Used; used != want {
				t.Errorf("used %d, want %d", used, want)
			}
			_ = s.Close()
			s = open(t, c.options)
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
			if used := s.Stats().Used; used != want {
				t.Errorf("used %d after opening again, want %d", used, want)
			}
		})
	}
}

func TestTheNodeItselfHasNoQuotaOfItsOwn(t *testing.T) {
	s := open(t, sqlstore.Options{Limits: store.Limits{QuotaPerOwner: 1000, Quota: 10_000}})
	defer s.Close()
	if err := put(s, "a", "", 5000); err != nil {
		t.Error(err)
	}
	if err := put(s, "b", "", 5000); !errors.Is(err, store.ErrQuota) {
		t.Errorf("above the quota of the store: %v", err)
	}
}

// Entries that were committed together share a row. Removing some of them gives their octets back.
func TestTrimmingAndReplacingSomeOfManyEntriesIsExact(t *testing.T) {
	s := open(t, sqlstore.Options{Dir: t.TempDir()})
	defer s.Close()
	const entries, size = 100, 100
	var pending sync.WaitGroup
	used := int64(len("space") + len("log") + sqlstore.Overhead)
	for i := range entries {
		pending.Add(1)
		s.Append("space", "log", fmt.Sprintf("%03d", i+1), fmt.Sprint("owner ", i%3), make([]byte, size), time.Time{},
			func(store.AppendResult) { pending.Done() })
		used += 3 + size + sqlstore.Overhead
	}
	pending.Wait()
	if got := s.Stats().Used; got != used {
		t.Fatalf("used %d, want %d", got, used)
	}
	pending.Add(2)
	s.Trim("space", "log", 50, func(error) { pending.Done() })
	s.Append("space", "log", "050", "owner 1", make([]byte, size), time.Time{}, func(store.AppendResult) { pending.Done() }) // takes the place of one that was cut off
	pending.Wait()
	used -= (50 - 1) * (3 + size + sqlstore.Overhead)
	for end := time.Now().Add(5 * time.Minute); s.Stats().Used != used; {
		if time.Now().After(end) {
			t.Fatalf("used %d, want %d", s.Stats().Used, used)
		}
		if err := s.Check(t.Context()); err != nil { // each write is followed by a part of the sweep
			t.Fatal(err)
		}
	}
	if n := s.Stats().Swept; n != 49 {
		t.Errorf("%d entries were swept, want 49", n)
	}
}

func TestSweepDeletesAndRefunds(t *testing.T) {
	var mu sync.Mutex
	now := time.Unix(1_800_000_000, 0)
	s := open(t, sqlstore.Options{Dir: t.TempDir(), Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	defer s.Close()
	const rows = 1000
	var pending sync.WaitGroup
	for i := range rows {
		pending.Add(3)
		s.Put("space", fmt.Sprint(i), 0, fmt.Sprint("owner ", i%5), make([]byte, 100), now.Add(time.Minute),
			func(store.PutResult) { pending.Done() })
		s.Append("space", fmt.Sprint("log ", i%5), fmt.Sprint(i), fmt.Sprint("owner ", i%5), make([]byte, 100), now.Add(time.Minute),
			func(store.AppendResult) { pending.Done() })
		s.Append("space", "dropped", "", "owner", make([]byte, 100), time.Time{}, func(store.AppendResult) { pending.Done() })
	}
	pending.Wait()
	pending.Add(1)
	s.Drop("space", "dropped", func(error) { pending.Done() })
	mu.Lock()
	now = now.Add(time.Hour)
	mu.Unlock()
	pending.Wait()
	logs := int64(5 * (len("space") + len("log 0") + sqlstore.Overhead))
	deadline := time.Now().Add(5 * time.Minute)
	for s.Stats().Used != logs {
		if time.Now().After(deadline) {
			t.Fatalf("%+v, want %d used", s.Stats(), logs)
		}
		// Each write is followed by a part of the sweep.
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if swept := s.Stats().Swept; swept != 3*rows {
		t.Errorf("%d rows were swept, want %d", swept, 3*rows)
	}
	for l := range 5 {
		first, last, err := s.Span(t.Context(), "space", fmt.Sprint("log ", l))
		if err != nil || first != rows/5+1 || last != rows/5 {
			t.Errorf("log %d: %d to %d, %v", l, first, last, err)
		}
	}
}

func TestTheLogIsWrittenBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlstore.Options{Dir: dir, Durability: store.Process})
	defer s.Close()
	data := bytes.Repeat([]byte{1}, 256<<10)
	largest := int64(0)
	for i := range 400 { // 100 MiB
		errs := make(chan error, 1)
		s.Append("space", "log", "", "owner", data, time.Time{}, func(r store.AppendResult) { errs <- r.Err })
		if err := <-errs; err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if info, err := os.Stat(filepath.Join(dir, "state.db-wal")); err == nil {
			largest = max(largest, info.Size())
		}
	}
	if largest > 80<<20 {
		t.Errorf("the log grew to %d octets while 100 MiB were written", largest)
	}
	t.Logf("the log grew to %.1f MiB while 100 MiB were written", float64(largest)/(1<<20))
}

func TestOtherBoundsHoldForWhatComesFromThenOn(t *testing.T) {
	const size = 100
	one := int64(len("space") + len("a") + size + sqlstore.Overhead)
	s := open(t, sqlstore.Options{Limits: store.Limits{QuotaPerOwner: one}})
	defer func() { _ = s.Close() }()
	if err := put(s, "a", "owner", size); err != nil {
		t.Fatal(err)
	}
	if err := put(s, "b", "owner", size); !errors.Is(err, store.ErrQuota) {
		t.Errorf("above the quota: %v", err)
	}
	s.SetBounds(store.Limits{QuotaPerOwner: 2 * one})
	if err := put(s, "b", "owner", size); err != nil {
		t.Errorf("with more room: %v", err)
	}
	s.SetBounds(store.Limits{Quota: one})
	if err := put(s, "c", "other", size); !errors.Is(err, store.ErrShare) {
		t.Errorf("with less room than is taken: %v", err)
	}
	if version, _, err := s.Get(t.Context(), "space", "b"); err != nil || version == 0 {
		t.Errorf("what was kept: version %d, %v", version, err)
	}
}
