//go:build unix

package pgstore_test

import (
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/pgtest"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/pgstore"
	"github.com/slimwire/swp/store/storetest"
)

func TestMain(m *testing.M) {
	code := pgtest.Run(m)
	if err := goleak.Find(); err != nil && code == 0 {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

func TestContract(t *testing.T) {
	server := pgtest.Shared(t)
	var databases sync.Map // by directory
	storetest.Run(t, func(t *testing.T, dir string, o storetest.Options) (store.Store, error) {
		dsn, known := databases.Load(dir)
		if !known {
			made, err := server.Database(t.Context())
			pgtest.Must(t, err)
			dsn = made
			databases.Store(dir, made)
		}
		return pgstore.Open(t.Context(), pgstore.Options{
			DSN: dsn.(string), Now: o.Now, Limits: store.Limits{Quota: o.Quota, QuotaPerOwner: o.QuotaPerOwner, Waiting: o.Waiting, Remembered: o.Remembered, Apart: o.Apart}, QueueLength: o.QueueLength,
		})
	})
}
