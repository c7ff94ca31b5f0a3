package filestore_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	for _, level := range []store.Durability{store.Power, store.Process} {
		t.Run(string(level), func(t *testing.T) {
			if level == store.Process {
				effort.Release(t) // Power without what waits for the disk
			}
			storetest.RunBlobs(t, false, func(t *testing.T, dir string, o storetest.Options) (store.Blobs, error) {
				return tryOpen(t, dir, filestore.Options{
					Durability: level, Now: o.Now, BlobLimits: store.BlobLimits{Quota: o.Quota, QuotaPerOwner: o.QuotaPerOwner, Apart: o.Apart}, QueueLength: o.QueueLength,
				})
			})
		})
	}
	t.Run("memory", func(t *testing.T) {
		storetest.RunBlobs(t, true, func(t *testing.T, _ string, o storetest.Options) (store.Blobs, error) {
			return tryOpen(t, "", filestore.Options{
				Now: o.Now, BlobLimits: store.BlobLimits{Quota: o.Quota, QuotaPerOwner: o.QuotaPerOwner, Apart: o.Apart}, QueueLength: o.QueueLength,
			})
		})
	})
}

// both is blobs and the records under them, closed together.
type both struct {
	store.Blobs
	records *sqlstore.Store
}

func (b both) Export(ctx context.Context, yield func(store.Piece) error) error {
	return b.Blobs.(store.Exporter).Export(ctx, yield)
}

func (b both) Import(ctx context.Context, next func() (store.Piece, error)) error {
	return b.Blobs.(store.Importer).Import(ctx, next)
}

func (b both) Close() error {
	err := b.Blobs.Close()
	if closed := b.records.Close(); err == nil {
		err = closed
	}
	return err
}

// open opens blobs with records of their own below a directory, in memory where
// there is none.
func open(t testing.TB, dir string, o filestore.Options) both {
	t.Helper()
	b, err := tryOpen(t, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tryOpen(t testing.TB, dir string, o filestore.Options) (both, error) {
	t.Helper()
	var records sqlstore.Options
	if dir != "" {
		records.Dir, o.Dir = filepath.Join(dir, "records"), filepath.Join(dir, "blobs")
	}
	records.Durability = o.Durability
	r, err := sqlstore.Open(t.Context(), records)
	if errors.Is(err, store.ErrLocked) {
		records.Dir = ""
		r, err = sqlstore.Open(t.Context(), records)
	}
	if err != nil {
		t.Fatal(err)
	}
	o.Records, o.Space = r, "blobs"
	s, err := filestore.Open(t.Context(), o)
	if err != nil {
		_ = r.Close()
		return both{}, err
	}
	return both{s, r}, nil
}
