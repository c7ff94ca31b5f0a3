//go:build unix

package pgstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/pgstore"
)

// wantDamaged wants an error ErrDamaged with a name.
func wantDamaged(t *testing.T, what string, err error, name string) {
	t.Helper()
	if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), name) {
		t.Errorf("%s: %v, want ErrDamaged with %s", what, err, name)
	}
}

// replace puts a record whose version is was.
func replace(t *testing.T, s *pgstore.Store, key string, was uint64) store.PutResult {
	t.Helper()
	c := make(chan store.PutResult, 1)
	s.Put("space", key, was, "another", []byte("new value"), time.Time{}, func(r store.PutResult) { c <- r })
	return within(t, c)
}

func TestST04ADamagedRecordIsNotReplaced(t *testing.T) {
	dsn := database(t)
	s := open(t, pgstore.Options{DSN: dsn})
	for column, damage := range map[string]string{
		"owner":   `owner = set_byte(owner, 0, get_byte(owner, 0) # 1)`,
		"value":   `value = set_byte(value, 0, get_byte(value, 0) # 1)`,
		"expires": `expires = 1 << 62`,
		"sum":     `sum = sum # 1`,
		"payer":   `payer = payer # 1`,
		"good":    `owner = owner`,
	} {
		made := put(t, s, column, "value")
		if made.Err != nil {
			t.Fatal(made.Err)
		}
		execute(t, dsn, `UPDATE swp.record SET `+damage+` WHERE key = '`+column+`'`)
		_, _, err := s.Get(t.Context(), "space", column)
		replaced := replace(t, s, column, made.Version)
		if column == "good" {
			if err != nil || !replaced.Wrote {
				t.Errorf("a good record: %v, %+v", err, replaced)
			}
			// The owner that made it pays on.
			if again := replace(t, s, column, replaced.Version); !again.Wrote {
				t.Errorf("a good record, again: %+v", again)
			}
			continue
		}
		wantDamaged(t, "Get of a record with another "+column, err, `"`+column+`"`)
		wantDamaged(t, "Put over a record with another "+column, replaced.Err, `"`+column+`"`)
		wantDamaged(t, "Put beside a record with another "+column, put(t, s, column, "value").Err, `"`+column+`"`)
		if _, value, err := s.Get(t.Context(), "space", column); err == nil {
			t.Errorf("a record with another %s was replaced by %q", column, value)
		}
		removed := make(chan error, 1)
		s.Delete("space", column, 0, func(_ bool, err error) { removed <- err })
		if err := within(t, removed); err != nil {
			t.Errorf("Delete: %v", err)
		}
		if again := put(t, s, column, "value"); again.Err != nil || !again.Wrote {
			t.Errorf("after that: %+v", again)
		}
	}
}

// A batch with a damaged record is repeated one by one, so that the others are written.
func TestST04OperationsBesideADamagedRecordAreWritten(t *testing.T) {
	dsn := database(t)
	s := open(t, pgstore.Options{DSN: dsn})
	made := put(t, s, "bad", "value")
	execute(t, dsn, `UPDATE swp.record SET owner = 'x' WHERE key = 'bad'`)
	results := make(chan error, 21)
	for i := range 10 {
		s.Put("space", string(rune('a'+i)), 0, "owner", nil, time.Time{}, func(r store.PutResult) { results <- r.Err })
		s.Put("space", string(rune('A'+i)), 0, "owner", nil, time.Time{}, func(r store.PutResult) { results <- r.Err })
		if i == 5 {
			s.Put("space", "bad", made.Version, "owner", nil, time.Time{}, func(r store.PutResult) {
				wantDamaged(t, "Put", r.Err, `"bad"`)
				results <- nil
			})
		}
	}
	for range 21 {
		if err := within(t, results); err != nil {
			t.Error(err)
		}
	}
}

