package sqlstore_test

import (
	"testing"
	"time"

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

func BenchmarkAppend(b *testing.B) {
	for _, level := range []store.Durability{store.Power, store.Process} {
		for _, writers := range []int{1, 16, 64} {
			b.Run(string(level)+"/"+name(writers), func(b *testing.B) { benchmarkAppend(b, level, writers) })
		}
	}
}

func name(writers int) string {
	return map[int]string{1: "1", 16: "16", 64: "64"}[writers] + "-writers"
}

// benchmarkAppend runs closed loops: each writer submits its next entry of 256
// octets, with an id and an expiry, when the one before is acknowledged.
func benchmarkAppend(b *testing.B, level store.Durability, writers int) {
	s := open(b, sqlstore.Options{Dir: b.TempDir(), Durability: level, QuotaPerOwner: 1 << 40, Quota: 1 << 40})
	defer s.Close()
	data := make([]byte, 256)
	expires := time.Now().Add(time.Hour)
	left := make(chan struct{}, b.N)
	for range b.N {
		left <- struct{}{}
	}
	close(left)
	finished := make(chan error, writers)
	b.ReportAllocs()
	b.ResetTimer()
	for w := range writers {
		log := "log-" + string(rune('A'+w))
		ids := newIDs(w)
		var next func()
		next = func() {
			if _, more := <-left; !more {
				finished <- nil
				return
			}
			s.Append("events", log, ids(), "spiffe://a.example/publisher", data, expires, func(_ uint64, _, _ bool, err error) {
				if err != nil {
					finished <- err
					return
				}
				next()
			})
		}
		next()
	}
	for range writers {
		if err := <-finished; err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acks/s")
}
