package filestore_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
	"github.com/slimwire/swp/store/sqlstore"
)

// did waits for one operation.
func did(t testing.TB, submit func(done func(bool, error))) (bool, error) {
	t.Helper()
	type outcome struct {
		ok  bool
		err error
	}
	c := make(chan outcome, 1)
	submit(func(ok bool, err error) { c <- outcome{ok, err} })
	select {
	case o := <-c:
		return o.ok, o.err
	case <-time.After(time.Minute):
		t.Fatal("done was not called")
		panic("unreachable")
	}
}

func must(t testing.TB, submit func(done func(bool, error))) {
	t.Helper()
	if ok, err := did(t, submit); !ok || err != nil {
		t.Fatalf("%v, %v, want it done", ok, err)
	}
}

func begin(t testing.TB, s store.Blobs, name string) {
	t.Helper()
	must(t, func(done func(bool, error)) { s.Begin(name, "owner", 0, nil, nil, time.Hour, done) })
}

func grow(t testing.TB, s store.Blobs, name string, at int, data []byte) error {
	t.Helper()
	ok, err := did(t, func(done func(bool, error)) { s.Append(name, uint64(at), 0, data, done) })
	if !ok && err == nil {
		t.Fatalf("Append at %d: not the end", at)
	}
	return err
}

func seal(t testing.TB, s store.Blobs, name string, octets []byte) (bool, error) {
	t.Helper()
	return did(t, func(done func(bool, error)) { s.Seal(name, sha256.Sum256(octets), 0, done) })
}

