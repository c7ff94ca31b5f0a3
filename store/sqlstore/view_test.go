package sqlstore_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

func TestAViewReadsAStoreThatIsClosedAndChangesNothing(t *testing.T) {
	dir := t.TempDir()
	if _, err := sqlstore.OpenView(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no store: %v", err)
	}
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	put := make(chan store.PutResult, 1)
	s.Put("space", "key", 0, "owner", []byte("value"), time.Time{}, func(r store.PutResult) { put <- r })
	if r := <-put; r.Err != nil {
		t.Fatal(r.Err)
	}
	if _, err := sqlstore.OpenView(dir); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a store in use: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files := func() (names []string) {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range list {
			names = append(names, entry.Name())
		}
		return names
	}
	before := files()
	for range 2 {
		v, err := sqlstore.OpenView(dir)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		err = v.Scan(t.Context(), "space", "", "", func(key string, _ uint64, value []byte) bool {
			got += key + "=" + string(value)
			return true
		})
		if err != nil || got != "key=value" {
			t.Errorf("read %q, %v", got, err)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := files(); len(after) != len(before) {
		t.Errorf("files %v, before %v", after, before)
	}
	if err := os.WriteFile(filepath.Join(dir, "state.db-wal"), []byte("left by a process that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlstore.OpenView(dir); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a store that was not closed: %v", err)
	}
}
