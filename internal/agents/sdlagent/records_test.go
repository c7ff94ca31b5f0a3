package sdlagent_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/agents/sdlagent"
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