// put makes a blob.
func put(t testing.TB, s store.Blobs, name string, octets []byte) {
	t.Helper()
	begin(t, s, name)
	if err := grow(t, s, name, 0, octets); err != nil {
		t.Fatal(err)
	}
	if ok, err := seal(t, s, name, octets); !ok || err != nil {
		t.Fatalf("Seal: %v, %v", ok, err)
	}
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
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

// files returns the paths of the files that hold octets.
func files(t testing.TB, dir string) (paths []string) {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range list {
		if len(entry.Name()) == 32 {
			paths = append(paths, filepath.Join(dir, "blobs", entry.Name()))
		}
	}
	return paths
}

func TestST04AFlippedBitIsNeverServed(t *testing.T) {
	octets := random(200_000)
	for _, at := range []int64{0, 65_531, 65_533, 131_072, 199_999} {
		dir := t.TempDir()
		s := open(t, dir, filestore.Options{})
		put(t, s, "the blob", octets)
		file := files(t, dir)[0]
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b[at] ^= 4
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		blob, _, _ := s.Blob(t.Context(), "the blob")
		for range 2 {
			n, _, err := s.ReadAt(t.Context(), "the blob", blob.Version, make([]byte, len(octets)), 0)
			if !errors.Is(err, store.ErrDamaged) || n != 0 {
				t.Errorf("octet %d: ReadAt = %d, %v, want ErrDamaged", at, n, err)
			}
		}
		if _, found, err := s.Blob(t.Context(), "the blob"); found || err != nil {
			t.Error("Blob names a damaged one")
		}
		err = s.Check(t.Context())
		if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(file)) || !strings.Contains(err.Error(), `"the blob"`) {
			t.Errorf("Check: %v, want the file and the name", err)
		}
		put(t, s, "the blob", octets) // takes its place
		if got, err := read(t, s, "the blob"); err != nil || !bytes.Equal(got, octets) {
			t.Errorf("what took its place: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A part is damaged while its octets come. Its digest is of octets that were read back: if their
// block is not read again after the damage, the blob is made, and its checksums tell.
func TestST04AFlippedBitOfAPartIsNeverServed(t *testing.T) {
	octets := random(200_000)
	for _, at := range []int64{0, 65_531, 65_533, 131_072, 149_999} {
		for _, restart := range []bool{false, true} {
			dir := t.TempDir()
			s := open(t, dir, filestore.Options{})
			begin(t, s, "the blob")
			if err := grow(t, s, "the blob", 0, octets[:150_000]); err != nil {
				t.Fatal(err)
			}
			if restart {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			flip(t, files(t, dir)[0], at)
			if restart {
				s = open(t, dir, filestore.Options{})
			}
			if err := grow(t, s, "the blob", 150_000, octets[150_000:]); err != nil {
				t.Fatal(err)
			}
			sealed, err := seal(t, s, "the blob", octets)
			const again = 150_000 / 65_532 * 65_536 // the last block is read again with what follows
			if want := !restart && at < again; err != nil || sealed != want {
				t.Errorf("octet %d, restarted %v: Seal = %v, %v", at, restart, sealed, err)
			}
			if _, err := read(t, s, "the blob"); err == nil || sealed != errors.Is(err, store.ErrDamaged) {
				t.Errorf("octet %d, restarted %v: ReadAt: %v", at, restart, err)
			}
			if !sealed { // the part is discarded, and the octets come again
				put(t, s, "the blob", octets)
				if got, err := read(t, s, "the blob"); err != nil || !bytes.Equal(got, octets) {
					t.Errorf("octet %d: the octets that came again: %v", at, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestABlockOfAnotherFileIsNeverServed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, filestore.Options{})
	defer s.Close()
	put(t, s, "a", random(150_000))
	put(t, s, "b", random(150_000))
	list := files(t, dir)
	octets, err := os.ReadFile(list[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list[1], octets, 0o600); err != nil {
		t.Fatal(err)
	}
	bad := 0
	for _, name := range []string{"a", "b"} {
		if _, err := read(t, s, name); errors.Is(err, store.ErrDamaged) {
			bad++
		}
	}
	if bad != 1 {
		t.Errorf("%d of two blobs are damaged, want the one whose file is that of the other", bad)
	}
}

func TestST04WhatIsMissingIsFoundAtTheStart(t *testing.T) {
	octets := random(200_000)
	for name, harm := range map[string]func(path string) error{
		"cut off": func(path string) error { return os.Truncate(path, 199_000) },
		"removed": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, filestore.Options{})
			put(t, s, "the blob", octets)
			harmed := files(t, dir)[0]
			put(t, s, "another", octets)
			begin(t, s, "part")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := harm(harmed); err != nil {
				t.Fatal(err)
			}
			before := files(t, dir)
			_, err := tryOpen(t, dir, filestore.Options{})
			if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(harmed)) {
				t.Fatalf("Open: %v, want ErrDamaged with the name of the file", err)
			}
			if after := files(t, dir); !slices.Equal(before, after) {
				t.Errorf("Open has changed the files from %q to %q", before, after)
			}
			s = open(t, dir, filestore.Options{AcceptDamage: true})
			defer s.Close()
			if _, found, err := s.Blob(t.Context(), "the blob"); found || err != nil {
				t.Error("the damaged blob is there")
			}
			if got, err := read(t, s, "another"); err != nil || !bytes.Equal(got, octets) {
				t.Errorf("the other blob: %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "blobs", "lost", filepath.Base(harmed))); name != "removed" && err != nil {
				t.Errorf("the damaged file is not kept: %v", err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Errorf("Check after damage was accepted: %v", err)
			}
		})
	}
}

func TestWhatACrashLeavesOverIsRemoved(t *testing.T) {
	dir := t.TempDir()
	octets := random(100_000)
	s := open(t, dir, filestore.Options{})
	put(t, s, "blob", octets)
	begin(t, s, "part")
	if err := grow(t, s, "part", 0, octets[:70_000]); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	kept := files(t, dir)
	for i, path := range kept { // octets that were written and not committed
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(random(1 + 99_000*i)); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	orphan := filepath.Join(dir, "blobs", strings.Repeat("0f", 16))
	other := filepath.Join(dir, "blobs", "README")
	for _, path := range []string{orphan, other} {
		if err := os.WriteFile(path, octets, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir, filestore.Options{})
	defer s.Close()
	if after := files(t, dir); !slices.Equal(after, kept) {
		t.Errorf("files %q, want %q", after, kept)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a file of somebody else: %v", err)
	}
	if got, err := read(t, s, "blob"); err != nil || !bytes.Equal(got, octets) {
		t.Errorf("the blob: %v", err)
	}
	if err := grow(t, s, "part", 70_000, octets[70_000:]); err != nil {
		t.Fatal(err)
	}
	if ok, err := seal(t, s, "part", octets); !ok || err != nil {
		t.Errorf("Seal of the part: %v, %v", ok, err)
	}
}

// shaky is records that fail when they are told to: before or after the operation.
type shaky struct {
	store.Records
	mu     sync.Mutex
	before func(space string) bool
	after  func(space string) bool
}

func (s *shaky) set(before, after func(space string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func (s *shaky) fails(space string) (before, after bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.before != nil && s.before(space), s.after != nil && s.after(space)
}

func (s *shaky) Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	before, after := s.fails(space)
	if before {
		go done(store.PutResult{Err: store.ErrUnavailable})
		return
	}
	s.Records.Put(space, key, was, owner, value, expires, func(r store.PutResult) {
		if after {
			r = store.PutResult{Err: store.ErrUnavailable}
		}
		done(r)
	})
}

func (s *shaky) Delete(space, key string, was uint64, done func(bool, error)) {
	before, after := s.fails(space)
	if before {
		go done(false, store.ErrUnavailable)
		return
	}
	s.Records.Delete(space, key, was, func(removed bool, err error) {
		if after {
			removed, err = false, store.ErrUnavailable
		}
		done(removed, err)
	})
}

func always(string) bool      { return true }
func parts(space string) bool { return strings.HasSuffix(space, ".parts") }
func blobs(space string) bool { return !parts(space) }

// Whatever fails, whether or not it took effect, the next try succeeds; and if the
// process had ended instead, what was acknowledged would have been there.
func TestAFailedCommitHarmsNothing(t *testing.T) {
	octets := random(300_000)
	for _, which := range []struct {
		name string
		of   func(string) bool
	}{{"all", always}, {"parts", parts}, {"blobs", blobs}} {
		for _, applied := range []bool{false, true} {
			for _, ends := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, applied %v, reopened %v", which.name, applied, ends), func(t *testing.T) {
					dir := t.TempDir()
					records, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: filepath.Join(dir, "records")})
					if err != nil {
						t.Fatal(err)
					}
					defer records.Close()
					sh := &shaky{Records: records}
					o := filestore.Options{Records: sh, Space: "blobs", Dir: filepath.Join(dir, "blobs")}
					s, err := filestore.Open(t.Context(), o)
					if err != nil {
						t.Fatal(err)
					}
					defer func() {
						if s != nil {
							_ = s.Close()
						}
					}()
					// try does something that fails, and then again.
					try := func(f func() error) {
						t.Helper()
						if applied {
							sh.set(nil, which.of)
						} else {
							sh.set(which.of, nil)
						}
						err := f()
						sh.set(nil, nil)
						if err == nil {
							return // it has to do with the other space only
						}
						if !errors.Is(err, store.ErrUnavailable) {
							t.Fatalf("%v, want ErrUnavailable", err)
						}
						if ends {
							if err := s.Close(); err != nil {
								t.Fatal(err)
							}
							if s, err = filestore.Open(t.Context(), o); err != nil {
								t.Fatalf("opened again: %v", err)
							}
						}
						if err := f(); err != nil {
							t.Fatalf("again: %v", err)
						}
					}
					for round := range 3 { // the blob of the second replaces that of the first
						try(func() error {
							_, err := did(t, func(done func(bool, error)) { s.Begin("a", "owner", 0, nil, nil, time.Hour, done) })
							return err
						})
						for at := 0; at < len(octets); at += 100_000 {
							try(func() error {
								p, found, err := s.Part(t.Context(), "a")
								if !found || err != nil || p.Held < uint64(at) {
									t.Fatalf("the part has %d octets, %v, %v, want %d", p.Held, found, err, at)
								}
								if p.Held > uint64(at) {
									return nil // it turned out to be there
								}
								return grow(t, s, "a", at, octets[at:at+100_000])
							})
						}
						if round == 1 {
							try(func() error {
								_, err := did(t, func(done func(bool, error)) { s.Discard("a", done) })
								return err
							})
							continue
						}
						try(func() error {
							if _, found, err := s.Part(t.Context(), "a"); !found || err != nil {
								return nil // it turned out to be sealed
							}
							sealed, err := seal(t, s, "a", octets)
							if err == nil && !sealed {
								t.Fatal("the octets do not fit their digest")
							}
							return err
						})
						if got, err := read(t, s, "a"); err != nil || !bytes.Equal(got, octets) {
							t.Fatalf("the blob: %v", err)
						}
					}
					try(func() error {
						_, err := did(t, func(done func(bool, error)) { s.Remove("a", 0, done) })
						return err
					})
					if _, found, err := s.Blob(t.Context(), "a"); found || err != nil {
						t.Error("the blob is there after it was removed")
					}
					if left := files(t, dir); len(left) != 0 {
						// What a crash had left over of the last step.
						_ = s.Close()
						if s, err = filestore.Open(t.Context(), o); err != nil {
							t.Fatal(err)
						}
						if left := files(t, dir); len(left) != 0 {
							t.Errorf("files %q are left", left)
						}
					}
				})
			}
		}
	}
}

func TestST03AFullVolumeIsAFailureThatPasses(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, filestore.Options{})
	defer s.Close()
	octets := random(2 << 20)
	begin(t, s, "a")
	if err := grow(t, s, "a", 0, octets[:1<<20]); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		// No file may be longer: the system says EFBIG.
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1<<20 + 200_000, Max: was.Max}); err != nil {
			t.Skipf("limiting the size of files is not permitted here: %v", err)
		}
		err := grow(t, s, "a", 1<<20, octets[1<<20:])
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Append beyond the limit: %v, want ErrUnavailable", err)
		}
		if p, _, _ := s.Part(t.Context(), "a"); p.Held != 1<<20 {
			t.Errorf("the part has %d octets, want %d", p.Held, 1<<20)
		}
		if info, err := os.Stat(files(t, dir)[0]); err != nil || info.Size() > 1<<20+100 {
			t.Errorf("the file keeps %d octets, %v", info.Size(), err)
		}
	}
	if err := grow(t, s, "a", 1<<20, octets[1<<20:]); err != nil {
		t.Fatal(err)
	}
	if ok, err := seal(t, s, "a", octets); !ok || err != nil {
		t.Errorf("Seal: %v, %v", ok, err)
	}
}

func TestADirectoryThatIsGoneIsNoticed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, filestore.Options{})
	defer s.Close()
	if err := os.RemoveAll(filepath.Join(dir, "blobs")); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Check: %v, want ErrUnavailable", err)
	}
}

