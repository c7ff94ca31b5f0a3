package sdlagent_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/agents/sdlagent"
	"github.com/slimwire/swp/sdl/trust"
	"github.com/slimwire/swp/store/sqlstore"
)

func TestNoncesOutliveTheProcessButNotTheirTime(t *testing.T) {
	dir := t.TempDir()
	var passed atomic.Int64
	open := func() *sqlstore.Store {
		t.Helper()
		db, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: dir, Now: func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	defer func() { _ = db.Close() }()
	fresh := func(agent, nonce string, want bool) {
		t.Helper()
		got, err := sdlagent.Nonces{Records: db}.Remember(t.Context(), agent, nonce, time.Now().Add(time.Hour+time.Duration(passed.Load())))
		if err != nil || got != want {
			t.Errorf("nonce %q of %q is fresh: %v, %v, want %v", nonce, agent, got, err, want)
		}
	}
	fresh("ab", "c", true)
	fresh("ab", "c", false)
	fresh("a", "bc", true) // which is another pair
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open()
	fresh("ab", "c", false)
	fresh("a", "bc", false)
	fresh("ab", "d", true)
	passed.Store(int64(time.Hour + time.Minute))
	fresh("ab", "c", true)
	fresh("ab", "c", false)
}

// Another key file holds without a restart; a proposal that was made stays made.
func TestTheTrustRegistryFollowsItsFile(t *testing.T) {
	records := newRecords(t, 1<<20)
	now := time.Now()
	first, second := value(t, `{"revoked_kids":["first"]}`), value(t, `{"revoked_kids":["second"]}`)
	r, err := sdlagent.OpenRegistry(t.Context(), records, first, now)
	if err != nil {
		t.Fatal(err)
	}
	revoked := func(r *sdlagent.Registry, want string) {
		t.Helper()
		if got := string(r.Snapshot().Value.Get("revoked_kids").AppendJSON(nil)); got != want {
			t.Errorf("revoked %s, want %s", got, want)
		}
	}
	propose := func(r *sdlagent.Registry) {
		t.Helper()
		p := trust.Proposal{ID: "p", Merge: true, Registry: value(t, `{"revoked_kids":["third"]}`)}
		if _, err := r.Apply(p, now); err != nil {
			t.Error(err)
		}
	}
	propose(r)
	revoked(r, `["first","third"]`)
	if err := r.Configure(first, now); err != nil { // which is no other one
		t.Error(err)
	}
	revoked(r, `["first","third"]`)
	if err := r.Configure(second, now); err != nil {
		t.Error(err)
	}
	propose(r) // again
	revoked(r, `["second"]`)
	if err := r.Configure(value(t, `{"revoked_kids":7}`), now); err == nil {
		t.Error("a registry that is none was taken")
	}
	if _, err := r.Apply(trust.Proposal{ID: "q", Merge: true, Registry: value(t, `{"revoked_kids":["fourth"]}`)}, now); err != nil {
		t.Error(err)
	}
	again, err := sdlagent.OpenRegistry(t.Context(), records, second, now)
	if err != nil {
		t.Fatal(err)
	}
	revoked(again, `["fourth","second"]`)
	propose(again)
	revoked(again, `["fourth","second"]`)
}
