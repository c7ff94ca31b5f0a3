package sharedblobs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sharedblobs"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	run := func(t *testing.T, objects func(t testing.TB, dir string) sharedblobs.Objects) {
		storetest.RunBlobs(t, false, func(t *testing.T, dir string, o storetest.Options) (store.Blobs, error) {
			return tryOpen(t, dir, sharedblobs.Options{
				Objects: objects(t, dir), Now: o.Now, BlobLimits: store.BlobLimits{Quota: o.Quota, QuotaPerOwner: o.QuotaPerOwner, Apart: o.Apart}, QueueLength: o.QueueLength,
			})
		})
	}
	t.Run("directory", func(t *testing.T) { run(t, directory) })
	t.Run("bucket", func(t *testing.T) {
		g := newGateway(t)
		var mu sync.Mutex
		names := make(map[string]string)
		run(t, func(t testing.TB, dir string) sharedblobs.Objects {
			mu.Lock()
			defer mu.Unlock()
			if names[dir] == "" {
				names[dir] = fmt.Sprint("bucket-", len(names))
			}
			return g.bucket(t, names[dir])
		})
	})
}

// directory returns the directory "objects" below a directory.
func directory(t testing.TB, dir string) sharedblobs.Objects {
	t.Helper()
	path := filepath.Join(dir, "objects")
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	d, err := sharedblobs.NewDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// both is blobs and the records under them, closed together.
type both struct {
	*sharedblobs.Store
	records *sqlstore.Store
}

func (b both) Close() error {
	err := b.Store.Close()
	if closed := b.records.Close(); err == nil {
		err = closed
	}
	return err
}

// tryOpen opens blobs with separate records below a directory.
func tryOpen(t testing.TB, dir string, o sharedblobs.Options) (both, error) {
	t.Helper()
	records := sqlstore.Options{Dir: filepath.Join(dir, "records")}
	r, err := sqlstore.Open(t.Context(), records)
	if errors.Is(err, store.ErrLocked) {
		records.Dir = ""
		r, err = sqlstore.Open(t.Context(), records)
	}
	if err != nil {
		t.Fatal(err)
	}
	o.Records, o.Space = r, "blobs"
	s, err := sharedblobs.Open(t.Context(), o)
	if err != nil {
		_ = r.Close()
		_ = o.Objects.Close()
		return both{}, err
	}
	return both{s, r}, nil
}
