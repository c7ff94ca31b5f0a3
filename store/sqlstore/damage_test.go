package sqlstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// content is what a store of the tests of damage holds: enough for trees of
// several levels.
const (
	heldRecords = 300
	heldEntries = 300
	heldItems   = 300
)

func value(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "value %d ", i), 20+i%30) }

// fill writes what the store is to hold, part of it twice, so that there are
// pages of old content, too.
func fill(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	var pending sync.WaitGroup
	check := func(ok bool, err error) {
		if !ok || err != nil {
			t.Errorf("not written: %v", err)
		}
		pending.Done()
	}
	for i := range heldRecords {
		pending.Add(1)
		s.Put("space", fmt.Sprintf("%04d", i), 0, fmt.Sprint("owner ", i%3), value(i), time.Now().Add(time.Hour),
			func(r store.PutResult) { check(r.Wrote, r.Err) })
	}
	for i := range heldEntries {
		pending.Add(1)
		s.Append("space", fmt.Sprint("log ", i%3), fmt.Sprint("id ", i), fmt.Sprint("owner ", i%3), value(i), time.Time{},
			func(r store.AppendResult) { check(r.Fresh, r.Err) })
	}
	for i := range heldItems {
		pending.Add(1)
		s.Add("space", fmt.Sprint("queue ", i%3), fmt.Sprint("id ", i), "mark", fmt.Sprint("owner ", i%3), value(i), time.Time{}, time.Time{},
			func(r store.AddResult) { check(r.Fresh, r.Err) })
	}
	pending.Wait()
}

// verdict reads everything. It fails the test if anything is wrong or missing
// without an error that says so, and returns whether there was one.
func verdict(t *testing.T, s *sqlstore.Store) (damaged bool) {
	t.Helper()
	judge := func(what string, err error) {
		if errors.Is(err, store.ErrDamaged) {
			damaged = true
		} else if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	n := 0
	err := s.Scan(t.Context(), "space", "", "", func(key string, _ uint64, got []byte) bool {
		if want := fmt.Sprintf("%04d", n); key != want || !bytes.Equal(got, value(n)) {
			damaged = true // if nothing says so the count below does
			return false
		}
		n++
		return true
	})
	judge("Scan", err)
	if n != heldRecords && err == nil {
		s.WaitChecked()
		if s.Check(t.Context()) == nil {
			t.Errorf("Scan: %d of %d records, and nothing says so", n, heldRecords)
		}
		damaged = true
	}
	for i := range heldRecords {
		version, got, err := s.Get(t.Context(), "space", fmt.Sprintf("%04d", i))
		judge("Get", err)
		if err == nil && (version == 0 || !bytes.Equal(got, value(i))) {
			s.WaitChecked()
			if s.Check(t.Context()) == nil {
				t.Errorf("record %d: version %d, %d octets, and nothing says so", i, version, len(got))
			}
			damaged = true
		}
	}
	for l := range 3 {
		log := fmt.Sprint("log ", l)
		n := 0
		err := s.Read(t.Context(), "space", log, 0, func(seq uint64, id string, data []byte) bool {
			i := n*3 + l
			if seq == uint64(n+1) && id == fmt.Sprint("id ", i) && bytes.Equal(data, value(i)) {
				n++
			}
			return true
		})
		judge("Read", err)
		if err == nil && n != heldEntries/3 {
			s.WaitChecked()
			if s.Check(t.Context()) == nil {
				t.Errorf("%s: %d of %d entries, and nothing says so", log, n, heldEntries/3)
			}
			damaged = true
		}
	}
	for q := range 3 {
		queue := fmt.Sprint("queue ", q)
		n := 0
		err := s.Items(t.Context(), "space", queue, 0, func(_ uint64, id string, _ int, data []byte) bool {
			i := n*3 + q
			if id == fmt.Sprint("id ", i) && bytes.Equal(data, value(i)) {
				n++
			}
			return true
		})
		judge("Items", err)
		if err == nil && n != heldItems/3 {
			s.WaitChecked()
			if s.Check(t.Context()) == nil {
				t.Errorf("%s: %d of %d items, and nothing says so", queue, n, heldItems/3)
			}
			damaged = true
		}
	}
	s.WaitChecked()
	judge("Check", s.Check(t.Context()))
	return damaged
}

// image is the files of a store.
type image map[string][]byte

func take(t *testing.T, dir string) image {
	t.Helper()
	files := make(image)
	// Of an open store the mark is read first, so that it is not ahead of the log.
	for _, name := range []string{"state.mark", "state.db", "state.db-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err == nil {
			files[name] = b
		}
	}
	return files
}

