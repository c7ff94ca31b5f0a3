//go:build unix

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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

// A producer does not wait for each entry. If one is lost because the server does not answer, those that it has
// submitted since are lost, too, so that no later entry comes before it.
func TestST01WhatWaitsBehindALostWriteIsLost(t *testing.T) {
	dsn := database(t)
	s := open(t, pgstore.Options{DSN: dsn, Timeout: time.Second})
	if r := appendTo(t, s, "log", "first"); r.Err != nil {
		t.Fatal(r.Err)
	}
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	if _, err := c.Exec(t.Context(), `BEGIN; UPDATE swp.node SET address = address`); err != nil {
		t.Fatal(err)
	}
	lost, behind := make(chan error, 1), make(chan error, 1)
	s.Append("space", "log", "lost", "owner", []byte("lost"), time.Time{}, func(r store.AppendResult) {
		_, err := c.Exec(t.Context(), `ROLLBACK`) // the next transaction would succeed
		lost <- errors.Join(r.Err, err)
	})
	for waits := false; !waits; { // the others are not in its transaction
		other, err := pgx.Connect(t.Context(), dsn)
		if err == nil {
			err = other.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`).Scan(&waits)
		}
		if err == nil {
			err = other.Close(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Append("space", "log", "behind", "owner", []byte("behind"), time.Time{}, func(r store.AppendResult) { behind <- r.Err })
	if err := within(t, lost); !store.Retryable(err) {
		t.Fatalf("a write without an answer: %v", err)
	}
	if err := within(t, behind); !store.Retryable(err) {
		t.Errorf("the write behind it: %v", err)
	}
	if r := appendTo(t, s, "log", "next"); r.Err != nil || r.Seq != 2 {
		t.Errorf("the next write: %+v", r)
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
