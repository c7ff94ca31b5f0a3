package filestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slimwire/swp/internal/disk/disktest"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
	"github.com/slimwire/swp/store/sqlstore"
)

func TestPR08NothingIsSetAsideForAnAnnouncedSize(t *testing.T) {
	dir := t.TempDir()
	const quota = 1 << 40
	s := open(t, dir, filestore.Options{BlobLimits: store.BlobLimits{Quota: quota, QuotaPerOwner: quota}, Writers: 1})
	defer s.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, size := range map[string]uint64{
		"above the quota": quota + 1, "a sign": 1 << 63, "the largest": math.MaxUint64, "with the note it wraps": math.MaxUint64 - 2,
	} {
		made, err := did(t, func(done func(bool, error)) { s.Begin(name, "owner", size, nil, []byte("note"), time.Hour, done) })
		if made || !errors.Is(err, store.ErrQuota) {
			t.Errorf("%s: Begin = %v, %v, want ErrQuota", name, made, err)
		}
		if _, found, err := s.Part(t.Context(), name); found || err != nil {
			t.Errorf("%s: there is a part", name)
		}
	}
	if left := files(t, dir); len(left) != 0 {
		t.Errorf("files %q are left of what was refused", left)
	}
	must(t, func(done func(bool, error)) { s.Begin("the quota", "owner", quota, nil, nil, time.Hour, done) })
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("%d octets of memory were allocated", n)
	}
	var stat unix.Stat_t
	if err := unix.Stat(files(t, dir)[0], &stat); err != nil || stat.Size != 0 || stat.Blocks > 8 {
		t.Errorf("the file has %d octets in %d blocks, %v", stat.Size, stat.Blocks, err)
	}
	must(t, func(done func(bool, error)) { s.Begin("another", "owner", quota, nil, nil, time.Hour, done) })
}

// What is over leaves its room also while a done function of an operation on it runs, and while
// another sweep is under way.
func TestAnAbandonedPartLeavesItsRoomWhileACallerIsTold(t *testing.T) {
	const size = 1000
	var now atomic.Int64
	begun := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	s := open(t, "", filestore.Options{BlobLimits: store.BlobLimits{QuotaPerOwner: size}, Now: func() time.Time { return begun.Add(time.Duration(now.Load())) }})
	defer s.Close()
	must(t, func(done func(bool, error)) { s.Begin("part", "owner", size, nil, nil, time.Hour, done) })
	must(t, func(done func(bool, error)) { s.Append("part", 0, 0, random(size), done) })
	now.Store(int64(time.Hour))
	told, over, last := make(chan bool), make(chan struct{}), make(chan error, 1)
	goOn := sync.OnceFunc(func() { close(over) })
	defer goOn()
	s.Append("part", size, 0, nil, func(ok bool, _ error) {
		told <- ok
		<-over
	})
	if <-told {
		t.Error("octets were appended to a part that is over")
	}
	must(t, func(done func(bool, error)) { s.Begin("another", "owner", size, nil, nil, time.Hour, done) })
	s.Begin("part", "another", size, nil, nil, time.Hour, func(_ bool, err error) { last <- err })
	goOn()
	if err := <-last; err != nil {
		t.Errorf("Begin while a caller was told: %v", err)
	}
}

func TestPR09AThousandAbandonedPartsAreReclaimed(t *testing.T) {
	const parts, size, day = 1000, 1000, 24 * time.Hour
	dir := t.TempDir()
	var now atomic.Int64
	begun := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	s := open(t, dir, filestore.Options{
		Durability: store.Process, BlobLimits: store.BlobLimits{QuotaPerOwner: parts * size}, Now: func() time.Time { return begun.Add(time.Duration(now.Load())) },
	})
	defer s.Close()
	octets := random(size)
	existing := newFile(t, dir, func() {
		must(t, func(done func(bool, error)) { s.Begin("part 0", "another", 0, nil, nil, day, done) })
		must(t, func(done func(bool, error)) { s.Append("part 0", 0, 0, octets, done) })
		if ok, err := seal(t, s, "part 0", octets); !ok || err != nil {
			t.Fatal(ok, err)
		}
	})
	for i := range parts { // the first stands where somebody else has a blob
		name := fmt.Sprint("part ", i)
		must(t, func(done func(bool, error)) { s.Begin(name, "owner", size, nil, nil, day, done) })
		must(t, func(done func(bool, error)) { s.Append(name, 0, 0, octets, done) })
	}
	more := func() (bool, error) {
		return did(t, func(done func(bool, error)) { s.Begin("more", "owner", parts*size, nil, nil, day, done) })
	}
	now.Store(int64(day) - 1)
	if _, err := more(); !errors.Is(err, store.ErrQuota) {
		t.Errorf("Begin before a day is over: %v, want ErrQuota", err)
	}
	if n := len(files(t, dir)); n != parts+1 {
		t.Errorf("%d files before a day is over, want %d", n, parts+1)
	}
	now.Store(int64(day))
	if made, err := more(); !made || err != nil {
		t.Errorf("Begin after a day, with all the room there is: %v, %v", made, err)
	}
	for i := range parts {
		if _, found, err := s.Part(t.Context(), fmt.Sprint("part ", i)); found || err != nil {
			t.Fatalf("part %d is there after a day", i)
		}
	}
	if left := files(t, dir); len(left) != 2 || !slices.Contains(left, existing) {
		t.Errorf("%d files are left, want the one of the blob and that of the new part", len(left))
	}
	if got, err := read(t, s, "part 0"); err != nil || !bytes.Equal(got, octets) {
		t.Errorf("the blob that was there: %v", err)
	}
}

