// Package sqlstore is the embedded engine: one SQLite file with a write-ahead
// log, in pure Go.
//
// One goroutine writes. Operations submitted while it commits go into its next
// transaction, so that one fsync serves many acknowledgements. Readers have
// their own connections and see committed data.
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

	"github.com/slimwire/swp/store"
)

// Options say where a store lies and what it may hold. The zero value is a
// store in memory.
type Options struct {
	// Dir is the directory of the store, made if it is missing. Empty means in
	// memory, gone with Close.
	Dir string

	// Durability is what an acknowledgement promises; default store.Power.
	Durability store.Durability

	// Quota is how many octets the store holds at most, QuotaPerOwner how many
	// of one owner; default 10 GiB and 1 GiB. A record costs the octets of its
	// names and value and Overhead; an entry those of id and data, and a log
	// those of its names, and Overhead each. The owner "" is the node itself and
	// bounded by Quota alone.
	Quota         int64
	QuotaPerOwner int64

	// Waiting is how many items that are not done one work queue holds at most,
	// Remembered how many a space of them, done ones included; default 100,000 and
	// 1,000,000. An item costs the octets of its names, mark and data and Overhead.
	Waiting    int
	Remembered int

	// QueueLength and QueueOctets bound what waits to be written; default 65,536
	// operations and 64 MiB. One operation is always taken.
	QueueLength int
	QueueOctets int

	// Committed is told how long each transaction took, and how many operations it
	// had, by the one goroutine that writes: it must not wait. It may be nil.
	Committed func(took time.Duration, operations int)

	// Readers is how many reads run at once; default 4. More wait.
	Readers int

	// CheckFor is how long Open waits for the integrity check of a file; default
	// 2 s. It goes on in the background, and Check reports what it finds.
	CheckFor time.Duration

	// AcceptDamage opens a store in spite of damage, which is an error
	// otherwise. Open then waits until every row is checked, regardless of
	// CheckFor. If any is damaged, all readable rows are moved to a new file,
	// and the broken one is kept beside it as state.db.damaged-*. Reading goes
	// over what is missing; damage that is found later Check reports as ever.
	AcceptDamage bool

	// Notice gets messages for the operator, a sentence each, that no caller
	// gets: damage, its repair, failures in the background. May be nil.
	Notice func(string)

	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.Durability = cmp.Or(o.Durability, store.Power)
	o.Quota = cmp.Or(o.Quota, 10<<30)
	o.QuotaPerOwner = cmp.Or(o.QuotaPerOwner, 1<<30)
	o.Waiting = cmp.Or(o.Waiting, 100_000)
	o.Remembered = cmp.Or(o.Remembered, 1_000_000)
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
	bounds  atomic.Pointer[bounds]
	file    string // empty: in memory
	lock    *os.File
	mark    *marker
	clock   *clock
	queue   queue
	rooms   sync.Map   // of *room, by logName: queues with a bound of their own
	readers chan *conn // slots; one may hold nil, then a connection is made
	checks  checks
	damage  atomic.Pointer[error] // what was found first
	stats   counters
	writer  *writer // its goroutine's, while that runs

	gone     chan struct{} // closed with the beginning of Close
	written  sync.WaitGroup
	released chan struct{} // and with its end
	closed   error         // what Close returns
}

var _ store.Store = (*Store)(nil)

// bounds are what is refused above, which may change while the store is open.
type bounds struct {
	quota, perOwner     int64
	waiting, remembered int64
}

// SetBounds has Quota, QuotaPerOwner, Waiting and Remembered of o hold for operations
// that come from now on; zero is the default. What is kept above a bound stays.
func (s *Store) SetBounds(o Options) {
	o = o.withDefaults()
	s.bounds.Store(&bounds{o.Quota, o.QuotaPerOwner, int64(o.Waiting), int64(o.Remembered)})
}

