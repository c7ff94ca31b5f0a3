//go:build unix

package pgstore_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/internal/pgtest"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/pgstore"
)

// patience limits the wait for an expected event, and is the Timeout of the stores of tests that are
// not about it: a busy machine may take long to write a value of the largest size.
const patience = 2 * time.Minute

// database makes an empty database on the shared server.
func database(t *testing.T) string {
	t.Helper()
	dsn, err := pgtest.Shared(t).Database(t.Context())
	pgtest.Must(t, err)
	return dsn
}

func open(t *testing.T, o pgstore.Options) *pgstore.Store {
	t.Helper()
	o.Timeout = cmp.Or(o.Timeout, patience)
	s, err := pgstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// within returns what comes from a channel, and fails a test if nothing does.
func within[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("done was not called")
	}
	return v
}

func put(t *testing.T, s *pgstore.Store, key, value string) store.PutResult {
	t.Helper()
	c := make(chan store.PutResult, 1)
	s.Put("space", key, 0, "owner", []byte(value), time.Time{}, func(r store.PutResult) { c <- r })
	return within(t, c)
}

func add(t *testing.T, s *pgstore.Store, id, data string) store.AddResult {
	t.Helper()
	c := make(chan store.AddResult, 1)
	s.Add("space", "queue", id, "", "owner", []byte(data), time.Time{}, time.Time{}, func(r store.AddResult) { c <- r })
	return within(t, c)
}

func appendTo(t *testing.T, s *pgstore.Store, log, data string) store.AppendResult {
	t.Helper()
	c := make(chan store.AppendResult, 1)
	s.Append("space", log, "", "owner", []byte(data), time.Time{}, func(r store.AppendResult) { c <- r })
	return within(t, c)
}

// until waits until a store can be written.
func until(t *testing.T, s *pgstore.Store) {
	t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := s.Check(t.Context())
		if err == nil {
			return
		}
		if !store.Retryable(err) {
			t.Fatal(err)
		}
		if time.Now().After(late) {
			t.Fatalf("it does not recover: %v", err)
		}
	}
}

// execute runs statements of SQL beside a store.
func execute(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	for _, statement := range statements {
		if tag, err := c.Exec(t.Context(), statement); err != nil || tag.RowsAffected() == 0 && tag.Update() {
			t.Fatalf("%s: %v, %v", statement, tag, err)
		}
	}
}

// Fates of a commit at a cutter.
const (
	pass       = iota
	loseIt     // the server does not get it
	loseAnswer // the server commits, and the client does not hear of it
	delay      // the server gets it after the client has given up
	loseRest   // the server gets the first part of a large batch, and then nothing, not even an end
)

// commitMessage is how pgstore sends a commit.
var commitMessage = []byte("Q\x00\x00\x00\x0bcommit\x00")

// settleMessage begins the statement by which pgstore uses the number of a batch up.
var settleMessage = []byte("UPDATE node SET batch = $3")

// cutter is a proxy before a server that cuts the connection at the next commit.
type cutter struct {
	dir  string
	fate atomic.Int32
	cuts atomic.Int32

	settle  atomic.Bool   // the next answer to a node that settles a batch is lost
	stalled atomic.Bool   // nothing from clients is passed on; connections that sent something end afterwards
	late    chan struct{} // closed when what was delayed is passed on
}