func (files image) place(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// stopped returns the files of a store that was closed; killed those of one
// whose process was killed: they are read while it is open.
func stopped(t *testing.T) image {
	t.Helper()
	dir := t.TempDir()
	s := open(t, sqlstore.Options{Dir: dir})
	fill(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files := take(t, dir)
	if files["state.db-wal"] != nil {
		t.Error("a log is left after Close")
	}
	return files
}

func killed(t *testing.T) image {
	t.Helper()
	dir := t.TempDir()
	s := open(t, sqlstore.Options{Dir: dir})
	fill(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// The log begins here, so that nothing in it is of an earlier round.
	s = open(t, sqlstore.Options{Dir: dir})
	defer s.Close()
	for i := range 10 {
		if err := add(s, i); err != nil {
			t.Fatal(err)
		}
	}
	files := take(t, dir)
	if len(files["state.db-wal"]) == 0 {
		t.Fatal("an open store has no log")
	}
	return files
}

// tryDamaged wants that a store of these files is refused, or what it misses told.
// It returns the error of Open.
func tryDamaged(t *testing.T, dir string) (damaged bool, refused error) {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir})
	if err != nil {
		if !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrVersion) {
			t.Errorf("Open: %v", err)
		}
		return true, err
	}
	defer s.Close()
	return verdict(t, s), nil
}

func TestAKilledStoreIsComplete(t *testing.T) {
	for name, files := range map[string]image{"stopped": stopped(t), "killed": killed(t)} {
		if damaged, err := tryDamaged(t, files.place(t)); err != nil || damaged {
			t.Errorf("%s: refused %v, damaged %v", name, err, damaged)
		}
	}
}

func TestST04FlippedBitIsNeverSilent(t *testing.T) {
	const flips = 12
	for name, files := range map[string]image{"stopped": stopped(t), "killed": killed(t)} {
		for file, b := range files {
			t.Run(name+"/"+file, func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, uint64(len(b))))
				noticed := 0
				for range flips {
					at, bit := r.IntN(len(b)), byte(1)<<r.IntN(8)
					b[at] ^= bit
					dir := files.place(t)
					if damaged, _ := tryDamaged(t, dir); damaged {
						noticed++
					}
					if t.Failed() {
						t.Fatalf("bit %08b at %d of %d", bit, at, len(b))
					}
					b[at] ^= bit
				}
				t.Logf("%d of %d noticed; the others are where nothing is kept", noticed, flips)
				// The log of a killed store has newer pages of nearly everything.
				if noticed == 0 && name+file != "killedstate.db" {
					t.Error("no flipped bit was noticed")
				}
			})
		}
	}
}

