//go:build unix

package pgstore_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/pgstore"
)

func TestADatabaseThatIsBeingFilledIsRefusedUntilItIsComplete(t *testing.T) {
	dsn := database(t)
	fill := func() *pgstore.Store {
		t.Helper()
		return open(t, pgstore.Options{DSN: dsn, Fill: true})
	}
	ended := func(s *pgstore.Store, errs ...error) {
		t.Helper()
		if err := errors.Join(append(errs, s.Close())...); err != nil {
			t.Fatal(err)
		}
	}
	wantRefused := func(what string, kind error, o pgstore.Options) {
		t.Helper()
		o.DSN = dsn
		s, err := pgstore.Open(t.Context(), o)
		if err == nil {
			_ = s.Close()
		}
		if !errors.Is(err, kind) {
			t.Errorf("%s: %v, want %v", what, err, kind)
		}
	}
	broken := errors.New("broken")

	s := fill()
	if err := s.Import(t.Context(), func() (store.Piece, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	ended(s, s.Filled(false)) // it is still empty
	s = fill()
	pieces := []store.Piece{&store.Start{Clock: 1, Versions: 1}, &store.Record{Space: "space", Key: "key", Version: 1}}
	err := s.Import(t.Context(), func() (p store.Piece, err error) {
		if len(pieces) == 0 {
			return nil, io.EOF
		}
		p, pieces = pieces[0], pieces[1:]
		return p, nil
	})
	ended(s, err, s.Filled(false)) // it is not empty any more
	for range 2 {
		wantRefused("after an interruption", store.ErrUnfinished, pgstore.Options{})
		wantRefused("to be filled", store.ErrUnfinished, pgstore.Options{Fill: true})
	}
	execute(t, dsn, "DROP SCHEMA swp CASCADE")
	s = fill()
	ended(s, s.Check(context.Background()), s.Filled(false))
	s = open(t, pgstore.Options{DSN: dsn})
	if r := put(t, s, "key", "value"); r.Err != nil || !r.Wrote {
		t.Error(r)
	}
	ended(s)
	wantRefused("over a store", store.ErrUsed, pgstore.Options{Fill: true})
	ended(open(t, pgstore.Options{DSN: dsn}))
}