func TestST04ADoneItemThatIsDamagedIsNotTakenForAnother(t *testing.T) {
	dsn := database(t)
	s := open(t, pgstore.Options{DSN: dsn})
	for column, damage := range map[string]string{
		"mark": `mark = 'x'`, "owner": `owner = 'x'`, "queue": `queue = 'x'`, "keep": `keep = keep # 1024`, "not done": `done = false`, "tries": `tries = 7`,
	} {
		added, ended := make(chan error, 1), make(chan error, 1)
		keep := time.Now().Add(time.Hour)
		s.Add("space", "queue", column, "mark", "owner", []byte("data"), time.Time{}, keep, func(r store.AddResult) { added <- r.Err })
		if err := within(t, added); err != nil {
			t.Fatal(err)
		}
		s.LeaseItem("space", column, 100, keep, func(r store.LeaseResult) {
			s.Ack("space", column, r.Lease, func(_ bool, err error) { ended <- err })
		})
		if err := within(t, ended); err != nil {
			t.Fatal(err)
		}
		if _, state, _, err := s.Item(t.Context(), "space", column); state != store.Done || err != nil {
			t.Errorf("before: %s, %v", state, err)
		}
		execute(t, dsn, `UPDATE swp.item SET `+damage+` WHERE id = '`+column+`'`)
		_, _, _, err := s.Item(t.Context(), "space", column)
		wantDamaged(t, "Item with another "+column, err, `"`+column+`"`)
		if column != "queue" { // which add looks up by the place
			wantDamaged(t, "Add over an item with another "+column, add(t, s, column, "data").Err, `"`+column+`"`)
		}
	}
}

// A record or an item that looks expired because of damage is not replaced in silence.
func TestST04ADamagedExpiryMakesNoRoomForAnother(t *testing.T) {
	dsn := database(t)
	s := open(t, pgstore.Options{DSN: dsn})
	for n := range 20 {
		name, swept := fmt.Sprint("name ", n), s.Stats().Swept
		if p, a := put(t, s, name, "value"), add(t, s, name, "data"); p.Err != nil || a.Err != nil {
			t.Fatal(p, a)
		}
		execute(t, dsn, `UPDATE swp.record SET expires = 1 WHERE key = '`+name+`'`,
			`UPDATE swp.item SET done = true, keep = 1 WHERE id = '`+name+`'`)
		again, added := put(t, s, name, "other"), add(t, s, name, "other")
		_, _, _, found := s.Item(t.Context(), "space", name)
		if s.Stats().Swept != swept {
			continue // it was deleted before
		}
		wantDamaged(t, "Put", again.Err, `"`+name+`"`)
		wantDamaged(t, "Add", added.Err, `"`+name+`"`)
		wantDamaged(t, "Item", found, `"`+name+`"`)
		return
	}
	t.Error("everything was swept")
}

func TestST04ADamagedCountIsNamed(t *testing.T) {
	dsn := database(t)
	s := open(t, pgstore.Options{DSN: dsn})
	if r := put(t, s, "key", "value"); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := add(t, s, "id", "data"); r.Err != nil {
		t.Fatal(r.Err)
	}
	lease := func() error {
		c := make(chan store.LeaseResult, 1)
		s.Lease("space", "queue", 100, time.Now().Add(time.Hour), func(r store.LeaseResult) { c <- r })
		return within(t, c).Err
	}
	owners := func() error {
		return s.Owners(t.Context(), "", func(string, int64) bool { return true })
	}
	for _, c := range []struct {
		what, where, harm, mend string
		ask                     func() error
		name                    string
	}{
		{"all octets", "counter", `octets = octets # 1024 WHERE kind = 0`, `octets = octets # 1024 WHERE kind = 0`, func() error { return put(t, s, "other", "value").Err }, `the count of ""`},
		{"the octets of an owner", "counter", `octets = -octets WHERE kind = 1`, `octets = -octets WHERE kind = 1`, owners, `"owner"`},
		{"the items of a queue", "counter", `items = 0 WHERE kind = 2`, `items = 1 WHERE kind = 2`, lease, `"queue"`},
		{"the items of a space", "counter", `items = items # 1 WHERE kind = 3`, `items = items # 1 WHERE kind = 3`, func() error { return add(t, s, "second", "data").Err }, `space "space"`},
		{"the items of an owner", "held", `octets = octets # 1024`, `octets = octets # 1024`, func() error { return add(t, s, "third", "data").Err }, `"queue"`},
	} {
		execute(t, dsn, `UPDATE swp.`+c.where+` SET `+c.harm)
		wantDamaged(t, c.what, c.ask(), c.name)
		execute(t, dsn, `UPDATE swp.`+c.where+` SET `+c.mend)
		if err := c.ask(); err != nil {
			t.Errorf("%s, restored: %v", c.what, err)
		}
	}
	if err := s.Export(t.Context(), func(store.Piece) error { return nil }); err != nil {
		t.Errorf("Export: %v", err)
	}
}