func TestST04CutOffEndIsNeverSilent(t *testing.T) {
	closed, open := stopped(t), killed(t)
	for _, c := range []struct {
		name  string
		files image
		file  string
		keep  func(size int) int
	}{
		{"database without its last 1,000 octets", closed, "state.db", func(size int) int { return size - 1000 }},
		{"database without its last page", closed, "state.db", func(size int) int { return size - 4096 }},
		{"half a database", closed, "state.db", func(size int) int { return size / 2 }},
		{"an empty database", closed, "state.db", func(int) int { return 0 }},
		{"the header of a database", closed, "state.db", func(int) int { return 100 }},
		{"part of the header", closed, "state.db", func(int) int { return 50 }},
		{"log without its last 1,000 octets", open, "state.db-wal", func(size int) int { return size - 1000 }},
		{"half a log", open, "state.db-wal", func(size int) int { return size / 2 }},
		{"the header of a log", open, "state.db-wal", func(int) int { return 32 }},
		{"an empty log", open, "state.db-wal", func(int) int { return 0 }},
		{"an empty mark", closed, "state.mark", func(int) int { return 0 }},
		{"half a mark", closed, "state.mark", func(size int) int { return size / 2 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := c.files.with(c.file, c.files[c.file][:c.keep(len(c.files[c.file]))])
			wantRefused(t, files, c.file)
		})
	}
	for _, file := range []string{"state.db", "state.mark"} {
		t.Run("no "+file, func(t *testing.T) { wantRefused(t, closed.with(file, nil), file) })
	}
	t.Run("no log", func(t *testing.T) { wantRefused(t, open.with("state.db-wal", nil), "state.db") })
	t.Run("an older database", func(t *testing.T) {
		s := openAt(t, closed.place(t))
		s.Put("space", "new", 0, "owner", nil, time.Time{}, func(store.PutResult) {})
		dir := s.dir
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		newer := take(t, dir)
		wantRefused(t, newer.with("state.db", closed["state.db"]), "state.db")
	})
}

// with returns the files with another content of one of them; nil removes it.
func (files image) with(name string, content []byte) image {
	changed := make(image)
	maps.Copy(changed, files)
	if changed[name] = content; content == nil {
		delete(changed, name)
	}
	return changed
}

// wantRefused wants that a store of damaged files is refused with the name of
// one, twice, and that trying has changed nothing.
func wantRefused(t *testing.T, files image, file string) {
	t.Helper()
	dir := files.place(t)
	for range 2 {
		s, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir})
		if err == nil {
			damaged := verdict(t, s)
			_ = s.Close()
			t.Fatalf("opened; damage noticed later: %v", damaged)
		}
		if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), filepath.Join(dir, "state")) {
			t.Errorf("Open: %v, want ErrDamaged and the file", err)
		}
		if !strings.Contains(err.Error(), file) {
			t.Errorf("Open: %v, want %s to be named", err, file)
		}
	}
	after := take(t, dir)
	for name, b := range files {
		if !bytes.Equal(after[name], b) {
			t.Errorf("%s was changed by an attempt to open it", name)
		}
	}
}

type opened struct {
	*sqlstore.Store
	dir string
}

func openAt(t *testing.T, dir string) opened {
	t.Helper()
	return opened{open(t, sqlstore.Options{Dir: dir}), dir}
}

func TestST04DamageIsAcceptedOnlyExplicitly(t *testing.T) {
	// One page of the middle of the database is overwritten.
	files := stopped(t)
	b := bytes.Clone(files["state.db"])
	page := len(b) / 4096 / 2 * 4096
	clear(b[page : page+4096])
	files = files.with("state.db", b)
	dir := files.place(t)
	if _, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir}); !errors.Is(err, store.ErrDamaged) {
		t.Fatalf("Open: %v", err)
	}
	var notices []string
	s := open(t, sqlstore.Options{Dir: dir, AcceptDamage: true, Notice: func(text string) { notices = append(notices, text) }})
	records, entries := 0, 0
	err := s.Scan(t.Context(), "space", "", "", func(string, uint64, []byte) bool { records++; return true })
	if err != nil {
		t.Errorf("Scan: %v", err)
	}
	for l := range 3 {
		err := s.Read(t.Context(), "space", fmt.Sprint("log ", l), 0, func(uint64, string, []byte) bool { entries++; return true })
		if err != nil {
			t.Errorf("Read: %v", err)
		}
	}
	if lost := heldRecords + heldEntries - records - entries; lost == 0 || lost > 300 {
		t.Errorf("%d records and %d entries are left of %d and %d", records, entries, heldRecords, heldEntries)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if text := strings.Join(notices, "\n"); !strings.Contains(text, "saved") || !strings.Contains(text, "accepted") {
		t.Errorf("notices: %s", text)
	}
	kept, _ := filepath.Glob(filepath.Join(dir, "state.db.damaged-*Z"))
	if len(kept) != 1 {
		t.Fatalf("kept beside the new database: %q", kept)
	}
	if was, _ := os.ReadFile(kept[0]); !bytes.Equal(was, b) {
		t.Error("the damaged database was changed")
	}
	// From now on it opens as any other.
	s = open(t, sqlstore.Options{Dir: dir})
	s.WaitChecked()
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	_ = s.Close()
}

