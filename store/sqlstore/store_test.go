package sqlstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	of := func(level store.Durability, file bool) storetest.Open {
		return func(t *testing.T, dir string, o storetest.Options) store.Store {
			if !file {
				dir = ""
			}
			return open(t, sqlstore.Options{
				Dir: dir, Durability: level, Now: o.Now, Quota: o.Quota, QuotaPerOwner: o.QuotaPerOwner, QueueLength: o.QueueLength,
				Waiting: o.Waiting, Remembered: o.Remembered,
			})
		}
	}
	t.Run("Power", func(t *testing.T) { storetest.Run(t, of(store.Power, true)) })
	t.Run("Process", func(t *testing.T) { storetest.Run(t, of(store.Process, true)) })
	t.Run("Memory", func(t *testing.T) { storetest.RunMemory(t, of("", false)) })
}

func open(t testing.TB, o sqlstore.Options) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