// cut starts a cutter and returns the connection string through it.
func cut(t *testing.T, dsn string) (*cutter, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "cut") // shorter than TempDir, because a path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := pgtest.Shared(t).Socket()
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432")) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{dir: dir, late: make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", filepath.Join(socket, ".s.PGSQL.5432")) //nolint:noctx // a test
			if err != nil {
				_ = client.Close()
				continue
			}
			all.Go(func() { c.join(client, server) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return c, strings.Replace(dsn, socket, dir, 1)
}

// join copies between a client and a server until one ends or a commit meets its fate.
func (c *cutter) join(client, server net.Conn) {
	var muted atomic.Bool
	var both sync.WaitGroup
	both.Go(func() {
		defer func() { _ = client.Close() }()
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			if muted.Load() {
				return // the answer of the commit, or the end
			}
			if n > 0 {
				_, _ = client.Write(buffer[:n])
			}
			if err != nil {
				return
			}
		}
	})
	buffer := make([]byte, 64<<10)
	for settles := false; ; {
		n, err := client.Read(buffer)
		if settles && c.settle.CompareAndSwap(true, false) { // the statement follows its preparation
			muted.Store(true)
			_, _ = server.Write(buffer[:n])
			both.Wait()
			break
		}
		settles = bytes.Contains(buffer[:n], settleMessage)
		if fate := c.fate.Load(); fate != pass && fate != loseRest && bytes.HasSuffix(buffer[:n], commitMessage) && c.fate.CompareAndSwap(fate, pass) {
			muted.Store(true)
			c.cuts.Add(1)
			switch fate {
			case loseAnswer:
				_, _ = server.Write(buffer[:n])
				both.Wait()
			case delay:
				_ = client.Close()
				<-c.late
				_, _ = server.Write(buffer[:n])
				both.Wait()
			}
			break
		}
		if n == len(buffer) && c.fate.CompareAndSwap(loseRest, pass) {
			_, _ = server.Write(buffer)
			c.cuts.Add(1)
			<-c.late
			break
		}
		stalled := c.stalled.Load()
		for c.stalled.Load() {
			time.Sleep(time.Millisecond)
		}
		if stalled {
			break
		}
		if n > 0 {
			_, _ = server.Write(buffer[:n])
		}
		if err != nil {
			break
		}
	}
	_ = client.Close()
	_ = server.Close()
	both.Wait()
}

func TestST08ACommitWhoseAnswerIsLostIsNotRepeated(t *testing.T) {
	c, dsn := cut(t, database(t))
	s := open(t, pgstore.Options{DSN: dsn})
	for n := range uint64(3) {
		if a := appendTo(t, s, "log", "before"); a.Seq != 2*n+1 {
			t.Fatalf("%+v", a)
		}
		c.fate.Store(loseAnswer)
		if a := appendTo(t, s, "log", "data"); a != (store.AppendResult{Seq: 2*n + 2, Fresh: true}) {
			t.Errorf("an entry whose commit was not answered: %+v", a)
		}
	}
	if c.cuts.Load() < 3 {
		t.Errorf("%d connections were cut, want 3", c.cuts.Load())
	}
	if _, last, err := s.Span(t.Context(), "space", "log"); last != 6 || err != nil {
		t.Errorf("the last entry is %d, %v", last, err)
	}
}

func TestST08ACommitThatDoesNotArriveHasNoEffect(t *testing.T) {
	c, dsn := cut(t, database(t))
	s := open(t, pgstore.Options{DSN: dsn})
	if a := appendTo(t, s, "log", "before"); a.Err != nil {
		t.Fatal(a.Err)
	}
	next := uint64(2)
	for lost := false; !lost; {
		cuts := c.cuts.Load()
		c.fate.Store(loseIt)
		a := appendTo(t, s, "log", "lost")
		switch {
		case a.Err == nil && c.cuts.Load() > cuts: // a sweep has met the fate
			next++
		case errors.Is(a.Err, store.ErrUnavailable):
			lost = true
		default:
			t.Fatalf("an entry whose commit was lost: %+v", a)
		}
	}
	if a := appendTo(t, s, "log", "after"); a != (store.AppendResult{Seq: next, Fresh: true}) {
		t.Errorf("the next one: %+v, want %d", a, next)
	}
}

func TestST08ALostCommitWhoseSettlingIsLostTooHasNoEffect(t *testing.T) {
	c, dsn := cut(t, database(t))
	s := open(t, pgstore.Options{DSN: dsn})
	if a := appendTo(t, s, "log", "before"); a.Err != nil {
		t.Fatal(a.Err)
	}
	next := uint64(2)
	for lost := false; !lost; {
		cuts := c.cuts.Load()
		c.settle.Store(true)
		c.fate.Store(loseIt)
		a := appendTo(t, s, "log", "lost")
		switch {
		case a.Err == nil && c.cuts.Load() > cuts: // a sweep has met the fate
			if _, last, err := s.Span(t.Context(), "space", "log"); last != next || err != nil {
				t.Fatalf("%+v was acknowledged, and the last entry is %d, %v", a, last, err)
			}
			next++
		case errors.Is(a.Err, store.ErrUnavailable):
			lost = true
		default:
			t.Fatalf("an entry whose commit was lost: %+v", a)
		}
	}
	if c.settle.Load() {
		t.Error("no answer to a node that settles was lost")
	}
	if a := appendTo(t, s, "log", "after"); a != (store.AppendResult{Seq: next, Fresh: true}) {
		t.Errorf("the next one: %+v, want %d", a, next)
	}
	if _, last, err := s.Span(t.Context(), "space", "log"); last != next || err != nil {
		t.Errorf("the last entry is %d, %v, want %d", last, err, next)
	}
}

