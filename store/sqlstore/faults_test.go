package sqlstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slimwire/swp/internal/disk/disktest"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// mount mounts a file system of its own and returns its directory.
func mount(t *testing.T, kind string, source, options string) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"-t", kind, "-o", options, source, dir}
	if out, err := exec.CommandContext(t.Context(), "mount", args...).CombinedOutput(); err != nil {
		t.Skipf("mounting is not permitted here: mount %s: %v: %s", strings.Join(args, " "), err, out)
	}
	t.Cleanup(func() { disktest.Unmount(t, dir) })
	return dir
}

// add appends one entry of 4 KiB and returns its error.
func add(s *sqlstore.Store, n int) error {
	errs := make(chan error, 1)
	data := bytes.Repeat([]byte{byte(n)}, 4096)
	s.Append("space", "log", fmt.Sprint(n), "owner", data, time.Time{}, func(r store.AppendResult) { errs <- r.Err })
	return <-errs
}

// wantKept wants a log of whole entries, each of those that were acknowledged.
func wantKept(t *testing.T, s *sqlstore.Store, acknowledged map[int]bool) {
	t.Helper()
	held := make(map[string]bool)
	err := s.Read(t.Context(), "space", "log", 0, func(_ uint64, id string, data []byte) bool {
		held[id] = len(data) == 4096
		return true
	})
	if err != nil {
		t.Errorf("Read: %v", err)
	}
	for n := range acknowledged {
		if !held[fmt.Sprint(n)] {
			t.Errorf("entry %d is lost", n)
		}
	}
}

func TestST03FullVolumeRecoversByItself(t *testing.T) {
	dir := mount(t, "tmpfs", "tmpfs", "size=8m")
	at := filepath.Join(dir, "store")
	s := open(t, sqlstore.Options{Dir: at})
	ballast := filepath.Join(dir, "ballast")
	acknowledged := make(map[int]bool)
	n := 0
	for round := range 2 {
		if err := os.WriteFile(ballast, make([]byte, 4<<20-round<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		// Writing the log back makes some room again, so the first refusal is not
		// the last acknowledgement.
		var refused error
		for full := error(nil); full == nil; n++ {
			if err := add(s, n); err == nil {
				acknowledged[n] = true
				continue
			} else if refused = err; !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("round %d: full volume: %v, want ErrUnavailable", round, err)
			}
			full = s.Check(t.Context())
		}
		if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("round %d: Check on a full volume: %v", round, err)
		}
		var kind *store.Error
		if !errors.As(refused, &kind) || !kind.Retryable() {
			t.Errorf("round %d: %v cannot be tried again", round, refused)
		}
		wantKept(t, s, acknowledged)
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("round %d: Check when space is back: %v", round, err)
		}
		if err := add(s, n); err != nil {
			t.Errorf("round %d: Append when space is back: %v", round, err)
		}
		acknowledged[n] = true
		n++
		wantKept(t, s, acknowledged)
		errs := make(chan error, 1)
		s.Trim("space", "log", 1<<63, func(err error) { errs <- err })
		if err := <-errs; err != nil {
			t.Errorf("Trim: %v", err)
		}
		clear(acknowledged)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s = open(t, sqlstore.Options{Dir: at})
	defer s.Close()
	s.WaitChecked()
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// A few pages are left: what is small can be written, and what users write not.
func TestST03NearlyFullVolumeIsTold(t *testing.T) {
	dir := mount(t, "tmpfs", "tmpfs", "size=8m")
	s := open(t, sqlstore.Options{Dir: filepath.Join(dir, "store")})
	defer s.Close()
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	var free unix.Statfs_t
	if err := unix.Statfs(dir, &free); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, int64(free.Bavail)*free.Bsize-48<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check before anything was refused: %v", err)
	}
	if err := put(s, "large", "owner", 200_000); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("Put of more than is left: %v, want ErrUnavailable", err)
	}
	if err := put(s, "small", "owner", 10); err != nil {
		t.Errorf("Put of less than is left: %v", err)
	}
	for range 3 {
		if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Check after a refusal: %v, want ErrUnavailable", err)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("Check when space is back: %v", err)
		}
	}
	if err := put(s, "large", "owner", 200_000); err != nil {
		t.Errorf("Put when space is back: %v", err)
	}
}

