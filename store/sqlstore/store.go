// Package sqlstore is the embedded engine: one SQLite file with a write-ahead log, in pure
// Go.
//
// One goroutine writes. Operations submitted during a commit go into the next transaction,
// so that one fsync serves many acknowledgements. Readers have their own connections and
// see committed data.
package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/clock"
	"github.com/slimwire/swp/store/internal/gather"
	"github.com/slimwire/swp/store/internal/quota"
)

// Options configure a Store. The zero value is a store in memory.
type Options struct {
	// Dir is the directory of the store, created if it is missing. Empty means in memory.
	Dir string

	// Durability is the durability of an acknowledgement; default store.Power.
	Durability store.Durability

	store.Limits

	// QueueLength and QueueOctets limit the pending operations; default 65,536 operations
	// and 64 MiB. A single operation of any size is accepted.
	QueueLength int
	QueueOctets int

	// Committed is called with the duration of each transaction and its number of
	// operations. The writer calls it, so it must not block. It may be nil.
	Committed func(took time.Duration, operations int)

	// Readers is the number of concurrent reads; default 4.
	Readers int

	// CheckFor limits the wait of Open for the integrity check; default 2 s. The check
	// continues in the background, and Check reports its findings.
	CheckFor time.Duration

	// AcceptDamage opens a damaged store; otherwise Open fails. Open then checks every row,
	// regardless of CheckFor. If rows are damaged, all readable rows are copied to a new
	// file, and the damaged file is kept as state.db.damaged-*. Reading skips what is
	// missing; Check still reports damage found later.
	AcceptDamage bool

	// Migrate brings the store of an earlier release to the schema of this one; otherwise Open
	// refuses it with ErrOlder. Everything happens in one transaction: after an error, and after a
	// crash, the store is unchanged. An older store that is damaged is refused
	// with both ErrOlder and ErrDamaged, even with AcceptDamage: only its release can save the
	// readable part.
	Migrate bool

	// Admit may refuse the content of a store before the first write: its error ends Open. get
	// returns the value of a record, or nil. Admit may be nil.
	Admit func(get func(space, key string) ([]byte, error)) error

	// Later are statements of SQL, each the step to a further schema: a planted later release, for
	// tests of an upgrade.
	Later []string

	// Notice receives messages for the operator that no caller receives, one sentence each:
	// damage, its repair, migrations, background failures. May be nil.
	Notice func(string)

	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.Durability = cmp.Or(o.Durability, store.Power)
	o.Limits = o.WithDefaults()
	o.QueueLength = cmp.Or(o.QueueLength, 65536)
	o.QueueOctets = cmp.Or(o.QueueOctets, 64<<20)
	o.Readers = cmp.Or(o.Readers, 4)
	o.CheckFor = cmp.Or(o.CheckFor, 2*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store is an open store. It is safe for concurrent use.
type Store struct {
	options Options
	bounds  atomic.Pointer[quota.Bounds]
	file    string // empty: in memory
	lock    *disk.Lock
	mark    *marker
	clock   *clock.Clock
	queue   *gather.Queue[operation]
	rooms   sync.Map   // *room by logName: queues with a limit of their own
	readers chan *conn // slots; for nil a connection is opened
	checks  checks
	damage  atomic.Pointer[error] // the first damage found
	stats   counters
	writer  *writer // owned by its goroutine while that runs

	gone     chan struct{} // closed when Close begins
	written  sync.WaitGroup
	released chan struct{} // closed when Close ends
	closed   error         // result of Close
}

var _ store.Store = (*Store)(nil)

// SetBounds changes the limits for later operations. Data above a new limit stays.
func (s *Store) SetBounds(l store.Limits) {
	b := quota.Bounds(l.WithDefaults())
	s.bounds.Store(&b)
}

func newStore(options Options) (*Store, error) {
	s := &Store{options: options.withDefaults(), gone: make(chan struct{}), released: make(chan struct{})}
	s.SetBounds(options.Limits)
	s.queue = gather.NewQueue[operation](s.options.QueueLength, s.options.QueueOctets)
	if s.options.Durability != store.Power && s.options.Durability != store.Process {
		return nil, fmt.Errorf("sqlstore: durability %q, want %q or %q", s.options.Durability, store.Power, store.Process)
	}
	s.writer = &writer{
		s: s, sweeper: newSweeper(), turns: gather.Turns[operation]{Most: maxBatch, MostOctets: maxBatchOctets},
		owners: owners{byName: make(map[string]*owner), byID: make(map[int64]*owner), peers: make(map[string]*int64)},
		logs:   logs{byName: make(map[logName]*log), byID: make(map[int64]*log)},
		lines:  lines{byName: make(map[logName]*line), byID: make(map[int64]*line), spaces: make(map[string]*remembered), rooms: make(rooms)},
		leased: make(leased),
	}
	return s, nil
}

// name returns the name of the store in errors.
func (s *Store) name() string { return cmp.Or(s.file, "memory") }

func (s *Store) notice(format string, args ...any) {
	if s.options.Notice != nil {
		s.options.Notice(fmt.Sprintf(format, args...))
	}
}

// SQLite must not run checkpoints by itself: a durable commit would be reported as failed
// when its checkpoint fails. The checkpointer runs them.
func (s *Store) connectWriter() (*conn, error) {
	level := "FULL" // fsync of the log at each commit
	if s.options.Durability == store.Process {
		level = "NORMAL" // at each checkpoint
	}
	return connect(s.file, readWrite, "journal_mode = WAL", "synchronous = "+level, "wal_autocheckpoint = 0",
		"cache_size = -16384", "temp_store = MEMORY")
}

func (s *Store) connectReader() (*conn, error) {
	return connect(s.file, readWrite, "query_only = ON", "cache_size = -4096", "wal_autocheckpoint = 0")
}

// Limits of a page of Scan and Read. The first page of Read is small, because many callers stop
// within it.
const (
	pageRows    = 256 // of Read: entries
	pageOctets  = 1 << 20
	firstOctets = 64 << 10
)

// read calls work with a connection for reading. All statements of work see the same state:
// a row that one of them finds is there for the next.
func (s *Store) read(ctx context.Context, work func(*conn) error) (err error) {
	select {
	case <-s.gone:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	var c *conn
	select {
	case <-s.gone:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	case c = <-s.readers:
	}
	defer func() { s.readers <- c }()
	if c == nil {
		if c, err = s.connectReader(); err != nil {
			return err
		}
	}
	if err = c.atOnce(func() error { return work(c) }); isFailed(err) {
		if s.file != "" {
			_ = c.close()
			c = nil // the next read opens a new connection
		}
		err = s.asDamage(err)
	}
	return err
}

// Check implements store.Store. It writes, and reports damage found since the store was
// opened.
func (s *Store) Check(ctx context.Context) error {
	if found := s.damage.Load(); found != nil {
		return *found
	}
	told := make(chan error, 1)
	s.queue.Submit(probe{s: s, tell: func(err error) { told <- err }})
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// probe is an operation that writes only the row that each transaction writes, and checks
// that the file is still the opened one. After a failure it writes as much as the failed
// transaction, because an almost full disk still accepts a small write.
type probe struct {
	gather.Unowned
	s    *Store
	tell func(error)
}

func (p probe) Size() int      { return 0 }
func (p probe) Done(err error) { p.tell(err) }

func (p probe) apply(w *writer) error {
	if err := p.s.inPlace(); err != nil || p.s.file == "" {
		return err
	}
	if w.refused == 0 {
		_, err := w.conn.exec(deleteBody, int64(probeBody))
		return err
	}
	data := make([]byte, w.refused)
	if _, err := w.conn.exec(deleteBody, int64(probeBody)); err != nil {
		return err
	}
	_, err := w.conn.exec(insertBody, int64(probeBody), w.conn.sumBody(probeBody, data), data)
	return err
}

// probeBody is the number of the data row of a probe. No item has this number.
const probeBody = 0

// Limits of the write of a probe after a failure, in octets.
const (
	minRefused = 64 << 10
	maxRefused = 1 << 20
)

// inPlace reports whether the mark, and so the directory, is still the opened one. Writes
// to removed files succeed otherwise.
func (s *Store) inPlace() error {
	if s.file == "" {
		return nil
	}
	for _, path := range []string{s.file, filepath.Join(filepath.Dir(s.file), markName)} {
		if _, err := os.Stat(path); err != nil {
			return unavailable(err)
		}
	}
	return nil
}

// Close implements store.Store.
func (s *Store) Close() error {
	if s.queue.Close() {
		close(s.gone)
		s.written.Wait()
		s.closed = s.release()
		close(s.released)
	}
	<-s.released
	return s.closed
}

// release closes everything. The connection of the writer closes last and writes the log
// back.
func (s *Store) release() error {
	s.checks.stop()
	for range cap(s.readers) {
		if c := <-s.readers; c != nil && s.file != "" {
			_ = c.close()
		}
	}
	err := s.writer.close()
	s.queue.Rest()
	if s.mark != nil {
		_ = s.mark.file.Close()
	}
	if s.lock != nil {
		_ = s.lock.Close()
	}
	return err
}