func TestPR10NamesAreNeverPaths(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b", "store")
	s := open(t, dir, filestore.Options{})
	defer s.Close()
	outside := filepath.Join(top, "outside")
	names := []string{
		"../../x", "../../../x", outside, "/", ".", "..", "lock", "probe", "lost", "a\x00b", "\u00e9", "e\u0301", "a/b", "con",
		string(bytes.Repeat([]byte("x"), store.MaxName)),
	}
	for _, name := range names {
		put(t, s, name, []byte("octets of "+name))
	}
	long := string(bytes.Repeat([]byte("x"), 4096))
	if _, err := did(t, func(done func(bool, error)) { s.Begin(long, "owner", 0, nil, nil, time.Hour, done) }); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("a name of 4 KiB: %v, want ErrTooLarge", err)
	}
	for _, name := range names {
		if got, err := read(t, s, name); err != nil || string(got) != "octets of "+name {
			t.Errorf("%.20q: %.40q, %v", name, got, err)
		}
	}
	made := len(files(t, dir))
	err := filepath.WalkDir(top, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Dir(path) == filepath.Join(dir, "blobs") && len(entry.Name()) == 32 {
			made--
		} else if err == nil && !entry.IsDir() && filepath.Dir(path) != filepath.Join(dir, "records") && entry.Name() != "lock" {
			t.Errorf("%s was made", path)
		}
		return err
	})
	if err != nil || made != 0 {
		t.Errorf("%d files too many, %v", made, err)
	}
}

func TestST03AFullVolumeRecoversByItself(t *testing.T) {
	volume := t.TempDir()
	disktest.Small(t, volume)
	// The records have a volume of their own: one that is full is for sqlstore.
	records, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	o := filestore.Options{Records: records, Space: "blobs", Dir: filepath.Join(volume, "blobs")}
	s, err := filestore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	octets := random(5 << 20)
	put(t, s, "blob", octets[:100_000])
	begin(t, s, "a")
	const piece = 256 << 10
	held := 0
	for ; held < 2<<20; held += piece {
		if err := grow(t, s, "a", held, octets[held:held+piece]); err != nil {
			t.Fatal(err)
		}
	}
	ballast := filepath.Join(volume, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 5<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	var refused error
	for refused == nil {
		began := time.Now()
		if refused = grow(t, s, "a", held, octets[held:held+piece]); refused == nil {
			held += piece
		} else if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it took %v to refuse an Append", took)
		}
	}
	var kind *store.Error
	if !errors.Is(refused, store.ErrUnavailable) || !errors.As(refused, &kind) || !kind.Retryable() {
		t.Errorf("Append to a full volume: %v, want ErrUnavailable, to try again", refused)
	}
	fill, err := os.OpenFile(ballast, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	_ = fill.Close()
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Check of a full volume: %v, want ErrUnavailable", err)
	}
	if _, err := did(t, func(done func(bool, error)) { s.Begin("b", "owner", 0, nil, []byte("note"), time.Hour, done) }); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Begin on a full volume: %v, want ErrUnavailable", err)
	}
	if got, err := read(t, s, "blob"); err != nil || !bytes.Equal(got, octets[:100_000]) {
		t.Errorf("a blob on a full volume: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check with space again: %v", err)
	}
	if p, _, _ := s.Part(t.Context(), "a"); p.Held != uint64(held) {
		t.Errorf("the part has %d octets, %d were acknowledged", p.Held, held)
	}
	for ; held < len(octets); held += piece {
		if err := grow(t, s, "a", held, octets[held:held+piece]); err != nil {
			t.Fatalf("Append with space again: %v", err)
		}
	}
	if ok, err := seal(t, s, "a", octets); !ok || err != nil {
		t.Errorf("Seal: %v, %v", ok, err)
	}
	if left, _ := filepath.Glob(filepath.Join(o.Dir, "????????????????????????????????")); len(left) != 2 {
		t.Errorf("files %q, want those of the two blobs", left)
	}
}

