// Package filestore keeps blobs as files beside a database that knows what is
// in them.
//
// A part is one file from its first octet to its last as a blob. The file has a
// random name: nothing that a caller chooses is ever part of a path. A record in
// the database has its name and owner, how many of its octets count, and until
// when. Octets are written and synced before the record says that they are
// there; after a crash, octets beyond the record are cut off, and a file without
// a record is removed.
//
// Each name has a goroutine while something is to be done for it. It batches the
// appends that arrived during the last write, so that one fsync and one record
// serve many acknowledgements, and computes the SHA-256 of the file on the
// medium while the record is committed.
package filestore

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/store"
)

// Options say where blobs lie and how much of them there may be. Records and
// Space are required.
type Options struct {
	// Records is where it is kept what is in the files. It is not closed.
	Records store.Records

	// Space is the space of the records of blobs; those of parts are in the one
	// that is named Space and ".parts". Nobody else uses either.
	Space string

	// Dir is the directory of the files, made if it is missing. It belongs to
	// these Records. Empty means a temporary one, gone with Close, in which nothing is
	// synced.
	Dir string

	// Durability is what an acknowledgement promises; default store.Power. It
	// should be that of Records. The octets of sealed blobs are synced in any case.
	Durability store.Durability

	// Quota is how many octets there are at most, QuotaPerOwner how many of one
	// owner; default 10 GiB and 1 GiB. A note counts like the octets. The owner ""
	// is bounded by Quota alone.
	Quota, QuotaPerOwner int64

	// Items is how many parts and blobs there are at most, ItemsPerOwner how many
	// of one owner; default 65,536 and 16,384. Their names are held in memory.
	Items, ItemsPerOwner int

	// QueueLength and QueueOctets bound what waits to be written; default 4,096
	// operations and 64 MiB. One operation is always taken.
	QueueLength, QueueOctets int

	// Writers is for how many names work is done at once, Readers how many reads
	// run; default 8 each. More wait. Each holds a buffer of 1 MiB while it
	// works.
	Writers, Readers int

	// AcceptDamage opens the store despite unreadable records and files that are
	// missing or cut off, which is an error otherwise. All files are read first.
	// Damaged entries are left out and reported to Notice by name; their files, and
	// files without a record, are kept in the directory "lost". Damage that is
	// found later Check reports as ever.
	AcceptDamage bool

	// Notice gets messages for the operator, a sentence each, that no caller
	// gets. May be nil.
	Notice func(string)

	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.Durability = cmp.Or(o.Durability, store.Power)
	if o.Dir == "" && o.Durability == store.Power {
		o.Durability = store.Process // a loss of power ends the process, too
	}
	o.Quota = cmp.Or(o.Quota, 10<<30)
	o.QuotaPerOwner = cmp.Or(o.QuotaPerOwner, 1<<30)
	o.Items = cmp.Or(o.Items, 65_536)
	o.ItemsPerOwner = cmp.Or(o.ItemsPerOwner, 16_384)
	o.QueueLength = cmp.Or(o.QueueLength, 4096)
	o.QueueOctets = cmp.Or(o.QueueOctets, 64<<20)
	o.Writers = cmp.Or(o.Writers, 8)
	o.Readers = cmp.Or(o.Readers, 8)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func (o *Options) validate() error {
	switch {
	case o.Records == nil:
		return errors.New("filestore: Options.Records is required")
	case o.Space == "" || len(o.partSpace()) > store.MaxSpace:
		return fmt.Errorf("filestore: Options.Space %q, want 1 to %d octets", o.Space, store.MaxSpace-len(partSuffix))
	case o.Durability != store.Power && o.Durability != store.Process:
		return fmt.Errorf("filestore: durability %q, want %q or %q", o.Durability, store.Power, store.Process)
	}
	for _, n := range []int64{
		o.Quota, o.QuotaPerOwner, int64(o.Items), int64(o.ItemsPerOwner), int64(o.QueueLength), int64(o.QueueOctets),
		int64(o.Writers), int64(o.Readers),
	} {
		if n < 1 {
			return fmt.Errorf("filestore: a bound of %d, want at least 1", n)
		}
	}
	return nil
}

const partSuffix = ".parts"

func (o *Options) partSpace() string { return o.Space + partSuffix }

// Store is an open engine. It is safe for concurrent use.
type Store struct {
	options Options // the bounds in it are held by mu
	dir     string
	lock    *os.File
	clock   clock
	damage  atomic.Pointer[error] // what was found first
	writers chan []byte           // slots; nil, or a buffer to be used again
	readers chan []byte
	probes  chan struct{} // one slot

	mu      sync.Mutex
	items   map[string]*item
	owners  map[string]*owner
	used    int64 // octets of all owners
	count   int   // their parts and blobs
	due     int64 // nothing is over before
	waiting int   // operations that are not done
	octets  int   // of those
	version uint64
	closed  bool
	work    sync.WaitGroup // goroutines of names, and the sweeper
	gone    chan struct{}  // closed with the beginning of Close

	closing sync.Once
	failure error // what Close returns
}

var _ store.Blobs = (*Store)(nil)

// buffer is how many octets are read or written at once.
const buffer = 16 * blockSize

// borrow takes a slot, waiting for it, and its buffer.
func borrow(slots chan []byte) []byte {
	if b := <-slots; b != nil {
		return b
	}
	return make([]byte, buffer)
}

func (s *Store) notice(format string, args ...any) {
	if s.options.Notice != nil {
		s.options.Notice("filestore: " + fmt.Sprintf(format, args...))
	}
}

// Close implements store.Blobs.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.mu.Lock()
		s.closed = true
		close(s.gone)
		s.mu.Unlock()
		s.work.Wait()
		_ = s.lock.Close() // nothing was written to it
		if s.options.Dir == "" {
			s.failure = os.RemoveAll(s.dir)
		}
	})
	return s.failure
}

// unavailable is a failure of the file system, for callers.
func unavailable(err error) error {
	if err == nil || errors.Is(err, store.ErrDamaged) {
		return err
	}
	return store.Unavailable(err)
}

// damaged notes damage. The first that is found Check repeats.
func (s *Store) damaged(name string, format string, args ...any) error {
	err := fmt.Errorf("%w: %s: %q: %w", store.ErrDamaged, s.dir, name, fmt.Errorf(format, args...))
	s.damage.CompareAndSwap(nil, &err)
	s.notice("%v", err)
	return err
}