func TestST08ACommitThatArrivesTooLateHasNoEffect(t *testing.T) {
	c, dsn := cut(t, database(t))
	s := open(t, pgstore.Options{DSN: dsn, Timeout: 2 * time.Second})
	until(t, s)
	c.fate.Store(delay)
	a := appendTo(t, s, "log", "late")
	for a.Err == nil && c.cuts.Load() == 0 { // a sweep has met the fate
		a = appendTo(t, s, "log", "late")
	}
	_, before, err := s.Span(t.Context(), "space", "log")
	if err != nil {
		t.Fatal(err)
	}
	until(t, s) // the outcome is known
	close(c.late)
	b := appendTo(t, s, "log", "after")
	if b != (store.AppendResult{Seq: before + 1, Fresh: true}) {
		t.Errorf("%+v after a commit that came too late, %+v, and %d entries", b, a, before)
	}
}

func TestST08AServerThatDoesNotAnswerIsGivenUpInTime(t *testing.T) {
	c, dsn := cut(t, database(t))
	s := open(t, pgstore.Options{DSN: dsn, Timeout: time.Second})
	if p := put(t, s, "before", "value"); p.Err != nil {
		t.Fatal(p.Err)
	}
	c.stalled.Store(true)
	if p := put(t, s, "stalled", "value"); !errors.Is(p.Err, store.ErrUnavailable) {
		t.Errorf("Put: %+v", p)
	}
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Check: %v", err)
	}
	if _, _, err := s.Get(t.Context(), "space", "before"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Get: %v", err)
	}
	c.stalled.Store(false)
	until(t, s)
	if version, _, err := s.Get(t.Context(), "space", "before"); version == 0 || err != nil {
		t.Errorf("after it: version %d, %v", version, err)
	}
	if p := put(t, s, "stalled", "value"); !p.Wrote {
		t.Errorf("the same Put after it: %+v", p)
	}
}

func TestST08AKilledServerIsUsedAgain(t *testing.T) {
	t.Parallel()
	server, err := pgtest.New("")
	pgtest.Must(t, err)
	defer func() { _ = server.Close() }()
	s := open(t, pgstore.Options{DSN: server.DSN("postgres"), Timeout: 5 * time.Second})
	acknowledged := 0
	for round := range 3 {
		var pending sync.WaitGroup
		var written atomic.Int64
		for range 50 {
			pending.Add(1)
			s.Append("space", "log", "", "owner", []byte("data"), time.Time{}, func(r store.AppendResult) {
				if r.Err == nil {
					written.Add(1)
				} else if !store.Retryable(r.Err) {
					t.Error(r.Err)
				}
				pending.Done()
			})
		}
		if round < 2 {
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		pending.Wait()
		acknowledged += int(written.Load())
		if round < 2 {
			if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("Check without a server: %v", err)
			}
			if _, _, err := s.Get(t.Context(), "space", "key"); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("Get without a server: %v", err)
			}
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			until(t, s)
		}
	}
	entries, before := 0, uint64(0)
	err = s.Read(t.Context(), "space", "log", 0, func(seq uint64, _ string, _ []byte) bool {
		if seq != before+1 {
			t.Errorf("entry %d after %d", seq, before)
		}
		before = seq
		entries++
		return true
	})
	if err != nil || entries < acknowledged || acknowledged < 50 {
		t.Errorf("%d entries, %d acknowledged, %v", entries, acknowledged, err)
	}
}

