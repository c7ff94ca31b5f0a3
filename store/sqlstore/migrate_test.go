package sqlstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/disk/disktest"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/store/sqlstore/sqlstoretest"
)

// later are the steps of two planted releases: one writes every record again, one every item.
var later = sqlstoretest.PlantedSteps[:2]

// exportsOf returns the pieces of an export after Start.
func exportsOf(t *testing.T, s *sqlstore.Store) (pieces []string) {
	t.Helper()
	err := s.Export(t.Context(), func(p store.Piece) error {
		pieces = append(pieces, fmt.Sprintf("%T %+v", p, p))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pieces[1:]
}

// wantUnchanged wants the files of an image, and none but an empty one besides.
func wantUnchanged(t *testing.T, dir string, files image) {
	t.Helper()
	for name, now := range take(t, dir) {
		if !bytes.Equal(now, files[name]) {
			t.Errorf("%s was changed", name)
		}
	}
}

// wantEarlier wants that a directory has the content of fill in the schema of this release.
func wantEarlier(t *testing.T, dir string) {
	t.Helper()
	s := open(t, sqlstore.Options{Dir: dir})
	if verdict(t, s) {
		t.Error("the earlier store is damaged")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAMigrationKeepsEverything(t *testing.T) {
	for name, files := range map[string]image{"stopped": stopped(t), "killed": killed(t)} {
		t.Run(name, func(t *testing.T) {
			s := open(t, sqlstore.Options{Dir: files.place(t)})
			before := exportsOf(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			dir := files.place(t)
			var told []string
			var mu sync.Mutex
			o := sqlstore.Options{Dir: dir, Later: later, Migrate: true, Notice: func(text string) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, text)
			}}
			for range 2 { // the second time there is nothing to do
				s := open(t, o)
				if verdict(t, s) {
					t.Error("the migrated store is damaged")
				}
				if after := exportsOf(t, s); !slices.Equal(before, after) {
					t.Errorf("%d pieces became %d", len(before), len(after))
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if len(told) != 2 || !strings.Contains(told[0], "migration from schema 3 to 5 begins") || !strings.Contains(told[1], "took") {
				t.Errorf("told %q, want the beginning and the end of one migration", told)
			}
		})
	}
}

func TestAStoreOfALaterReleaseIsRefusedAndUntouched(t *testing.T) {
	dir := stopped(t).place(t)
	s := open(t, sqlstore.Options{Dir: dir, Later: later, Migrate: true})
	if err := add(s, 1); err != nil {
		t.Fatal(err)
	}
	files := take(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// A migration that was committed may be in the log only: the header of the database is old.
	behind := files.with("state.db", bytes.Clone(files["state.db"]))
	behind["state.db"][63] = 3
	for name, files := range map[string]image{"stopped": take(t, dir), "killed": files, "in the log": behind} {
		t.Run(name, func(t *testing.T) {
			dir := files.place(t)
			for _, accept := range []bool{false, true} {
				_, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir, AcceptDamage: accept, Migrate: true})
				if !errors.Is(err, store.ErrNewer) || !strings.Contains(err.Error(), "schema 5, and this program knows schemas up to 3") {
					t.Errorf("Open: %v, want ErrNewer and both schemas", err)
				}
			}
			wantUnchanged(t, dir, files)
		})
	}
	if _, err := sqlstore.OpenView(dir); !errors.Is(err, store.ErrNewer) {
		t.Errorf("OpenView: %v, want ErrNewer", err)
	}
}

func TestAnEarlierStoreIsMigratedOnDemandOnly(t *testing.T) {
	for name, files := range map[string]image{"stopped": stopped(t), "killed": killed(t)} {
		t.Run(name, func(t *testing.T) {
			dir := files.place(t)
			for _, accept := range []bool{false, true} {
				_, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir, Later: later, AcceptDamage: accept})
				if !errors.Is(err, store.ErrOlder) || !strings.Contains(err.Error(), "schema 3, and this program uses schema 5") {
					t.Errorf("Open: %v, want ErrOlder and both schemas", err)
				}
			}
			wantUnchanged(t, dir, files)
		})
	}
}

func TestASchemaThatWasNeverReleasedIsRefused(t *testing.T) {
	files := stopped(t)
	files["state.db"][63] = 2
	_, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: files.place(t), Migrate: true})
	if !errors.Is(err, store.ErrVersion) || errors.Is(err, store.ErrOlder) || !strings.Contains(err.Error(), "schema 2 was never released") {
		t.Errorf("Open: %v", err)
	}
}

