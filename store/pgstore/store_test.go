//go:build unix

package pgstore_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/pgtest"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/pgstore"
	"github.com/slimwire/swp/store/storetest"
)

func TestMain(m *testing.M) {
	effort.AtOnce(6)
	code := pgtest.Run(m)
	if err := goleak.Find(); err != nil && code == 0 {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

func TestContract(t *testing.T) {
	t.Parallel()
	server, free := pgtest.Shared(t), new(emptied)
	var databases sync.Map // by directory
	storetest.Run(t, func(t *testing.T, dir string, o storetest.Options) (store.Store, error) {
		dsn, known := databases.Load(dir)
		if !known {
			dsn = free.take(t, server)
			databases.Store(dir, dsn)
		}
		return pgstore.Open(t.Context(), pgstore.Options{
			Timeout: patience, DSN: dsn.(string), Now: o.Now, Limits: store.Limits{Quota: o.Quota, QuotaPerOwner: o.QuotaPerOwner, Waiting: o.Waiting, Remembered: o.Remembered, Apart: o.Apart}, QueueLength: o.QueueLength,
		})
	})
}

// emptied are databases without a store, which a test has had. A database of PostgreSQL has 300 files
// before anything is in it.
type emptied struct {
	mu   sync.Mutex
	list []string
}

// take returns an empty database, which is emptied after the test.
func (e *emptied) take(t *testing.T, server *pgtest.Server) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var dsn string
	if last := len(e.list) - 1; last >= 0 {
		dsn, e.list = e.list[last], e.list[:last]
	} else {
		var err error
		dsn, err = server.Database(t.Context())
		pgtest.Must(t, err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		c, err := pgx.Connect(ctx, dsn)
		if err == nil {
			_, err = c.Exec(ctx, "DROP SCHEMA IF EXISTS swp CASCADE")
			_ = c.Close(ctx)
		}
		if err != nil {
			t.Error(err)
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.list = append(e.list, dsn)
	})
	return dsn
}