func TestST08AFullVolumeIsSaid(t *testing.T) {
	server := pgtest.Shared(t)
	dir, err := os.MkdirTemp("", "full") // the user of the server cannot enter TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("mounting is not permitted here: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() }) //nolint:noctx // after the test
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(dir, "data")
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	pgtest.Must(t, server.Own(place))
	name := "small"
	execute(t, server.DSN("postgres"), "CREATE TABLESPACE "+name+" LOCATION '"+place+"'", "CREATE DATABASE "+name+" TABLESPACE "+name)
	t.Cleanup(func() {
		c, err := pgx.Connect(context.Background(), server.DSN("postgres"))
		if err == nil {
			_, _ = c.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
			_, _ = c.Exec(context.Background(), "DROP TABLESPACE "+name)
			_ = c.Close(context.Background())
		}
	})
	s := open(t, pgstore.Options{DSN: server.DSN(name)})
	value := string(bytes.Repeat([]byte{'x'}, 1<<20))
	kept := 0
	for ; ; kept++ {
		p := put(t, s, fmt.Sprint(kept), value)
		if p.Err == nil {
			continue
		}
		if !errors.Is(p.Err, store.ErrFull) {
			t.Fatalf("after %d records: %v, want ErrFull", kept, p.Err)
		}
		break
	}
	if kept == 0 {
		t.Fatal("nothing had room")
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if p := put(t, s, "with room", value); p.Err != nil {
		t.Errorf("with room: %v", p.Err)
	}
	for i := range kept {
		if _, got, err := s.Get(t.Context(), "space", fmt.Sprint(i)); string(got) != value || err != nil {
			t.Errorf("record %d: %d octets, %v", i, len(got), err)
		}
	}
}

func TestST04ADamagedRowIsNamed(t *testing.T) {
	dsn := database(t)
	s := open(t, pgstore.Options{DSN: dsn})
	for _, key := range []string{"good", "value", "version"} {
		if p := put(t, s, key, "value of "+key); p.Err != nil {
			t.Fatal(p.Err)
		}
	}
	for _, log := range []string{"good", "entry", "end"} {
		if a := appendTo(t, s, log, "data"); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	for _, id := range []string{"good", "data", "due"} {
		if a := add(t, s, id, "data"); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	read := func(what, name string) error {
		ctx := t.Context()
		switch what {
		case "record":
			_, _, err := s.Get(ctx, "space", name)
			return err
		case "log":
			err := s.Read(ctx, "space", name, 0, func(uint64, string, []byte) bool { return true })
			if err == nil {
				_, _, err = s.Span(ctx, "space", name)
			}
			return err
		}
		_, err := s.Data(ctx, "space", name)
		return err
	}
	for _, c := range []struct{ what, name, damage string }{
		{"record", "value", `UPDATE swp.record SET value = set_byte(value, 3, get_byte(value, 3) # 1) WHERE key = 'value'`},
		{"record", "version", `UPDATE swp.record SET version = version # 4 WHERE key = 'version'`},
		{"log", "entry", `UPDATE swp.entry SET data = set_byte(data, 0, get_byte(data, 0) # 1) WHERE log = (SELECT id FROM swp.log WHERE name = 'entry')`},
		{"log", "end", `UPDATE swp.log SET last = last # 1024 WHERE name = 'end'`},
		{"item", "data", `UPDATE swp.item SET data = set_byte(data, 0, get_byte(data, 0) # 1) WHERE id = 'data'`},
		{"item", "due", `UPDATE swp.item SET due = due # 1 WHERE id = 'due'`},
	} {
		if err := read(c.what, c.name); err != nil {
			t.Fatalf("before: %v", err)
		}
		execute(t, dsn, c.damage)
		if err := read(c.what, c.name); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), `"`+c.name+`"`) {
			t.Errorf("%s %q: %v, want ErrDamaged with the name", c.what, c.name, err)
		}
		if err := read(c.what, "good"); err != nil {
			t.Errorf("another %s: %v", c.what, err)
		}
	}
	// A change does not make damage correct.
	if a := appendTo(t, s, "end", "more"); a.Err != nil {
		t.Fatal(a.Err)
	}
	if err := read("log", "end"); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("after another entry: %v", err)
	}
	if err := s.Export(t.Context(), func(store.Piece) error { return nil }); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("Export: %v", err)
	}
}