// refuseWrites lets no file be written beyond its first page until allow is called: the system says EFBIG.
func refuseWrites(t *testing.T) (allow func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: was.Max}); err != nil {
		t.Skipf("limiting the size of files is not permitted here: %v", err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
			t.Error(err)
		}
	}
}

func TestAFailedWriteIsRetriedByTheNextOperation(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlstore.Options{Dir: dir})
	defer s.Close()
	acknowledged := make(map[int]bool)
	for n := range 20 {
		if err := add(s, n); err != nil {
			t.Fatal(err)
		}
		acknowledged[n] = true
	}
	for range 3 {
		allow := refuseWrites(t)
		for n := 20; n < 25; n++ {
			if err := add(s, n); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("Append beyond the limit: %v, want ErrUnavailable", err)
			}
		}
		wantKept(t, s, acknowledged)
		allow()
		for n := 20; n < 40; n++ {
			if err := add(s, n); err != nil {
				t.Errorf("Append after the limit: %v", err)
			}
			acknowledged[n] = true
		}
		wantKept(t, s, acknowledged)
		errs := make(chan error, 1)
		s.Drop("space", "log", func(err error) { errs <- err })
		if err := <-errs; err != nil {
			t.Error(err)
		}
		clear(acknowledged)
	}
	if stats := s.Stats(); stats.Failed == 0 {
		t.Error("Stats: no operation failed")
	}
}

func TestAWriteRepeatedAtItsOutcomeIsTriedAgain(t *testing.T) {
	s := open(t, sqlstore.Options{Dir: t.TempDir()})
	defer s.Close()
	if err := add(s, 0); err != nil {
		t.Fatal(err)
	}
	allow := refuseWrites(t)
	first, second := make(chan error, 1), make(chan error, 1)
	s.Append("space", "log", "1", "owner", make([]byte, 4096), time.Time{}, func(r store.AppendResult) {
		allow()
		first <- r.Err
		s.Append("space", "log", "1", "owner", make([]byte, 4096), time.Time{}, func(r store.AppendResult) { second <- r.Err })
	})
	if err := <-first; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Append beyond the limit: %v, want ErrUnavailable", err)
	}
	if err := <-second; err != nil {
		t.Errorf("Append after the limit: %v", err)
	}
}