func TestAFailedStepLeavesTheEarlierStore(t *testing.T) {
	files := stopped(t)
	dir := files.place(t)
	_, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir, Later: append(later[:2:2], "UPDATE nothing SET a = 1"), Migrate: true})
	if err == nil || !strings.Contains(err.Error(), "the migration was undone: step to schema 6") {
		t.Errorf("Open: %v, want the step", err)
	}
	wantUnchanged(t, dir, files)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = sqlstore.Open(ctx, sqlstore.Options{Dir: dir, Later: later, Migrate: true, Notice: func(string) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Open whose context ends: %v", err)
	}
	wantUnchanged(t, dir, files)
	wantEarlier(t, dir)
}

func TestST03AMigrationOnAFullVolumeLeavesTheEarlierStore(t *testing.T) {
	files := stopped(t)
	volume := filepath.Join(t.TempDir(), "volume")
	disktest.Small(t, volume)
	dir := filepath.Join(volume, "store")
	if err := os.CopyFS(dir, os.DirFS(files.place(t))); err != nil {
		t.Fatal(err)
	}
	// What is left is enough to open a store, and not for the log of the migration.
	ballast := disktest.Fill(t, volume)
	info, err := os.Stat(ballast)
	if err == nil {
		err = os.Truncate(ballast, info.Size()-100<<10)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err = sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir, Later: later, Migrate: true}); !errors.Is(err, store.ErrFull) {
			t.Errorf("Open: %v, want ErrFull", err)
		}
		wantUnchanged(t, dir, files)
	}
	wantEarlier(t, dir)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s := open(t, sqlstore.Options{Dir: dir, Later: later, Migrate: true})
	if verdict(t, s) {
		t.Error("the migrated store is damaged")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestST04ADamagedEarlierStoreIsNotMigrated(t *testing.T) {
	files := killed(t)
	cut := files["state.db-wal"]
	for name, damaged := range map[string]image{
		"no mark":           files.with("state.mark", nil),
		"the log is cut":    files.with("state.db-wal", cut[:len(cut)/2]),
		"a page is missing": stopped(t).with("state.db", stopped(t)["state.db"][:5000]),
	} {
		t.Run(name, func(t *testing.T) {
			dir := damaged.place(t)
			for _, accept := range []bool{false, true} {
				_, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir, Later: later, Migrate: true, AcceptDamage: accept})
				if !errors.Is(err, store.ErrDamaged) || !errors.Is(err, store.ErrOlder) {
					t.Errorf("Open, damage accepted %v: %v, want ErrDamaged and ErrOlder", accept, err)
				}
			}
			if saved, _ := filepath.Glob(filepath.Join(dir, "*.damaged-*")); len(saved) > 0 {
				t.Errorf("a later release has saved what it can: %q", saved)
			}
			wantUnchanged(t, dir, damaged)
		})
	}
}

// childDir has a child process of TestAKilledMigrationIsWholeOrNotBegun migrate a store.
const childDir = "SQLSTORE_MIGRATE"

func TestAKilledMigrationIsWholeOrNotBegun(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := open(t, sqlstore.Options{Dir: dir, Later: later, Migrate: true}).Close(); err != nil {
			t.Error(err)
		}
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := killed(t)
	s := open(t, sqlstore.Options{Dir: files.place(t)})
	before := exportsOf(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// The child is killed after its log has grown to a random size: that is progress which does not
	// depend on the machine. A child that is not killed shows how far it can grow.
	migrate := func(dir string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	earlier, whole := 0, 0
	for round := range effort.Rounds(100) {
		dir := files.place(t)
		cmd := migrate(dir)
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait() // it was killed
			close(ended)
		}()
		limit := int64(len(files["state.db-wal"])) + rand.Int64N(int64(len(files["state.db"])))
		wal := filepath.Join(dir, "state.db-wal")
		for running := true; running; {
			if info, err := os.Stat(wal); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() > limit {
				_ = cmd.Process.Kill()
			}
			select {
			case <-ended:
				running = false
			case <-time.After(100 * time.Microsecond):
			}
		}
		s, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir})
		switch {
		case err == nil:
			earlier++
			if verdict(t, s) {
				t.Errorf("round %d: the earlier store is damaged", round)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		case errors.Is(err, store.ErrNewer):
			whole++
		default:
			t.Fatalf("round %d: the earlier release: %v", round, err)
		}
		s = open(t, sqlstore.Options{Dir: dir, Later: later, Migrate: true})
		if after := exportsOf(t, s); verdict(t, s) || !slices.Equal(before, after) {
			t.Errorf("round %d: %d pieces became %d", round, len(before), len(after))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("killed: %d times the earlier store, %d times the migrated one", earlier, whole)
}