func TestST05ANodeThatWasTakenOverCannotWrite(t *testing.T) {
	dsn := database(t)
	var notices atomic.Int32
	old := open(t, pgstore.Options{DSN: dsn, Notice: func(string) { notices.Add(1) }})
	if p := put(t, old, "before", "value"); p.Err != nil {
		t.Fatal(p.Err)
	}
	if _, err := pgstore.Open(t.Context(), pgstore.Options{DSN: dsn}); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("while it is alive: %v", err)
	}
	execute(t, dsn, `UPDATE swp.node SET heartbeat = clock_timestamp() - interval '1 hour'`)
	next := open(t, pgstore.Options{DSN: dsn})
	seen := notices.Load()
	for range 2 {
		if p := put(t, old, "zombie", "value"); !errors.Is(p.Err, store.ErrFenced) {
			t.Errorf("a write after it was taken over: %+v", p)
		}
	}
	if err := old.Check(t.Context()); !errors.Is(err, store.ErrFenced) {
		t.Errorf("Check: %v", err)
	}
	if notices.Load() != seen+1 {
		t.Errorf("%d notices, want one more than %d", notices.Load(), seen)
	}
	if p := put(t, next, "after", "value"); p.Err != nil {
		t.Error(p.Err)
	}
	for key, want := range map[string]bool{"before": true, "zombie": false, "after": true} {
		if version, _, err := old.Get(t.Context(), "space", key); (version != 0) != want || err != nil {
			t.Errorf("%q: version %d, %v", key, version, err)
		}
	}
}

// Two processes can find a node silent at the same time.
func TestST05ASilentNodeIsTakenOverByOneProcess(t *testing.T) {
	dsn := database(t)
	open(t, pgstore.Options{DSN: dsn})
	other, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	// Who enters before the session of the silent node is gone takes the lock at a later heartbeat.
	holder := func() (pid int) {
		for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			err := other.QueryRow(t.Context(), `SELECT l.pid FROM pg_locks l JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND granted
				AND datname = current_database() AND objsubid = 2`).Scan(&pid)
			if err == nil || !errors.Is(err, pgx.ErrNoRows) || time.Now().After(until) {
				if err != nil {
					t.Error(err)
				}
				return pid
			}
		}
	}
	var first *pgstore.Store
	session := 0
	for until := time.Now().Add(patience); first == nil; {
		if time.Now().After(until) {
			t.Fatal("the node was never silent")
		}
		// The node may give a sign of life before another process looks: then again.
		execute(t, dsn, `UPDATE swp.node SET heartbeat = clock_timestamp() - interval '1 hour'`)
		late, err := pgstore.Open(t.Context(), pgstore.Options{DSN: dsn, Notice: func(string) {
			if first != nil { // it is faster from here on
				return
			}
			faster, err := pgstore.Open(t.Context(), pgstore.Options{DSN: dsn})
			if err == nil {
				first = faster
				session = holder()
			} else if !errors.Is(err, store.ErrLocked) {
				t.Error(err)
			}
		}})
		switch {
		case err == nil: // without a faster one it is the next node
			defer late.Close()
			if first != nil {
				t.Error("the second one has entered over the first one")
			}
		case !errors.Is(err, store.ErrLocked):
			t.Errorf("the second one: %v", err)
		}
	}
	defer func() { _ = first.Close() }()
	if now := holder(); now != session {
		t.Error("the session of the first one was ended")
	}
	if p := put(t, first, "key", "value"); p.Err != nil {
		t.Errorf("the first one cannot write: %v", p.Err)
	}
}

func TestST05ANodeThatIsCutOffWithinATransactionIsTakenOver(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	c, through := cut(t, dsn)
	old := open(t, pgstore.Options{DSN: through})
	put(t, old, "small", "value") // and its statements are prepared
	c.fate.Store(loseRest)
	mend := sync.OnceFunc(func() { close(c.late) })
	defer mend()
	lost := make(chan store.PutResult, 1)
	old.Put("space", "large", 0, "owner", make([]byte, 4<<20), time.Time{}, func(r store.PutResult) { lost <- r })
	var next *pgstore.Store
	for late := time.Now().Add(patience); next == nil; {
		var err error
		if next, err = pgstore.Open(t.Context(), pgstore.Options{DSN: dsn}); err != nil && time.Now().After(late) {
			t.Fatal(err)
		}
	}
	defer func() { _ = next.Close() }()
	if c.cuts.Load() != 1 {
		t.Error("the node was not cut off")
	}
	if p := put(t, next, "next", "value"); p.Err != nil {
		t.Error(p.Err)
	}
	mend()
	// The end of its session can reach the node first: then it writes again before it is taken over.
	r := within(t, lost)
	if version, _, err := next.Get(t.Context(), "space", "large"); (version != 0) != (r.Err == nil) || err != nil {
		t.Errorf("the write that was cut off: %+v, and it has version %d, %v", r, version, err)
	}
	if p := put(t, old, "zombie", "value"); !errors.Is(p.Err, store.ErrFenced) {
		t.Errorf("a write of the node that was taken over: %+v", p)
	}
}

