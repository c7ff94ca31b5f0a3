// Package filestore stores blobs as files, and their metadata in a database.
//
// A part and the blob that it becomes are the same file. The file has a random name: no
// input of a caller becomes part of a path. A record in the database has the name, the
// owner, the valid length and the expiry. Octets are written and synced before the record
// counts them. After a crash, octets beyond the valid length are cut off, and files without
// a record are removed.
//
// Each name with pending operations has a goroutine. It batches the appends that arrived
// during the last write, so that one fsync and one record serve many acknowledgements. It
// computes the SHA-256 of the file on the medium while the record is committed.
//
// A Store assumes one process that uses its directory and its records, and locks the
// directory.
package filestore

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
	"github.com/slimwire/swp/store/internal/clock"
	"github.com/slimwire/swp/store/internal/lines"
	"github.com/slimwire/swp/store/internal/usage"
)

// Options configure a Store. Records and Space are required.
type Options struct {
	// Records stores the metadata. Close does not close it.
	Records store.Records

	// Space is the space for the records of blobs; the space with the suffix ".parts" has
	// the records of parts. Nothing else may use either.
	Space string

	// Dir is the directory of the files, created if it is missing. It must always be used
	// with the same Records. Empty means a temporary directory, which Close removes and in
	// which nothing is synced.
	Dir string

	// Durability is the durability of an acknowledgement; default store.Power. It should
	// equal that of Records. The octets of sealed blobs are synced in any case.
	Durability store.Durability

	store.BlobLimits // the names of parts and blobs are held in memory

	// QueueLength and QueueOctets limit the pending operations; default 4,096 operations
	// and 64 MiB, which owners share. A single operation of any size is accepted.
	QueueLength, QueueOctets int

	// Writers is the number of names that are written concurrently, Readers the number of
	// concurrent reads; default 8 each. Each uses a buffer of 1 MiB.
	Writers, Readers int

	// AcceptDamage opens the store although records are unreadable or files are missing or
	// truncated; otherwise Open fails. It reads all files. Damaged entries are removed from
	// the store and reported to Notice by name; their files, and files without a record,
	// are moved to the directory "lost". Check still reports damage found later.
	AcceptDamage bool

	// Notice receives messages for the operator that no caller receives, one sentence each.
	// May be nil.
	Notice func(string)

	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.Durability = cmp.Or(o.Durability, store.Power)
	if o.Dir == "" && o.Durability == store.Power {
		o.Durability = store.Process // memory does not survive a power cut anyway
	}
	o.BlobLimits = o.WithDefaults()
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
	options Options
	dir     string
	lock    *disk.Lock
	clock   *clock.Clock
	damage  atomic.Pointer[error] // the first damage found
	lines   *lines.Lines[operation]
	writing *fair.Slots // for writers
	writers chan []byte // slots; each is nil or a buffer for reuse
	readers chan []byte
	probes  chan struct{} // one slot
	sweeps  sync.Mutex    // held by a sweep; locked before mu

	versions sync.Mutex // locked before mu
	reserved uint64     // the largest version that can be given without reserve; versions guards it
	counter  item       // its blob record, with an empty name, has reserved as its version; versions guards it

	mu      sync.Mutex
	items   map[string]*item
	used    usage.Usage
	due     int64  // nothing expires before
	version uint64 // the last one given; nextVersion holds versions too
	closed  bool
	work    sync.WaitGroup // exports, and the sweeper
	gone    chan struct{}  // closed when Close begins

	closing sync.Once
	failure error // result of Close
}

var _ store.Blobs = (*Store)(nil)

// borrow waits for a slot and returns its buffer.
func borrow(slots chan []byte) []byte {
	if b := <-slots; b != nil {
		return b
	}
	return make([]byte, blocks.Buffer)
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
		s.lines.Close()
		s.work.Wait()
		_ = s.lock.Close() // it is only locked, never written
		if s.options.Dir == "" {
			s.failure = os.RemoveAll(s.dir)
		}
	})
	return s.failure
}

func unavailable(err error) error {
	if err == nil || errors.Is(err, store.ErrDamaged) {
		return err
	}
	return store.Unavailable(err)
}

// damaged records damage. Check reports the first that was found.
func (s *Store) damaged(name string, format string, args ...any) error {
	err := fmt.Errorf("%w: %s: %q: %w", store.ErrDamaged, s.dir, name, fmt.Errorf(format, args...))
	s.damage.CompareAndSwap(nil, &err)
	s.notice("%v", err)
	return err
}