func TestST06AStalledDiskIsWaitedFor(t *testing.T) {
	backing := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(backing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(backing, 64<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", backing).CombinedOutput(); err != nil {
		t.Skipf("no file system to freeze: mkfs.ext4: %v: %s", err, out)
	}
	dir := mount(t, "ext4", backing, "loop")
	s := open(t, sqlstore.Options{Dir: filepath.Join(dir, "store"), QueueLength: 64})
	defer s.Close()
	if err := add(s, 0); err != nil {
		t.Fatal(err)
	}
	mountpoint, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer mountpoint.Close()
	const freeze, thaw = 0xC0045877, 0xC0045878 // FIFREEZE, FITHAW of linux/fs.h
	if err := unix.IoctlSetInt(int(mountpoint.Fd()), freeze, 0); err != nil {
		t.Skipf("freezing is not permitted here: %v", err)
	}
	unfreeze := sync.OnceFunc(func() {
		if err := unix.IoctlSetInt(int(mountpoint.Fd()), thaw, 0); err != nil {
			t.Error(err)
		}
	})
	defer unfreeze()
	defer time.AfterFunc(15*time.Second, unfreeze).Stop() // a frozen file system would outlive this process

	const operations = 500
	var mu sync.Mutex
	kept := map[int]bool{0: true}
	busy := make(chan error, operations)
	results := make(chan error, operations)
	for n := 1; n <= operations; n++ {
		s.Append("space", "log", fmt.Sprint(n), "", make([]byte, 4096), time.Time{}, func(r store.AppendResult) {
			if errors.Is(r.Err, store.ErrBusy) {
				busy <- r.Err
				return
			}
			if r.Err == nil {
				mu.Lock()
				kept[n] = true
				mu.Unlock()
			}
			results <- r.Err
		})
	}
	// What does not fit is refused although the disk does not answer.
	for range operations - 64 {
		<-busy
	}
	if _, last, err := s.Span(t.Context(), "space", "log"); err != nil || last != 1 {
		t.Errorf("reading during the stall: last number %d, error %v", last, err)
	}
	select {
	case err := <-results:
		t.Errorf("an operation was answered during the stall: %v", err)
	default:
	}
	unfreeze()
	for range 64 {
		if err := <-results; err != nil {
			t.Errorf("after the stall: %v", err)
		}
	}
	wantKept(t, s, kept)
	if stats := s.Stats(); stats.Refused != operations-64 || stats.Queued != 0 {
		t.Errorf("%+v, want %d refused and none queued", stats, operations-64)
	}
}

func TestST05SecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlstore.Options{Dir: dir})
	_, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir})
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), filepath.Join(dir, "lock")) {
		t.Errorf("Open of an open store: %v, want ErrLocked and the path", err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := open(t, sqlstore.Options{Dir: dir}).Close(); err != nil {
		t.Error(err)
	}
}

func TestST05AnotherReleaseIsRefusedAndUntouched(t *testing.T) {
	for name, files := range map[string]image{"stopped": stopped(t), "killed": killed(t)} {
		for what, at := range map[string]int{"schema": 63, "application": 71} {
			t.Run(name+"/"+what, func(t *testing.T) {
				b := bytes.Clone(files["state.db"])
				b[at]++
				changed := files.with("state.db", b)
				dir := changed.place(t)
				for _, accept := range []bool{false, true} {
					_, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir, AcceptDamage: accept})
					if !errors.Is(err, store.ErrVersion) || !strings.Contains(err.Error(), filepath.Join(dir, "state.db")) {
						t.Errorf("Open: %v, want ErrVersion and the file", err)
					}
				}
				for file, was := range changed {
					if now, _ := os.ReadFile(filepath.Join(dir, file)); !bytes.Equal(now, was) {
						t.Errorf("%s was changed", file)
					}
				}
			})
		}
	}
}

func TestADirectoryThatCanNotBeUsedIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: filepath.Join(file, "store")}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("Open below a file: %v", err)
	}
	if _, err := sqlstore.Open(t.Context(), sqlstore.Options{Durability: "hope"}); err == nil || !strings.Contains(err.Error(), `"hope"`) {
		t.Errorf("Open with an unknown durability: %v", err)
	}
}

func TestARemovedStoreIsNotReady(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, sqlstore.Options{Dir: dir})
	defer s.Close()
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Check of a store whose files were removed: %v", err)
	}
}

// TestSyncHelper is the process that TestST02 counts the calls of.
func TestSyncHelper(t *testing.T) {
	level, n := os.Getenv("SYNC_HELPER_LEVEL"), 50
	if level == "" {
		t.Skip("only run by TestST02")
	}
	s := open(t, sqlstore.Options{Dir: os.Getenv("SYNC_HELPER_DIR"), Durability: store.Durability(level)})
	for i := range n {
		if err := add(s, i); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(os.Stderr, "acknowledged\n"); err != nil {
			t.Fatal(err)
		}
	}
	os.Exit(0) // as if killed: nothing is synced on the way out
}