func TestST05AnotherStoreOnTheDirectoryIsRefused(t *testing.T) {
	dir, octets := t.TempDir(), random(100_000)
	s := open(t, dir, filestore.Options{})
	put(t, s, "blob", octets)
	other, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, err = filestore.Open(t.Context(), filestore.Options{Records: other, Space: "blobs", Dir: filepath.Join(dir, "blobs")})
	if !errors.Is(err, store.ErrLocked) {
		t.Errorf("Open of an open store: %v, want ErrLocked", err)
	}
	if got, err := read(t, s, "blob"); err != nil || !bytes.Equal(got, octets) {
		t.Errorf("the blob: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir, filestore.Options{}).Close(); err != nil {
		t.Error(err)
	}
}

func TestST05RecordsOfAnotherReleaseAreRefusedAndUntouched(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, filestore.Options{})
	put(t, s, "blob", random(100_000))
	version, value, err := s.records.Get(t.Context(), "blobs", "blob")
	if err != nil {
		t.Fatal(err)
	}
	newer := bytes.Clone(value)
	newer[0]++
	must(t, func(done func(bool, error)) {
		s.records.Put("blobs", "blob", version, "", newer, time.Time{}, func(r store.PutResult) { done(r.Wrote, r.Err) })
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := files(t, dir)
	for _, accept := range []bool{false, true} {
		if _, err := tryOpen(t, dir, filestore.Options{AcceptDamage: accept}); !errors.Is(err, store.ErrVersion) {
			t.Errorf("Open, damage accepted %v: %v, want ErrVersion", accept, err)
		}
	}
	if after := files(t, dir); !slices.Equal(before, after) {
		t.Errorf("the files %q became %q", before, after)
	}
	records, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: filepath.Join(dir, "records")})
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	if _, now, err := records.Get(t.Context(), "blobs", "blob"); err != nil || !bytes.Equal(now, newer) {
		t.Errorf("the record was changed: %v", err)
	}
}

// stalled is records whose commits take until they are let go on.
type stalled struct {
	store.Records
	gate sync.RWMutex
}

func (s *stalled) Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	go func() {
		s.gate.RLock()
		defer s.gate.RUnlock()
		s.Records.Put(space, key, was, owner, value, expires, done)
	}()
}

func TestST06AStalledDiskHoldsUpAndLosesNothing(t *testing.T) {
	records, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	slow := &stalled{Records: records}
	const piece, waiting = 64 << 10, 14 // of 16: one owner has seven eighths
	s, err := filestore.Open(t.Context(), filestore.Options{
		Records: slow, Space: "blobs", Dir: filepath.Join(t.TempDir(), "blobs"), QueueOctets: 16 * piece,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	begin(t, s, "a")
	octets := random(4 * waiting * piece)
	type outcome struct {
		at  int
		ok  bool
		err error
	}
	told := make(chan outcome, len(octets)/piece)
	slow.gate.Lock()
	for at := 0; at < len(octets); at += piece {
		s.Append("a", uint64(at), 0, octets[at:at+piece], func(ok bool, err error) { told <- outcome{at, ok, err} })
	}
	for range len(octets)/piece - waiting { // at once, while nothing is written
		if o := <-told; !errors.Is(o.err, store.ErrBusy) || o.at < waiting*piece {
			t.Fatalf("Append at %d while the disk stalls: %v, %v, want ErrBusy behind %d octets", o.at, o.ok, o.err, waiting*piece)
		}
	}
	select {
	case o := <-told:
		t.Errorf("Append at %d is acknowledged: %v, %v", o.at, o.ok, o.err)
	default:
	}
	if p, _, _ := s.Part(t.Context(), "a"); p.Held != 0 {
		t.Errorf("the part has %d octets and nothing was acknowledged", p.Held)
	}
	slow.gate.Unlock()
	for i := range waiting {
		if o := <-told; !o.ok || o.err != nil || o.at != i*piece {
			t.Errorf("Append at %d after the stall: %v, %v, want %d done", o.at, o.ok, o.err, i*piece)
		}
	}
	for at := waiting * piece; at < len(octets); at += piece {
		if err := grow(t, s, "a", at, octets[at:at+piece]); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := seal(t, s, "a", octets); !ok || err != nil {
		t.Errorf("Seal: %v, %v", ok, err)
	}
}
