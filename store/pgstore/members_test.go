//go:build unix

package pgstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/pgtest"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/pgstore"
)

func members(t *testing.T, dsn string) *pgstore.Members {
	t.Helper()
	m, err := pgstore.NewMembers(pgstore.Options{DSN: dsn})
	pgtest.Must(t, err)
	return m
}

func TestMembersSeeEachOtherAndWhoHasTheNode(t *testing.T) {
	dsn := database(t)
	a, b := members(t, dsn), members(t, dsn)
	one := pgstore.Member{Name: "a", Address: "127.0.0.1:1", Certificate: []byte("ca"), Version: "1", Config: "x", Started: time.Now()}
	two := pgstore.Member{Name: "b", Certificate: []byte("cb"), Version: "2", Config: "y", Started: time.Now()}
	if _, err := a.Beat(t.Context(), one); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("without tables: %v", err)
	}
	s := open(t, pgstore.Options{DSN: dsn, Address: "b"})
	if _, err := a.Beat(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	list, err := b.Beat(t.Context(), two)
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	if got := list[0]; got.Name != "a" || got.Address != one.Address || string(got.Certificate) != "ca" || got.Config != "x" || got.Version != "1" || got.Active || got.Silent > patience {
		t.Fatalf("%+v", got)
	}
	if got := list[1]; got.Name != "b" || string(got.Certificate) != "cb" || got.Address != "" || !got.Active {
		t.Fatalf("%+v", got)
	}
	pgtest.Must(t, s.Close())
	pgtest.Must(t, b.Close("b"))
	if list, err = a.Beat(t.Context(), one); err != nil || len(list) != 1 {
		t.Fatal("after the end of b", list, err)
	}
	pgtest.Must(t, a.Close("a"))
}

func TestANameBelongsToOneProcessUntilThatIsSilent(t *testing.T) {
	dsn := database(t)
	open(t, pgstore.Options{DSN: dsn})
	first, second := members(t, dsn), members(t, dsn)
	one := pgstore.Member{Name: "a", Address: "first", Started: time.Now()}
	two := pgstore.Member{Name: "a", Address: "second", Started: one.Started.Add(time.Second)}
	if _, err := first.Beat(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	list, err := second.Beat(t.Context(), two)
	if !errors.Is(err, pgstore.ErrTaken) || len(list) != 1 || list[0].Address != "first" {
		t.Fatal(list, err)
	}
	execute(t, dsn, "UPDATE swp.member SET seen = seen - interval '1 minute'")
	if list, err = second.Beat(t.Context(), two); err != nil || list[0].Address != "second" {
		t.Fatal(list, err)
	}
	if _, err = first.Beat(t.Context(), one); !errors.Is(err, pgstore.ErrTaken) {
		t.Fatal(err)
	}
	pgtest.Must(t, first.Close("a"))
	if list, err = second.Beat(t.Context(), two); err != nil || len(list) != 1 {
		t.Fatal("the end of the other process removed this one", list, err)
	}
	pgtest.Must(t, second.Close("a"))
}
