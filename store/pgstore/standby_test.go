//go:build unix

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/internal/pgtest"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/pgstore"
)

// pair starts a server and a synchronous standby of it.
func pair(t *testing.T) (primary, standby *pgtest.Server) {
	t.Helper()
	primary, err := pgtest.New("")
	pgtest.Must(t, err)
	t.Cleanup(func() { _ = primary.Close() })
	standby, err = primary.Standby(t.Context(), pgtest.Options{})
	pgtest.Must(t, err)
	t.Cleanup(func() { _ = standby.Close() })
	return primary, standby
}

func TestST08AFailoverToASynchronousStandbyLosesNothing(t *testing.T) {
	t.Parallel()
	primary, standby := pair(t)
	both := fmt.Sprintf("postgres:///postgres?host=%s,%s&user=postgres&target_session_attrs=read-write", primary.Host(), standby.Host())
	s := open(t, pgstore.Options{DSN: both, Standby: true})
	known := make(chan []string, 1)
	stop := make(chan struct{})
	go func() {
		var keys []string
		defer func() { known <- keys }()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			key := fmt.Sprint(n)
			if put(t, s, key, "value").Err == nil {
				keys = append(keys, key)
			}
		}
	}()
	time.Sleep(300 * time.Millisecond) // in the middle of its work
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, s)
	close(stop)
	keys := within(t, known)
	if len(keys) == 0 {
		t.Error("nothing was acknowledged")
	}
	for _, key := range keys {
		if version, value, err := s.Get(t.Context(), "space", key); version == 0 || string(value) != "value" || err != nil {
			t.Errorf("%q was acknowledged: version %d, %q, %v", key, version, value, err)
		}
	}
}

func TestST08AnOldPrimaryThatComesBackAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	old, standby := pair(t)
	both := fmt.Sprintf("host=%s,%s user=postgres dbname=postgres", old.Host(), standby.Host())
	s := open(t, pgstore.Options{DSN: both, Timeout: 2 * time.Second})
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, s)
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	next := session(t, standby)
	if _, err := next.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'swpd%'`); err != nil {
		t.Fatal(err)
	}
	if p := put(t, s, "key", "value"); !errors.Is(p.Err, store.ErrUnavailable) {
		t.Errorf("a write to the old primary: %+v", p)
	}
	if other, err := pgstore.Open(t.Context(), pgstore.Options{DSN: both, Node: "other", Timeout: 2 * time.Second}); err == nil {
		t.Error("another node uses the old primary")
		_ = other.Close()
	}
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, s)
	if p := put(t, s, "key", "value"); p.Err != nil {
		t.Error(p.Err)
	}
}

// session connects beside a store.
func session(t *testing.T, s *pgtest.Server) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
	return c
}

func TestST08ACommitThatTheStandbyDoesNotHaveIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	primary, standby := pair(t)
	s := open(t, pgstore.Options{DSN: primary.DSN("postgres"), Timeout: 2 * time.Second, Standby: true})
	if p := put(t, s, "before", "value"); p.Err != nil {
		t.Fatal(p.Err)
	}
	// Another session gets the lock of the node as soon as its session ends.
	other := session(t, primary)
	locked := make(chan error, 1)
	go func() {
		_, err := other.Exec(t.Context(), `SELECT pg_advisory_lock(classid::bigint::int, (objid::bigint << 32 >> 32)::int) FROM pg_locks WHERE locktype = 'advisory'`)
		locked <- err
	}()
	if err := standby.Kill(); err != nil {
		t.Fatal(err)
	}
	if p := put(t, s, "key", "value"); !errors.Is(p.Err, store.ErrUnavailable) {
		t.Errorf("a write without the standby: %+v", p)
	}
	if err := within(t, locked); err != nil {
		t.Error(err)
	}
	if err := standby.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, s)
}

func TestST08AWaitForTheStandbyThatIsCancelledIsNoAcknowledgement(t *testing.T) {
	t.Parallel()
	primary, standby := pair(t)
	s := open(t, pgstore.Options{DSN: primary.DSN("postgres"), Standby: true})
	other := session(t, primary)
	if err := standby.Kill(); err != nil {
		t.Fatal(err)
	}
	told := make(chan store.PutResult, 1)
	s.Put("space", "key", 0, "owner", nil, time.Time{}, func(r store.PutResult) { told <- r })
	for late := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		tag, err := other.Exec(t.Context(), `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
		if err != nil || time.Now().After(late) {
			t.Fatalf("no commit waits for the standby: %v", err)
		}
		if tag.RowsAffected() > 0 {
			break
		}
	}
	select {
	case p := <-told:
		if p.Err == nil {
			t.Errorf("a write without the standby: %+v", p)
		}
	case <-time.After(time.Second): // it waits for the standby again
	}
	if err := standby.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, s)
}

func TestST08AServerThatDoesNotAnswerIsPassedOver(t *testing.T) {
	t.Parallel()
	silent, err := os.MkdirTemp("", "cut")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(silent) }()
	l, err := net.Listen("unix", filepath.Join(silent, ".s.PGSQL.5432")) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dsn := database(t) // host=… first
	s := open(t, pgstore.Options{DSN: "host=" + silent + "," + dsn[len("host="):], Timeout: 4 * time.Second})
	execute(t, dsn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()`)
	if p := put(t, s, "key", "value"); p.Err != nil {
		t.Error(p.Err)
	}
	if _, _, err := s.Get(t.Context(), "space", "key"); err != nil {
		t.Error(err)
	}
}
