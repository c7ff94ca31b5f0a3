package sqlstore_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// newIDs returns ids as producers make them: random.
func newIDs(seed int) func() string {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	return func() string {

		var id [16]byte
		_, _ = r.Read(id[:])
		return hex.EncodeToString(id[:])
	}
}

// BenchmarkAppend runs closed loops: each writer submits its next entry of 256
// octets, with an id and an expiry, when the one before is acknowledged; all of
// them to one log, or each to its own.
func BenchmarkAppend(b *testing.B) {
	for _, level := range []store.Durability{store.Power, store.Process} {
		for _, shape := range []struct{ writers, logs int }{{1, 1}, {64, 1}, {64, 64}} {
			b.Run(fmt.Sprintf("%s/%s/logs=%d", level, name(shape.writers), shape.logs), func(b *testing.B) {
				benchmarkAppend(b, level, shape.writers, shape.logs)
			})
		}
	}
}

func name(writers int) string { return fmt.Sprintf("writers=%d", writers) }

func benchmarkAppend(b *testing.B, level store.Durability, writers, logs int) {
	s := open(b, sqlstore.Options{Dir: b.TempDir(), Durability: level, Limits: store.Limits{Quota: 1 << 40, QuotaPerOwner: 1 << 40}})
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
		log := fmt.Sprint("log ", w%logs)
		ids := newIDs(w)
		var next func()
		next = func() {
			if _, more := <-left; !more {
				finished <- nil
				return
			}
			s.Append("events", log, ids(), "spiffe://a.example/publisher", data, expires, func(r store.AppendResult) {
				if r.Err != nil {
					finished <- r.Err
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

// BenchmarkGet reads one of 10,000 records of 256 octets.
func BenchmarkGet(b *testing.B) {
	s := open(b, sqlstore.Options{Dir: b.TempDir(), Durability: store.Process})
	defer s.Close()
	told := make(chan error, 10_000)
	for i := range cap(told) {
		s.Put("space", fmt.Sprint(i), 0, "owner", make([]byte, 256), time.Time{}, func(r store.PutResult) { told <- r.Err })
	}
	for range cap(told) {
		if err := <-told; err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if version, _, err := s.Get(b.Context(), "space", fmt.Sprint(i%cap(told))); version == 0 || err != nil {
			b.Fatal(version, err)
		}
	}
}
