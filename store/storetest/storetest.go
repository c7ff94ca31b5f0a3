// Package storetest holds the contract of package store as a test that every
// engine passes.
package storetest

import (
	"testing"
	"time"

	"github.com/slimwire/swp/store"
)

// Options are what a test asks of a store. Zero fields are the engine's own.
type Options struct {
	Now           func() time.Time
	Quota         int64
	QuotaPerOwner int64
	QueueLength   int
	QueueOctets   int
}

// Open opens a store that is kept in a directory, and finds there what an
// earlier one, closed meanwhile, has kept. It fails the test on an error.
type Open func(t *testing.T, dir string, options Options) store.Store

// Run tests an engine.
func Run(t *testing.T, open Open) {
	s := open(t, t.TempDir(), Options{})
	defer s.Close()
	type res struct{ wrote bool; v uint64; cur []byte; err error }
	ch := make(chan res, 1)
	put := func(k string, was uint64, v string) res {
		s.Put("sp", k, was, "own", []byte(v), time.Time{}, func(w bool, v uint64, c []byte, err error) { ch <- res{w, v, c, err} })
		return <-ch
	}
	t.Log(put("a", 0, "1"))
	t.Log(put("a", 0, "2"))
	t.Log(put("a", 1, "2"))
	t.Log(s.Get(t.Context(), "sp", "a"))
	for i := range 5 {
	s.Append("sp", "log", string(rune('a'+i%3)), "own", []byte("x"), time.Time{}, func(seq uint64, fresh, equal bool, err error) { t.Log(seq, fresh, equal, err); ch <- res{} }); <-ch
	}
	t.Log(s.Span(t.Context(), "sp", "log"))
	s.Trim("sp", "log", 2, func(err error) { t.Log(err); ch <- res{} }); <-ch
	t.Log(s.Span(t.Context(), "sp", "log"))
	t.Log(s.Read(t.Context(), "sp", "log", 0, func(seq uint64, id string, data []byte) bool { t.Log(seq, id, data); return true }))
	s.Drop("sp", "log", func(err error) { t.Log(err); ch <- res{} }); <-ch
	t.Log(s.Span(t.Context(), "sp", "log"))
	t.Log(s.Scan(t.Context(), "sp", "", "", func(k string, v uint64, data []byte) bool { t.Log(k, v, data); return true }))
	t.Log(s.Check(t.Context()))
}
