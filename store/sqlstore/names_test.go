package sqlstore_test

import (
	"slices"
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