func TestST02AcknowledgedAfterSync(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	for _, level := range []store.Durability{store.Power, store.Process} {
		t.Run(string(level), func(t *testing.T) {
			trace := filepath.Join(t.TempDir(), "trace")
			cmd := exec.CommandContext(t.Context(), strace, "-f", "-y", "-o", trace, "-e", "trace=fsync,fdatasync,write,pwrite64",
				os.Args[0], "-test.run=^TestSyncHelper$")
			cmd.Env = append(os.Environ(), "SYNC_HELPER_LEVEL="+string(level), "SYNC_HELPER_DIR="+t.TempDir())
			if out, err := cmd.CombinedOutput(); err != nil {
				if bytes.Contains(out, []byte("ptrace")) {
					t.Skipf("tracing is not permitted here: %s", out)
				}
				t.Fatalf("%v: %s", err, out)
			}
			b, err := os.ReadFile(trace)
			if err != nil {
				t.Fatal(err)
			}
			acknowledged, weak, unwritten := readSyncs(string(b))
			if acknowledged != 50 || unwritten > 0 {
				t.Fatalf("%d acknowledged, %d of them not written before", acknowledged, unwritten)
			}
			if level == store.Power && weak > 0 {
				t.Errorf("%d of %d acknowledged before they were synced", weak, acknowledged)
			}
			if level == store.Process && weak != acknowledged {
				t.Errorf("%d of %d synced, which nobody asked for", acknowledged-weak, acknowledged)
			}
		})
	}
}

// readSyncs reads what strace saw of a store: the entries that it acknowledged, those of them
// that were acknowledged before the log was written and then synced, and those before it was
// written at all. The sweeper may write the log again between a sync and its acknowledgement,
// and a sync counts when it has returned.
func readSyncs(trace string) (acknowledged, weak, unwritten int) {
	wrote, synced := false, false
	under := make(map[string]bool) // threads with a sync of the log under way
	for line := range strings.Lines(trace) {
		thread, _, _ := strings.Cut(line, " ")
		ofLog := strings.Contains(line, "state.db-wal")
		switch {
		case ofLog && strings.Contains(line, "pwrite64(") && strings.Contains(line, ", 4096, "): // a page, not a header
			wrote = true
		case ofLog && strings.Contains(line, "sync(") && strings.Contains(line, "<unfinished"):
			under[thread] = wrote
		case ofLog && strings.Contains(line, "sync("):
			synced = synced || wrote
		case strings.Contains(line, "sync resumed>") && under[thread]:
			synced = true
			delete(under, thread)
		case strings.Contains(line, `"acknowledged\n"`):
			acknowledged++
			if !wrote {
				unwritten++
			}
			if !synced {
				weak++
			}
			wrote, synced = false, false
			clear(under)
		}
	}
	return acknowledged, weak, unwritten
}

func TestReadSyncs(t *testing.T) {
	const (
		write  = "7 pwrite64(5</s/state.db-wal>, \"x\"..., 4096, 56) = 4096\n"
		header = "7 pwrite64(5</s/state.db-wal>, \"x\"..., 32, 0) = 32\n"
		sync   = "7 fdatasync(5</s/state.db-wal>) = 0\n"
		begins = "7 fdatasync(5</s/state.db-wal> <unfinished ...>\n"
		ends   = "7 <... fdatasync resumed>) = 0\n"
		other  = "7 fdatasync(6</s/state.db>) = 0\n"
		acks   = "8 write(2<pipe:[1]>, \"acknowledged\\n\", 13) = 13\n"
	)
	for name, test := range map[string]struct {
		trace           string
		weak, unwritten int
	}{
		"synced":                       {write + write + sync + acks, 0, 0},
		"the sweeper writes after it":  {write + sync + write + acks, 0, 0},
		"a sync that has returned":     {write + begins + ends + acks, 0, 0},
		"a sync under way":             {write + begins + acks + ends, 1, 0},
		"a sync that came too late":    {write + acks + sync, 1, 0},
		"a sync of what was there":     {sync + write + acks, 1, 0},
		"a sync of a new log's header": {header + sync + write + acks, 1, 0},
		"a sync of another file":       {write + other + acks, 1, 0},
		"a sync of the one before":     {write + sync + acks + write + acks, 1, 0},
		"nothing written, nor synced":  {acks, 1, 1},
		"synced without being written": {sync + acks, 1, 1},
	} {
		acknowledged, weak, unwritten := readSyncs(test.trace)
		if want := strings.Count(test.trace, acks); acknowledged != want || weak != test.weak || unwritten != test.unwritten {
			t.Errorf("%s: %d acknowledged, %d weak, %d unwritten; want %d, %d, %d",
				name, acknowledged, weak, unwritten, want, test.weak, test.unwritten)
		}
	}
}
