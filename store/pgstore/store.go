// Package pgstore is the engine on PostgreSQL: one database that several processes share.
//
// Each process is a node with a name. One goroutine of it writes. Operations submitted during a
// commit go into the next transaction, so that one commit serves many acknowledgements. Readers
// have their own connections and see committed data.
//
// Nothing that another node can change is kept in memory: functions of the database look it up
// within the transaction (schema1.sql). A transaction locks what it changes in a fixed order, and is
// repeated if it meets a deadlock all the same. Limits are exact for one node. While several nodes
// write, each can exceed a limit by the additions of simultaneous transactions of the others.
package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/clock"
	"github.com/slimwire/swp/store/internal/gather"
	"github.com/slimwire/swp/store/internal/quota"
)

// Options configure a Store.
type Options struct {
	// DSN says how to connect: a URL or keywords, as PostgreSQL's own clients take them, with the
	// environment, the service file and the password file. It is never part of an error.
	DSN string

	// Node names this process among those that share the database. Two that are alive must not have
	// the same name. Address is what other nodes read of it.
	Node    string
	Address string

	// Durability is the durability of an acknowledgement; default store.Power. Open refuses a server
	// that has less. With Standby it also refuses one whose commits do not wait for a synchronous
	// standby.
	Durability store.Durability
	Standby    bool

	store.Limits // for all nodes together

	// QueueLength and QueueOctets limit the pending operations of this node; default 65,536
	// operations and 64 MiB. A single operation of any size is accepted.
	QueueLength int
	QueueOctets int

	// Committed is called with the duration of each transaction and its number of operations. The
	// writer calls it, so it must not block. It may be nil.
	Committed func(took time.Duration, operations int)

	// Readers is the number of concurrent reads; default 4.
	Readers int

	// Timeout limits a statement, a connection attempt, and the wait for the outcome of a commit whose
	// answer was lost; default 10 s.
	Timeout time.Duration

	// Migrate brings the database of an earlier release to the schema of this one; otherwise Open
	// refuses it with ErrOlder.
	Migrate bool

	// Fill opens an empty database to fill it: until Filled, also after a crash, Open refuses the
	// database with ErrUnfinished. A database that is not empty is refused with ErrUsed.
	Fill bool

	// Fenced is called, once, when another process has taken over the node. It must not block. May be
	// nil.
	Fenced func(error)

	// Notice receives messages for the operator that no caller receives, one sentence each. May be
	// nil.
	Notice func(string)

	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.Node = cmp.Or(o.Node, "swpd")
	o.Durability = cmp.Or(o.Durability, store.Power)
	o.Limits = o.WithDefaults()
	o.QueueLength = cmp.Or(o.QueueLength, 65536)
	o.QueueOctets = cmp.Or(o.QueueOctets, 64<<20)
	o.Readers = cmp.Or(o.Readers, 4)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store is an open store. It is safe for concurrent use.
type Store struct {
	options Options
	bounds  atomic.Pointer[quota.Bounds]
	server  server
	clock   *clock.Clock
	queue   *gather.Queue[*op]
	rooms   sync.Map // store.Room by place: what queues with a limit of their own held at the last commit
	readers *pgxpool.Pool
	writer  *writer // owned by its goroutine while that runs
	fenced  atomic.Bool
	stats   figures

	gone     chan struct{} // closed when Close begins
	written  sync.WaitGroup
	released chan struct{} // closed when Close ends
	closed   error         // result of Close
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Exporter = (*Store)(nil)
	_ store.Importer = (*Store)(nil)
)

// SetBounds changes the limits for later operations. Data above a new limit stays.
func (s *Store) SetBounds(l store.Limits) {
	b := quota.Bounds(l.WithDefaults())
	s.bounds.Store(&b)
}

// Check implements store.Store. It writes.
func (s *Store) Check(ctx context.Context) error {
	told := make(chan error, 1)
	s.queue.Submit(&op{probe: true, done: func(err error) { told <- err }})
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
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

// release closes everything.
func (s *Store) release() error {
	if s.readers != nil {
		s.readers.Close()
	}
	err := s.writer.close()
	s.queue.Rest()
	return err
}

func (s *Store) notice(format string, args ...any) {
	if s.options.Notice != nil {
		s.options.Notice(fmt.Sprintf(format, args...))
	}
}

func (s *Store) damaged(format string, args ...any) error {
	s.stats.Damaged.Add(1)
	return fmt.Errorf("%w: %s: %s", store.ErrDamaged, s.server.name, fmt.Sprintf(format, args...))
}

// Codes of errors of PostgreSQL, and two of schema1.sql.
const (
	codeFenced       = "SW001"
	codeCountDamaged = "SW002"
	codeDiskFull     = "53100"
	codeDeadlock     = "40P01"
	codeConflict     = "40001"
	codeNoTable      = "42P01"
	codeNoSchema     = "3F000"
	codeUnique       = "23505"
	codeDataDamaged  = "XX001"
	codeIndexDamaged = "XX002"
)

func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// fault returns the error of a failed statement or connection as one of package store.
func (s *Store) fault(err error) error {
	switch code := codeOf(err); {
	case err == nil:
		return nil
	case code == codeFenced:
		return fmt.Errorf("%w: %s: node %q", store.ErrFenced, s.server.name, s.options.Node)
	case code == codeDiskFull:
		return fmt.Errorf("%w: %s: %w", store.ErrFull, s.server.name, err)
	case code == codeCountDamaged, code == codeDataDamaged, code == codeIndexDamaged:
		return s.damaged("%v", err)
	}
	if _, is := errors.AsType[*store.Error](err); is {
		return err
	}
	return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, s.server.name, err)
}
