package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// A subscriber reads as much as fits into one batch, and then the next: a Read that reads far ahead
// of it reads everything many times.
func TestAReadThatStopsReadsLittleMore(t *testing.T) {
	s := open(t, sqlstore.Options{Dir: t.TempDir()})
	defer func() { _ = s.Close() }()
	entries := make([]store.Entry, 4000)
	for i := range entries {
		entries[i] = store.Entry{ID: fmt.Sprint(i), Data: make([]byte, 256)}
	}
	stored := make(chan error, 1)
	s.AppendAll("space", "log", "owner", entries, time.Time{}, func(r store.AppendAllResult) { stored <- r.Err })
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	reads := func(want int) float64 {
		return testing.AllocsPerRun(20, func() {
			n := 0
			err := s.Read(t.Context(), "space", "log", 0, func(uint64, string, []byte) bool {
				n++
				return n < want
			})
			if err != nil || n != want {
				t.Fatalf("%d entries, %v, want %d", n, err, want)
			}
		})
	}
	all, some := reads(len(entries)), reads(len(entries)/20)
	if some > all/8 {
		t.Errorf("a twentieth of the log takes %v allocations, all of it %v", some, all)
	}
}
