// Package sqlstore is the embedded engine: one SQLite file with a write-ahead
// log, in pure Go.
//
// One goroutine writes. What is submitted while it commits goes into its next
// transaction, so that one fsync serves many acknowledgements. Readers have
// connections of their own and see what is committed.
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

	// QueueLength and QueueOctets bound what waits to be written; default 65,536
	// operations and 64 MiB. One operation is always taken.
	QueueLength int
	QueueOctets int

	// Readers is how many reads run at once; default 4. More wait.
	Readers int

	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.Durability = cmp.Or(o.Durability, store.Power)
	o.Quota = cmp.Or(o.Quota, 10<<30)
	o.QuotaPerOwner = cmp.Or(o.QuotaPerOwner, 1<<30)
	o.QueueLength = cmp.Or(o.QueueLength, 65536)
	o.QueueOctets = cmp.Or(o.QueueOctets, 64<<20)
	o.Readers = cmp.Or(o.Readers, 4)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store is an open store. It is safe for concurrent use.
type Store struct {
	options Options
	file    string // empty: in memory
	clock   *clock
	queue   queue
	readers chan *conn // slots; one may hold nil, then a connection is made
	gone    chan struct{}
	written sync.WaitGroup
	closed  error
	stats   counters
}

var _ store.Store = (*Store)(nil)

// Open opens a store, or makes it.
func Open(ctx context.Context, options Options) (*Store, error) {
	s := &Store{options: options.withDefaults(), gone: make(chan struct{})}
	s.queue = queue{
		wake: make(chan struct{}, 1), maxCount: s.options.QueueLength, maxOctets: s.options.QueueOctets,
	}
	if s.options.Durability != store.Power && s.options.Durability != store.Process {
		return nil, fmt.Errorf("sqlstore: durability %q, want %q or %q", s.options.Durability, store.Power, store.Process)
	}
	w, err := s.openWriter()
	if err != nil {
		return nil, err
	}
	if s.file == "" {
		s.readers = make(chan *conn, 1)
		s.readers <- w.conn
	} else {
		s.readers = make(chan *conn, s.options.Readers)
		for range s.options.Readers {
			s.readers <- nil
		}
	}
	s.written.Go(w.loop)
	return s, nil
}

func (s *Store) openWriter() (*writer, error) {
	w := &writer{
		s: s, sweeper: newSweeper(),
		owners: owners{byName: make(map[string]*owner), byID: make(map[int64]*owner)},
		logs:   logs{byName: make(map[logName]*log), byID: make(map[int64]*log)},
	}
	var err error
	if s.options.Dir != "" {
		if err := os.MkdirAll(s.options.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("sqlstore: %w", err)
		}
		s.file = filepath.Join(s.options.Dir, "state.db")
	}
	if w.conn, err = s.connectWriter(); err != nil {
		return nil, err
	}
	row, err := w.conn.row("PRAGMA user_version")
	if err == nil && number(row[0]) == 0 {
		err = w.conn.run(schema + fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, schemaVersion))
	}
	if err == nil {
		err = w.load()
	}
	if err != nil {
		_ = w.conn.close()
		return nil, err
	}
	return w, nil
}

// load reads what the writer keeps at hand.
func (w *writer) load() error {
	row, err := w.conn.row(selectState)
	if err != nil {
		return err
	}
	w.state = state{number(row[0]), number(row[1]), number(row[2]), number(row[3])}
	if w.owners.settled, err = w.countOwners(); err != nil {
		return err
	}
	w.owners.total = w.owners.settled
	w.s.clock = newClock(w.s.options.Now, w.state.clock)
	return nil
}

func (s *Store) connectWriter() (*conn, error) {
	level := "FULL"
	if s.options.Durability == store.Process {
		level = "NORMAL"
	}
	return connect(s.file, "busy_timeout = 5000", "journal_mode = WAL", "synchronous = "+level,
		"wal_autocheckpoint = 8000", "cache_size = -16384", "temp_store = MEMORY", "trusted_schema = OFF")
}

func (s *Store) connectReader() (*conn, error) {
	return connect(s.file, "busy_timeout = 5000", "query_only = ON", "cache_size = -4096", "trusted_schema = OFF")
}

// Pages of Scan and Read.
const (
	pageRows   = 256
	pageOctets = 1 << 20
)

// read lends a connection for reading.
func (s *Store) read(ctx context.Context, work func(*conn) error) (err error) {
	var c *conn
	select {
	case <-s.gone:
		return store.ErrClosed
	default:
	}
	select {
	case <-s.gone:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	case c = <-s.readers:
	}
	if c == nil {
		if c, err = s.connectReader(); err != nil {
			s.readers <- nil
			return err
		}
	}
	if err = work(c); isFailed(err) && s.file != "" {
		// The next read starts afresh.
		_ = c.close()
		c = nil
	}
	s.readers <- c
	return err
}

// Check implements store.Store. It writes.
func (s *Store) Check(ctx context.Context) error {
	told := make(chan error, 1)
	s.queue.submit(probe(func(err error) { told <- err }))
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// probe is an operation that writes nothing but what every transaction does.
type probe func(error)

func (p probe) size() int           { return 0 }
func (p probe) apply(*writer) error { return nil }
func (p probe) done(err error)      { p(err) }

// Close implements store.Store.
func (s *Store) Close() error {
	if !s.queue.close() {
		s.written.Wait()
		return s.closed
	}
	close(s.gone)
	s.written.Wait()
	for range cap(s.readers) {
		if c := <-s.readers; c != nil && s.file != "" {
			_ = c.close()
		}
	}
	s.queue.refusers.Wait()
	return s.closed
}

// damaged is the error for something that is not served.
func (s *Store) damaged(format string, args ...any) error {
	s.stats.damaged.Add(1)
	return fmt.Errorf("%w: %s: %s", store.ErrDamaged, cmp.Or(s.file, "memory"), fmt.Sprintf(format, args...))
}

type counters struct {
	swept   atomic.Uint64
	damaged atomic.Uint64
}
