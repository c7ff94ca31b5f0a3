package sqlstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	of := func(level store.Durability, file bool) storetest.Open {
		return func(t *testing.T, dir string, o storetest.Options) (store.Store, error) {
			if !file {
				dir = ""
			}
			return sqlstore.Open(t.Context(), sqlstore.Options{
				Dir: dir, Durability: level, Now: o.Now, Limits: store.Limits{Quota: o.Quota, QuotaPerOwner: o.QuotaPerOwner, Waiting: o.Waiting, Remembered: o.Remembered, Apart: o.Apart}, QueueLength: o.QueueLength,
			})
		}
	}
	t.Run("Power", func(t *testing.T) { storetest.Run(t, of(store.Power, true)) })
	t.Run("Process", func(t *testing.T) {
		effort.Release(t) // Power without what waits for the disk
		storetest.Run(t, of(store.Process, true))
	})
	t.Run("Memory", func(t *testing.T) { storetest.RunMemory(t, of("", false)) })
}

func TestEveryWriteThatMeetsCloseIsTold(t *testing.T) {
	for range 4 {
		s := open(t, sqlstore.Options{})
		closed := make(chan struct{})
		var puts, told sync.WaitGroup
		for i := range 4 {
			puts.Go(func() {
				for {
					told.Add(1)
					s.Put("space", fmt.Sprint(i), 0, "owner", nil, time.Time{}, func(store.PutResult) { told.Done() })
					select {
					case <-closed:
						return
					default:
					}
				}
			})
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		close(closed)
		puts.Wait()
		told.Wait()
	}
}

func open(t testing.TB, o sqlstore.Options) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
