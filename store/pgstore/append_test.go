//go:build unix

package pgstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/pgstore"
)

// Appends of one transaction to one log have the outcomes that they have one after the other, whatever is
// between them.
func TestAppendsOfOneTransactionKeepTheirOrder(t *testing.T) {
	committed, submitted, sizes := make(chan struct{}, 2), make(chan struct{}), []int(nil)
	s := open(t, pgstore.Options{DSN: database(t), Committed: func(_ time.Duration, operations int) {
		sizes = append(sizes, operations)
		committed <- struct{}{}
		<-submitted
	}})
	var got []string
	ended := make(chan struct{})
	submit := func(log, id, owner, data string) {
		s.Append("space", log, id, owner, []byte(data), time.Time{}, func(r store.AppendResult) {
			got = append(got, fmt.Sprintf("%s %d fresh=%v equal=%v %v", id, r.Seq, r.Fresh, r.Equal, r.Err))
		})
	}
	submit("log", "first", "a", "1")
	within(t, committed) // what is submitted now is the next transaction
	submit("log", "second", "a", "2")
	submit("log", "third", "b", "3")
	submit("log", "second", "b", "2")
	submit("other", "second", "b", "2")
	submit("log", "third", "c", "another")
	s.Trim("space", "log", 3, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	submit("log", "second", "c", "4")
	submit("log", "", "", "5")
	submit("log", "", "a", "6")
	s.Put("space", "key", 0, "", nil, time.Time{}, func(store.PutResult) { close(ended) })
	close(submitted)
	within(t, ended)
	want := []string{
		"first 1 fresh=true equal=false <nil>", "second 2 fresh=true equal=false <nil>", "third 3 fresh=true equal=false <nil>",
		"second 2 fresh=false equal=true <nil>", "second 1 fresh=true equal=false <nil>", "third 3 fresh=false equal=false <nil>",
		"second 4 fresh=true equal=false <nil>", " 5 fresh=true equal=false <nil>", " 6 fresh=true equal=false <nil>",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if !slices.Equal(sizes, []int{1, 10}) {
		t.Errorf("transactions of %d operations, want 1 and 10", sizes)
	}
	var left []string
	if err := s.Read(t.Context(), "space", "log", 0, func(seq uint64, id string, data []byte) bool {
		left = append(left, fmt.Sprint(seq, id, string(data)))
		return true
	}); err != nil || !slices.Equal(left, []string{"4second4", "55", "66"}) {
		t.Errorf("%q, %v", left, err)
	}
}

// A log whose last number is damaged loses no entries to an append.
func TestST04AnAppendToADamagedLogDeletesNothing(t *testing.T) {
	dsn := database(t)
	s := open(t, pgstore.Options{DSN: dsn})
	several := func(prefix string, n int) (failed int) {
		ended := make(chan error, n)
		for i := range n {
			s.Append("space", "log", fmt.Sprint(prefix, i), fmt.Sprint("owner ", i), []byte("data"), time.Time{}, func(r store.AppendResult) { ended <- r.Err })
		}
		for range n {
			if within(t, ended) != nil {
				failed++
			}
		}
		return failed
	}
	if failed := several("a", 6); failed > 0 {
		t.Fatalf("%d appends failed", failed)
	}
	execute(t, dsn, `UPDATE swp.log SET last = 2`)
	if failed := several("a", 6); failed > 0 { // they are known
		t.Errorf("%d of 6 equal appends failed", failed)
	}
	if failed := several("b", 2); failed < 2 {
		t.Errorf("%d of 2 appends to a damaged log failed", failed)
	}
	if failed := several("a", 6); failed > 0 {
		t.Errorf("%d of 6 equal appends failed after those", failed)
	}
	entries := 0
	if err := s.Read(t.Context(), "space", "log", 0, func(uint64, string, []byte) bool {
		entries++
		return true
	}); err != nil || entries != 6 {
		t.Errorf("%d entries are left, want 6; %v", entries, err)
	}
}