func TestST04ADamagedItemIsNamedAndTheOthersServed(t *testing.T) {
	files := stopped(t)
	b := bytes.Clone(files["state.db"])
	at := bytes.Index(b, []byte("value 123 value 123"))
	b[at+10] ^= 1
	dir := files.with("state.db", b).place(t)
	s := open(t, sqlstore.Options{Dir: dir})
	defer s.Close()
	ctx := context.Background()
	s.WaitChecked()
	if err := s.Check(ctx); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), dir) ||
		!strings.Contains(err.Error(), `"0123"`) && !strings.Contains(err.Error(), `"log 0"`) {
		t.Errorf("Check: %v, want file and item", err)
	}
	var bad []string
	for i := range heldRecords {
		if _, _, err := s.Get(ctx, "space", fmt.Sprintf("%04d", i)); err != nil {
			bad = append(bad, err.Error())
		}
	}
	for l := range 3 {
		if err := s.Read(ctx, "space", fmt.Sprint("log ", l), 0, func(uint64, string, []byte) bool { return true }); err != nil {
			bad = append(bad, err.Error())
		}
	}
	if len(bad) != 1 {
		t.Errorf("refused: %q, want one", bad)
	}
}

// A reader that is past a damaged entry gets those behind it, also of the same row.
func TestST04ADamagedEntryFailsReadersBeforeItOnly(t *testing.T) {
	files := stopped(t)
	b := bytes.Clone(files["state.db"])
	const seq = 51 // of log 0
	text := fmt.Appendf(nil, "value %d value", (seq-1)*3)
	for at := 0; ; { // the entry, and the record and the item with the same value
		next := bytes.Index(b[at:], text)
		if next < 0 {
			break
		}
		at += next + 3
		b[at] ^= 1
	}
	s := open(t, sqlstore.Options{Dir: files.with("state.db", b).place(t)})
	defer s.Close()
	for after := range uint64(heldEntries / 3) {
		first, n := uint64(0), uint64(0)
		err := s.Read(t.Context(), "space", "log 0", after, func(seq uint64, _ string, _ []byte) bool {
			if n == 0 {
				first = seq
			}
			n++
			return true
		})
		switch {
		case after < seq && (!errors.Is(err, store.ErrDamaged) || n != seq-1-after):
			t.Errorf("after %d: %d entries, %v", after, n, err)
		case after >= seq && (err != nil || n != heldEntries/3-after || first != after+1):
			t.Errorf("after %d: %d entries from %d, %v", after, n, first, err)
		}
	}
}

func TestAnItemThatIsAcknowledgedWhileRowsAreCheckedIsNotDamaged(t *testing.T) {
	s := open(t, sqlstore.Options{Dir: t.TempDir(), Durability: store.Process})
	defer s.Close()
	const items = 300
	done := make(chan struct{})
	var left atomic.Int64
	left.Store(items)
	for i := range items {
		s.Add("space", "queue", fmt.Sprint(i), "", "owner", value(i), time.Time{}, time.Time{}, func(r store.AddResult) {
			if r.Err != nil {
				t.Error(r.Err)
			}
			s.Lease("space", "queue", 0, time.Now().Add(time.Hour), func(l store.LeaseResult) {
				s.Ack("space", l.ID, l.Lease, func(held bool, err error) {
					if !held || err != nil {
						t.Errorf("%q was not acknowledged: %v", l.ID, err)
					}
					if left.Add(-1) == 0 {
						close(done)
					}
				})
			})
		})
	}
	for {
		if err := s.Scrub(t.Context()); err != nil {
			t.Error(err)
		}
		select {
		case <-done:
		default:
			continue
		}
		break
	}
	if n := s.Stats().Damaged; n != 0 {
		t.Errorf("%d rows are called damaged: %v", n, s.Check(t.Context()))
	}
}
