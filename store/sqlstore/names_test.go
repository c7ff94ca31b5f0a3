package sqlstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

func TestQueueNamesAreFoundByPrefix(t *testing.T) {
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	added := make(chan error, 1)
	for _, queue := range []string{"tb/1", "tb/2", "tb/3", "tb", "tc/1", "ta/9"} {
		db.Add("relay", queue, "id of "+queue, "", "owner", nil, time.Time{}, time.Now().Add(time.Hour), func(r store.AddResult) { added <- r.Err })
		if err := <-added; err != nil {
			t.Fatal(err)
		}
	}
	db.Lease("relay", "tb/2", 0, time.Now().Add(time.Hour), func(r store.LeaseResult) {
		db.Ack("relay", r.ID, r.Lease, func(_ bool, err error) { added <- err })
	})
	if err := <-added; err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int][]string{2: {"tb/1"}, 3: {"tb/1", "tb/3"}, 100: {"tb/1", "tb/3"}} {
		if got, err := db.QueueNames(t.Context(), "relay", "tb/", most); err != nil || !slices.Equal(got, want) {
			t.Errorf("at most %d: %q, %v; want %q", most, got, err, want)
		}
	}
	if got, err := db.QueueNames(t.Context(), "other", "tb/", 10); err != nil || len(got) > 0 {
		t.Errorf("of another space: %q, %v", got, err)
	}
}

func TestQueuesAndOwnersAreListedFromAPlaceOn(t *testing.T) {
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	added := make(chan error, 1)
	for i, queue := range []string{"a", "b", "b", "c", "d"} {
		db.Add("relay", queue, string(rune('0'+i)), "", "owner of "+queue, []byte("12345"), time.Time{}, time.Now().Add(time.Hour), func(r store.AddResult) { added <- r.Err })
		if err := <-added; err != nil {
			t.Fatal(err)
		}
	}
	db.Lease("relay", "c", 0, time.Now().Add(time.Hour), func(r store.LeaseResult) {
		db.Ack("relay", r.ID, r.Lease, func(_ bool, err error) { added <- err })
	})
	if err := <-added; err != nil {
		t.Fatal(err)
	}
	for after, want := range map[string]string{"": "a 1, b 2", "a": "b 2, d 1", "b": "d 1", "d": ""} {
		var got []string
		err := db.Queues(t.Context(), "relay", after, func(name string, items int64) bool {
			got = append(got, fmt.Sprint(name, " ", items))
			return len(got) < 2
		})
		if text := strings.Join(got, ", "); err != nil || text != want {
			t.Errorf("queues after %q: %s, %v; want %s", after, text, err, want)
		}
	}
	var owners []string
	err = db.Owners(t.Context(), "owner of a", func(name string, used int64) bool {
		if used <= 0 {
			t.Errorf("%s uses %d octets", name, used)
		}
		owners = append(owners, name)
		return true
	})
	if want := []string{"owner of b", "owner of c", "owner of d"}; err != nil || !slices.Equal(owners, want) {
		t.Errorf("owners %q, %v, want %q", owners, err, want)
	}
}
