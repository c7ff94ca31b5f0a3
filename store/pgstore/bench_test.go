//go:build unix

package pgstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/pgtest"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/pgstore"
)

// BenchmarkAppend measures appends of 256 octets from several producers, each to its log or all to one.
func BenchmarkAppend(b *testing.B) {
	for _, shape := range []struct {
		producers, logs int
	}{{1, 1}, {64, 64}, {64, 1}} {
		producers := shape.producers
		b.Run(fmt.Sprintf("producers=%d/logs=%d", producers, shape.logs), func(b *testing.B) {
			dsn, err := pgtest.Shared(b).Database(b.Context())
			pgtest.Must(b, err)
			s, err := pgstore.Open(b.Context(), pgstore.Options{DSN: dsn, Limits: store.Limits{Quota: 1 << 40, QuotaPerOwner: 1 << 40}})
			if err != nil {
				b.Fatal(err)
			}
			data := make([]byte, 256)
			left := atomic.Int64{}
			left.Store(int64(b.N))
			ended := make(chan struct{}, producers)
			b.ResetTimer()
			for p := range producers {
				var next func(store.AppendResult)
				n := 0
				next = func(r store.AppendResult) {
					if r.Err != nil {
						b.Error(r.Err)
					}
					if left.Add(-1) < 0 {
						ended <- struct{}{}
						return
					}
					n++
					s.Append("space", fmt.Sprint("log ", p%shape.logs), fmt.Sprint(p, "/", n), fmt.Sprint("owner ", p), data, time.Time{}, next)
				}
				next(store.AppendResult{})
			}
			for range producers {
				<-ended
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}
