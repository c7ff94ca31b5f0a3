package sqlstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

func TestAnExportSortsNothing(t *testing.T) {
	s := open(t, sqlstore.Options{})
	defer func() { _ = s.Close() }()
	for _, statement := range sqlstore.Exports {
		steps, err := s.Plan(t.Context(), statement)
		if err != nil || len(steps) == 0 {
			t.Fatalf("%s: %q, %v", statement, steps, err)
		}
		if all := strings.Join(steps, "; "); strings.Contains(all, "TEMP B-TREE") {
			t.Errorf("%s\nsorts: %s", statement, all)
		}
	}
}

// exportOf counts the pieces of an export.
func exportOf(t *testing.T, s *sqlstore.Store) (pieces int, err error) {
	t.Helper()
	err = s.Export(t.Context(), func(store.Piece) error {
		pieces++
		return nil
	})
	return pieces, err
}

func TestST04ADamagedRowEndsAnExport(t *testing.T) {
	files := stopped(t)
	s := open(t, sqlstore.Options{Dir: files.place(t)})
	whole, err := exportOf(t, s)
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	said := make(map[string]bool)
	for at := 0; ; { // the record, the entry and the item with this value, and old copies of them
		next := bytes.Index(files["state.db"][at:], []byte("value 123 value 123"))
		if next < 0 {
			break
		}
		at += next + 10
		b := bytes.Clone(files["state.db"])
		b[at] ^= 1
		s := open(t, sqlstore.Options{Dir: files.with("state.db", b).place(t)})
		switch n, err := exportOf(t, s); {
		case err == nil && n != whole:
			t.Errorf("octet %d: %d pieces of %d without an error", at, n, whole)
		case err != nil && (!errors.Is(err, store.ErrDamaged) || n >= whole):
			t.Errorf("octet %d: %v after %d pieces", at, err, n)
		case err != nil:
			_, what, _ := strings.Cut(err.Error(), "state.db: ")
			said[what] = true
		}
		_ = s.Close() // it may report the damage
	}
	for _, want := range []string{`record "0123"`, `of log "log 0"`, `item "id 123"`} {
		found := false
		for what := range said {
			found = found || strings.Contains(what, want)
		}
		if !found {
			t.Errorf("no export ends at the %s; they end at %q", want, slices.Collect(maps.Keys(said)))
		}
	}
}

func TestST03AnImportThatFillsTheVolumeLeavesAnEmptyStore(t *testing.T) {
	s := open(t, sqlstore.Options{Dir: filepath.Join(mount(t, "tmpfs", "tmpfs", "size=8m"), "store")})
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	import100 := func(octets int) error {
		n := -1
		return s.Import(t.Context(), func() (store.Piece, error) {
			switch n++; {
			case n == 0:
				return &store.Start{Clock: 1, Versions: 100}, nil
			case n > 100:
				return nil, io.EOF
			}
			return &store.Record{Space: "space", Key: fmt.Sprint(n), Version: uint64(n), Value: make([]byte, octets)}, nil
		})
	}
	for range 3 {
		if err := import100(200_000); !errors.Is(err, store.ErrFull) {
			t.Fatalf("20 MB into 8 MiB: %v, want ErrFull", err)
		}
		if n, err := exportOf(t, s); n != 1 || err != nil {
			t.Errorf("after a failed import: %d pieces, %v, want the start alone", n, err)
		}
	}
	if err := import100(100); err != nil {
		t.Errorf("what has room: %v", err)
	}
	if n, err := exportOf(t, s); n != 101 || err != nil {
		t.Errorf("%d pieces, %v, want 101", n, err)
	}
}