func TestST05AnotherSchemaIsUsedOnlyIfItSaysSo(t *testing.T) {
	dsn := database(t)
	s := open(t, pgstore.Options{DSN: dsn})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, `UPDATE swp.state SET schema = schema + 1`)
	s = open(t, pgstore.Options{DSN: dsn})
	if p := put(t, s, "key", "value"); p.Err != nil {
		t.Errorf("with a later schema that this one can use: %v", p.Err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, `UPDATE swp.state SET min_reader = schema`)
	if _, err := pgstore.Open(t.Context(), pgstore.Options{DSN: dsn}); !errors.Is(err, store.ErrNewer) {
		t.Errorf("with one that it cannot use: %v", err)
	}
}

func TestST05AnEarlierSchemaIsMigratedOnlyOnRequestAndOnce(t *testing.T) {
	dsn := database(t)
	s := open(t, pgstore.Options{DSN: dsn, Node: "earlier"})
	if p := put(t, s, "key", "value"); p.Err != nil {
		t.Fatal(p.Err)
	}
	restore := pgstore.Later(`ALTER TABLE record ADD added int; CREATE TABLE once (n int)`, 1)
	defer func() { restore() }()
	if _, err := pgstore.Open(t.Context(), pgstore.Options{DSN: dsn, Node: "later"}); !errors.Is(err, store.ErrOlder) {
		t.Errorf("without a request: %v", err)
	}
	var several sync.WaitGroup
	for n := range 4 {
		several.Go(func() {
			later, err := pgstore.Open(t.Context(), pgstore.Options{DSN: dsn, Node: fmt.Sprint("later ", n), Migrate: true})
			if err != nil {
				t.Error(err)
				return
			}
			if _, value, err := later.Get(t.Context(), "space", "key"); string(value) != "value" || err != nil {
				t.Errorf("after the migration: %q, %v", value, err)
			}
			if err := later.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	several.Wait()
	// The earlier release goes on, and can be opened again.
	if p := put(t, s, "another", "value"); p.Err != nil {
		t.Errorf("of the earlier release, after the migration: %v", p.Err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	restore()
	s = open(t, pgstore.Options{DSN: dsn, Node: "earlier"})
	if p := put(t, s, "third", "value"); p.Err != nil {
		t.Errorf("of the earlier release, opened again: %v", p.Err)
	}
	restore = pgstore.Later(`ALTER TABLE record ADD added int; SELECT 1 / 0`, 1)
	other := database(t)
	if _, err := pgstore.Open(t.Context(), pgstore.Options{DSN: other}); err == nil {
		t.Error("a step that fails does not fail the opening")
	}
	restore()
	s = open(t, pgstore.Options{DSN: other})
	if p := put(t, s, "key", "value"); p.Err != nil {
		t.Errorf("after a step that failed: %v", p.Err)
	}
	restore = func() {}
}

func TestST08LessDurabilityThanConfiguredIsRefused(t *testing.T) {
	server, err := pgtest.New("", "fsync=off")
	pgtest.Must(t, err)
	defer func() { _ = server.Close() }()
	dsn := server.DSN("postgres")
	refused := func(o pgstore.Options, reason string) {
		t.Helper()
		o.DSN = dsn
		if s, err := pgstore.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%+v: %v, want that %s", o, err, reason)
			if err == nil {
				_ = s.Close()
			}
		}
	}
	refused(pgstore.Options{}, "fsync is off")
	refused(pgstore.Options{Durability: store.Process, Standby: true}, "standby")
	s := open(t, pgstore.Options{DSN: dsn, Durability: store.Process})
	if found := s.Found(); !strings.Contains(found, "fsync off") || !strings.Contains(found, "no synchronous standby") {
		t.Errorf("it has found %q", found)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	execute(t, dsn, `ALTER DATABASE postgres SET synchronous_commit = off`)
	refused(pgstore.Options{Durability: store.Process}, "synchronous_commit is off")
	refused(pgstore.Options{Durability: "strong"}, "durability")
}

func TestThePasswordIsInNoError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close() // nobody listens
	for _, dsn := range []string{
		"postgres://user:hunter2secret@" + address + "/db",
		"postgres://user:hunter2secret/x@" + address + "/db",
		"postgres://user:hunter2secret@host name/db",
		"postgres://user:hunter2secret@" + address + "/db?sslmode=wrong",
		"host=127.0.0.1 password=hunter2secret port=none",
		"host=127.0.0.1 password='hunter2secret",
		"password=hunter2secret host=/nowhere service=none",
	} {
		s, err := pgstore.Open(t.Context(), pgstore.Options{DSN: dsn, Timeout: 5 * time.Second})
		if err == nil {
			_ = s.Close()
			t.Errorf("%s: opened", dsn)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password is in %q", err)
		}
	}
}

// The library passes over such a file, as if the URL did not name one.
func TestAPasswordFileThatCannotBeReadIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pgpass")
	o := pgstore.Options{DSN: "postgres://swpd@db.example/swpd?passfile=" + file, Node: "n"}
	if _, err := pgstore.NewMembers(o); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(file, []byte("*:*:*:*:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.NewMembers(o); err != nil {
		t.Error(err)
	}
}

func TestTwoNodesShareADatabase(t *testing.T) {
	dsn := database(t)
	var nodes [2]*pgstore.Store
	for i := range nodes {
		nodes[i] = open(t, pgstore.Options{DSN: dsn, Node: fmt.Sprint("node ", i)})
	}
	const logs, each = 4, 100
	var pending sync.WaitGroup
	for i, s := range nodes {
		for n := range each {
			for log := range logs {
				if i == 1 {
					log = logs - 1 - log // the other order
				}
				pending.Add(2)
				s.Append("space", fmt.Sprint(log), fmt.Sprint("node ", i, " ", n), "owner", []byte("data"), time.Time{}, func(r store.AppendResult) {
					if r.Err != nil || !r.Fresh {
						t.Errorf("Append: %+v", r)
					}
					pending.Done()
				})
				s.Put("space", fmt.Sprint(log), 0, "owner", nil, time.Time{}, func(r store.PutResult) {
					if r.Err != nil {
						t.Errorf("Put: %v", r.Err)
					}
					pending.Done()
				})
			}
			pending.Add(1)
			s.Add("space", "queue", fmt.Sprint(n), "", "owner", nil, time.Time{}, time.Now().Add(time.Hour), func(r store.AddResult) {
				if r.Err != nil {
					t.Errorf("Add: %v", r.Err)
				}
				pending.Done()
			})
		}
	}
	pending.Wait()
	for log := range logs {
		next := uint64(1)
		err := nodes[log%2].Read(t.Context(), "space", fmt.Sprint(log), 0, func(seq uint64, _ string, _ []byte) bool {
			if seq != next {
				t.Errorf("log %d: entry %d, want %d", log, seq, next)
			}
			next++
			return true
		})
		if err != nil || next != 2*each+1 {
			t.Errorf("log %d: %d entries, %v", log, next-1, err)
		}
	}
	var mu sync.Mutex
	taken := make(map[string]int)
	var takers sync.WaitGroup
	for _, s := range nodes {
		for range 4 {
			takers.Go(func() {
				for {
					c := make(chan store.LeaseResult, 1)
					s.Lease("space", "queue", 0, time.Now().Add(time.Hour), func(r store.LeaseResult) { c <- r })
					l := within(t, c)
					if l.Err != nil {
						t.Errorf("Lease: %v", l.Err)
					}
					if l.Lease == 0 {
						if l.Next.IsZero() || l.Next.After(time.Now().Add(time.Minute)) {
							return
						}
						continue // another node is taking it
					}
					mu.Lock()
					taken[l.ID]++
					mu.Unlock()
					held := make(chan bool, 1)
					s.Ack("space", l.ID, l.Lease, func(h bool, err error) { held <- h && err == nil })
					if !within(t, held) {
						t.Errorf("%q is not held", l.ID)
					}
				}
			})
		}
	}
	takers.Wait()
	if len(taken) != each {
		t.Errorf("%d of %d items were taken", len(taken), each)
	}
	for id, n := range taken {
		if n != 1 {
			t.Errorf("%q was taken %d times", id, n)
		}
	}
}