func newStore(options Options) (*Store, error) {
	s := &Store{options: options.withDefaults(), gone: make(chan struct{}), released: make(chan struct{})}
	s.SetBounds(options)
	s.queue = queue{
		wake: make(chan struct{}, 1), maxCount: s.options.QueueLength, maxOctets: s.options.QueueOctets,
		busy: &s.stats.refused,
	}
	s.queue.rested.L = &s.queue.mu
	if s.options.Durability != store.Power && s.options.Durability != store.Process {
		return nil, fmt.Errorf("sqlstore: durability %q, want %q or %q", s.options.Durability, store.Power, store.Process)
	}
	s.writer = &writer{
		s: s, sweeper: newSweeper(),
		owners: owners{byName: make(map[string]*owner), byID: make(map[int64]*owner)},
		logs:   logs{byName: make(map[logName]*log), byID: make(map[int64]*log)},
		lines:  lines{byName: make(map[logName]*line), byID: make(map[int64]*line), spaces: make(map[string]*remembered), rooms: make(rooms)},
	}
	return s, nil
}

// name is what the store is called in errors.
func (s *Store) name() string { return cmp.Or(s.file, "memory") }

func (s *Store) notice(format string, args ...any) {
	if s.options.Notice != nil {
		s.options.Notice(fmt.Sprintf(format, args...))
	}
}

// The log is written back by a checkpointer, so that a commit that has reached
// its durability is never reported as failed for that.
func (s *Store) connectWriter() (*conn, error) {
	level := "FULL" // fsync of the log with each commit
	if s.options.Durability == store.Process {
		level = "NORMAL" // with each checkpoint
	}
	return connect(s.file, readWrite, "journal_mode = WAL", "synchronous = "+level, "wal_autocheckpoint = 0",
		"cache_size = -16384", "temp_store = MEMORY")
}

func (s *Store) connectReader() (*conn, error) {
	return connect(s.file, readWrite, "query_only = ON", "cache_size = -4096", "wal_autocheckpoint = 0")
}

// Bounds of a page of Scan and of Read.
const (
	pageRows   = 256
	pageOctets = 1 << 20
)

// read lends a connection for reading.
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
	if err = work(c); isFailed(err) {
		if s.file != "" {
			_ = c.close()
			c = nil // the next read starts afresh
		}
		err = s.asDamage(err)
	}
	return err
}

// Check implements store.Store. It writes, and reports damage that was found
// since the store was opened.
func (s *Store) Check(ctx context.Context) error {
	if found := s.damage.Load(); found != nil {
		return *found
	}
	told := make(chan error, 1)
	s.queue.submit(probe{s, func(err error) { told <- err }})
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// probe is an operation that writes only what every transaction does, if that is
// still the file that it was. After a failure it writes as much as the failed
// transaction, because a nearly full disk still takes a small probe.
type probe struct {
	s    *Store
	tell func(error)
}

func (p probe) size() int      { return 0 }
func (p probe) done(err error) { p.tell(err) }

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

// probeBody is the number of the data that a probe writes: that of no item.
const probeBody = 0

// Bounds of what a probe writes after a failure, in octets.
const (
	minRefused = 64 << 10
	maxRefused = 1 << 20
)

// inPlace reports whether the mark, and with it the directory, is still what was
// opened. Writes to removed files do not fail otherwise.
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
	if s.queue.close() {
		close(s.gone)
		s.written.Wait()
		s.closed = s.release()
		close(s.released)
	}
	<-s.released
	return s.closed
}

// release gives back everything. The writer's connection is the last one, which
// writes the log back into the database.
func (s *Store) release() error {
	s.checks.stop()
	for range cap(s.readers) {
		if c := <-s.readers; c != nil && s.file != "" {
			_ = c.close()
		}
	}
	err := s.writer.close()
	s.queue.rest()
	if s.mark != nil {
		_ = s.mark.file.Close()
	}
	if s.lock != nil {
		_ = s.lock.Close()
	}
	return err
}
