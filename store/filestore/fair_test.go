package filestore_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
	"github.com/slimwire/swp/store/sqlstore"
)

// upload makes a part of an owner.
func upload(s store.Blobs, name, owner string, size int) error {
	done := make(chan error, 1)
	s.Begin(name, owner, uint64(size), nil, nil, time.Hour, func(_ bool, err error) { done <- err })
	if err := <-done; err != nil || size == 0 {
		return err
	}
	s.Append(name, 0, 0, make([]byte, size), func(_ bool, err error) { done <- err })
	return <-done
}

func TestRS26ArtifactsOfOneOwnerLeaveRoomForAnother(t *testing.T) {
	const size = 1000
	for name, c := range map[string]struct {
		options filestore.Options
		size    int
	}{
		"octets": {filestore.Options{BlobLimits: store.BlobLimits{Quota: 16 * size, QuotaPerOwner: 16 * size}}, size},
		"number": {filestore.Options{BlobLimits: store.BlobLimits{Items: 16}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, c.options)
			fill := func(owner string) (n int, err error) {
				for n < 20 {
					if err = upload(s, fmt.Sprint(owner, n), owner, c.size); err != nil {
						return n, err
					}
					n++
				}
				return n, nil
			}
			if n, err := fill("mallory"); n != 14 || !errors.Is(err, store.ErrQuota) {
				t.Errorf("mallory has %d of 16, then %v", n, err)
			}
			if n, err := fill("mallory for caller"); n != 0 || err == nil {
				t.Errorf("a caller of mallory has %d, then %v", n, err)
			}
			_ = s.Close()
			s = open(t, dir, c.options)
			defer func() { _ = s.Close() }()
			if n, err := fill("alice"); n != 2 || !errors.Is(err, store.ErrShare) {
				t.Errorf("alice has %d, then %v", n, err)
			}
		})
	}
	for pool, c := range map[string]struct {
		options filestore.Options
		size    int
	}{
		"artifacts: octets of the quota": {filestore.Options{BlobLimits: store.BlobLimits{Quota: 16 * size, QuotaPerOwner: 16 * size}}, size},
		"artifacts: their number":        {filestore.Options{BlobLimits: store.BlobLimits{Items: 16}}, 0},
	} {
		fairtest.Places(t, pool, "uploads of 16", func(t *testing.T) (func(string) bool, func(string)) {
			s := open(t, "", c.options)
			t.Cleanup(func() { _ = s.Close() })
			n, names := 0, map[string][]string{}
			take := func(who string) bool {
				n++
				name := fmt.Sprint("upload ", n)
				if upload(s, name, who, c.size) != nil {
					return false
				}
				names[who] = append(names[who], name)
				return true
			}
			return take, func(who string) {
				last := len(names[who]) - 1
				done := make(chan error, 1)
				s.Discard(names[who][last], func(_ bool, err error) { done <- err })
				if err := <-done; err != nil {
					t.Error(err)
				}
				names[who] = names[who][:last]
			}
		})
	}
}

func TestRS25WritesOfOneOwnerLeaveRoomToWaitForAnother(t *testing.T) {
	records, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = records.Close() }()
	slow := &stalled{Records: records}
	s, err := filestore.Open(t.Context(), filestore.Options{
		Records: slow, Space: "blobs", Dir: filepath.Join(t.TempDir(), "blobs"), QueueLength: 16, Writers: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for _, owner := range []string{"mallory", "alice"} {
		for i := range 20 {
			if err := upload(s, fmt.Sprint(owner, i), owner, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	order := make(chan string, 40)
	slow.gate.Lock()
	ask := func(owner string, wait int, want error) {
		refused := make(chan error, 20)
		for i := range 20 {
			s.Append(fmt.Sprint(owner, i), 0, 0, []byte("data"), func(_ bool, err error) {
				if err == nil {
					order <- owner
				} else {
					refused <- err
				}
			})
		}
		for range 20 - wait {
			if err := <-refused; !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", owner, err, want)
			}
		}
	}
	ask("mallory", 14, store.ErrBusy)
	ask("alice", 2, store.ErrShare)
	slow.gate.Unlock()
	count := map[string]int{}
	for i := range 16 {
		who := <-order
		count[who]++
		if i == 7 && count["alice"] != 2 {
			t.Errorf("of the first 8 writes %d are alice's, want both", count["alice"])
		}
	}
	if count["mallory"] != 14 || count["alice"] != 2 {
		t.Errorf("written: %v, want 14 and 2", count)
	}
}

// metered are records whose Puts wait until one after the other is let through, once closed is
// set.
type metered struct {
	store.Records
	closed atomic.Bool
	next   chan struct{}
}

func (m *metered) Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	if !m.closed.Load() {
		m.Records.Put(space, key, was, owner, value, expires, done)
		return
	}
	go func() {
		<-m.next
		m.Records.Put(space, key, was, owner, value, expires, done)
	}()
}

func TestFairnessOfWritesThatWait(t *testing.T) {
	waiting := func(flooded bool) int {
		records, err := sqlstore.Open(t.Context(), sqlstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = records.Close() }()
		slow := &metered{Records: records, next: make(chan struct{})}
		s, err := filestore.Open(t.Context(), filestore.Options{
			Records: slow, Space: "blobs", Dir: filepath.Join(t.TempDir(), "blobs"), QueueLength: 16, Writers: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		defer close(slow.next)
		const rounds = 40
		for _, owner := range []string{fairtest.Alice, fairtest.Mallory} {
			for i := range 2 * rounds {
				if err := upload(s, fmt.Sprint(owner, i), owner, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		slow.closed.Store(true)
		used := func() fair.Pool { return s.Pools()[2] }
		written, n := make(chan struct{}, 4*rounds), map[string]int{}
		fill := func(owner string) {
			for before := -1; used().Used > before; n[owner]++ {
				before = used().Used
				s.Append(fmt.Sprint(owner, n[owner]), 0, 0, []byte("data"), func(_ bool, err error) {
					if err == nil {
						written <- struct{}{}
					}
				})
			}
			n[owner]-- // this one was refused
		}
		for round := 0; ; round++ {
			if flooded {
				fill(fairtest.Mallory)
			}
			fill(fairtest.Alice)
			if round == rounds {
				break
			}
			for done := false; !done; {
				select {
				case slow.next <- struct{}{}:
				case <-written:
					done = true
				}
			}
		}
		for _, use := range used().Most {
			if use.Identity == fairtest.Alice {
				return use.Used
			}
		}
		return 0
	}
	fairtest.Row(t, "artifacts: writes that wait", "writes of 16", waiting(false), waiting(true))
}