func TestMemoryDoesNotGrowWithTheSize(t *testing.T) {
	s := open(t, t.TempDir(), filestore.Options{Durability: store.Process, Writers: 1, Readers: 1})
	defer s.Close()
	data := random(1 << 20)
	// once makes a blob of so many MiB, reads it, and returns what that allocated.
	once := func(size int) uint64 {
		var before, after runtime.MemStats
		hash := sha256.New()
		runtime.ReadMemStats(&before)
		begin(t, s, "a")
		for i := range size {
			if err := grow(t, s, "a", i<<20, data); err != nil {
				t.Fatal(err)
			}
			hash.Write(data)
		}
		must(t, func(done func(bool, error)) { s.Seal("a", [32]byte(hash.Sum(nil)), 0, done) })
		blob, _, _ := s.Blob(t.Context(), "a")
		p := make([]byte, 256<<10)
		for at := 0; at < size<<20; at += len(p) {
			if n, _, err := s.ReadAt(t.Context(), "a", blob.Version, p, uint64(at)); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	once(1)
	small, large := once(2), once(128)
	if large > small+8<<20 {
		t.Errorf("128 MiB allocate %d octets, 2 MiB %d", large, small)
	}
}

func TestST04AnExportOfADamagedFileEndsWithItsName(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, filestore.Options{})
	defer func() { _ = b.Close() }()
	put(t, b, "a", random(10))
	put(t, b, "b", random(300_000))
	places := 0
	export := func() error { return b.Export(t.Context(), func(store.Piece) error { return nil }) }
	if err := export(); err != nil {
		t.Fatal(err)
	}
	for _, path := range files(t, dir) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int64{0, info.Size() / 2, info.Size() - 1} {
			places++
			flip(t, path, at)
			if err := export(); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(path)) {
				t.Errorf("octet %d of %d: %v", at, info.Size(), err)
			}
			flip(t, path, at)
		}
	}
	if places != 6 {
		t.Errorf("%d places were damaged, want 6", places)
	}
}
