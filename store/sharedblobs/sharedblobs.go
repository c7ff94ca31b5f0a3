// Package sharedblobs is an engine of store.Blobs that several processes share: octets are
// objects in an S3-compatible bucket or files in a shared directory, metadata are records.
//
// The record of a name says which objects have the octets of its part and of its blob. A
// process replaces it by compare-and-set, so that of two processes that change a name one
// succeeds, and the other tries again. Objects are written before the record names them,
// and removed after no record names them any more. A crash between leaves objects without a
// record, which every process looks for once an hour.
//
// An Append is one object, of the octets that waited for the one before it. It is
// acknowledged when the medium has confirmed the object and the record names it. Small
// objects are joined to larger ones, up to about 8 MiB, at a later Append. An upload of S3 in
// parts is not used: its octets could be read, and the digest of them verified, only after
// they are complete, all parts but the last need 5 MiB, and a directory has nothing like it.
// Objects consist of blocks with checksums, which are verified at each read.
//
// Versions, marks and quotas are exact between processes: see ledger. Expiry follows the
// clock of the process that looks, so the clocks of machines should agree.
package sharedblobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
	"github.com/slimwire/swp/store/internal/clock"
	"github.com/slimwire/swp/store/internal/lines"
)

// Options configure a Store. Records, Space and Objects are required.
type Options struct {
	// Records stores the metadata; all processes use the same. Close does not close it. An
	// acknowledgement is as durable as a record.
	Records store.Records

	// Space is the space for the records of names; the space with the suffix ".state" has what
	// belongs to all names. Nothing else may use either.
	Space string

	// Objects is where the octets are; always the same for the same Records and Space. Close
	// closes it.
	Objects Objects

	// All processes should have the same limits: each applies its own ones to the usage of all.
	store.BlobLimits

	// QueueLength and QueueOctets limit the pending operations of this process; default 4,096
	// operations and 64 MiB, which owners share. A single operation of any size is accepted.
	QueueLength, QueueOctets int

	// Writers is the number of names that are written concurrently, Readers the number of
	// concurrent reads; default 8 each. A writer uses up to 9 MiB, a reader 1 MiB.
	Writers, Readers int

	// Timeout limits an operation of this process, including its repetitions after another
	// process has changed the name; default 1 minute. An operation that seals or merges reads
	// and writes at most 16 MiB.
	Timeout time.Duration

	// Notice receives messages for the operator that no caller receives, one sentence each.
	// May be nil.
	Notice func(string)

	// Now is the clock; default time.Now.
	Now func() time.Time

	lapse time.Duration // without a write after which a process counts as ended
}

func (o Options) withDefaults() Options {
	o.BlobLimits = o.WithDefaults()
	o.QueueLength = cmp.Or(o.QueueLength, 4096)
	o.QueueOctets = cmp.Or(o.QueueOctets, 64<<20)
	o.Writers = cmp.Or(o.Writers, 8)
	o.Readers = cmp.Or(o.Readers, 8)
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	o.lapse = cmp.Or(o.lapse, 2*time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func (o *Options) validate() error {
	switch {
	case o.Records == nil:
		return errors.New("sharedblobs: Options.Records is required")
	case o.Objects == nil:
		return errors.New("sharedblobs: Options.Objects is required")
	case o.Space == "" || len(o.stateSpace()) > store.MaxSpace:
		return fmt.Errorf("sharedblobs: Options.Space %q, want 1 to %d octets", o.Space, store.MaxSpace-len(stateSuffix))
	case o.Timeout > maxTimeout:
		return fmt.Errorf("sharedblobs: Options.Timeout is %v, want at most %v", o.Timeout, maxTimeout)
	}
	for _, n := range []int64{
		o.Quota, o.QuotaPerOwner, int64(o.Items), int64(o.ItemsPerOwner), int64(o.QueueLength), int64(o.QueueOctets),
		int64(o.Writers), int64(o.Readers), int64(o.Timeout),
	} {
		if n < 1 {
			return fmt.Errorf("sharedblobs: a bound of %d, want at least 1", n)
		}
	}
	return nil
}

const stateSuffix = ".state"

func (o *Options) stateSpace() string { return o.Space + stateSuffix }

// Spaces returns the spaces of Options.Records that a store with this Space uses.
func Spaces(space string) []string {
	o := Options{Space: space}
	return []string{o.Space, o.stateSpace()}
}

// Store is an open engine. It is safe for concurrent use.
type Store struct {
	options  Options
	clock    *clock.Clock
	process  blocks.ID // random
	identity []byte    // of the records, and of the objects that belong to them
	accounts *accounts
	lines    *lines.Lines[operation]
	damage   atomic.Pointer[error] // the first damage found
	writing  *fair.Slots           // for writers
	writers  chan *sheet           // slots; each is nil or a buffer for reuse
	readers  chan []byte
	sweeps   sync.Mutex // held by a sweep

	ctx    context.Context // ends when Close begins
	cancel context.CancelFunc
	work   sync.WaitGroup // the sweeper, exports and imports

	mu      sync.Mutex
	damaged map[string]uint64   // versions of damaged blobs, by name
	pinned  map[blocks.ID]*pins // groups that an export reads

	ownersMu sync.Mutex
	owners   map[string]string // of parts, by name

	closing sync.Once
}

var _ store.Blobs = (*Store)(nil)

// borrow waits for a slot and returns its buffer.
func borrow(ctx context.Context, slots chan []byte) ([]byte, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case b := <-slots:
		if b == nil {
			b = make([]byte, blocks.Buffer)
		}
		return b, nil
	}
}

func (s *Store) notice(format string, args ...any) {
	if s.options.Notice != nil {
		s.options.Notice("sharedblobs: " + fmt.Sprintf(format, args...))
	}
}

// Close implements store.Blobs.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.mu.Lock() // for enter
		s.cancel()
		s.mu.Unlock()
		s.lines.Close()
		s.work.Wait()
		s.accounts.close()
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		_ = s.options.Objects.Delete(ctx, s.probeKey()) // otherwise a later search finds it
		_ = s.options.Objects.Close()
	})
	return nil
}

// closeTime limits what Close does after the last operation.
const closeTime = 2 * time.Second

// SetBounds changes the limits of this process. Data above a new limit stays.
func (s *Store) SetBounds(l store.BlobLimits) { s.accounts.setBounds(l.WithDefaults()) }

// Pools returns who uses the octets and the number of artifacts, as of the last write of this
// process, and whose writes wait in this process.
func (s *Store) Pools() []fair.Pool {
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	return append(s.accounts.pools[:len(s.accounts.pools):len(s.accounts.pools)], s.lines.Pool("artifact writes"))
}

// unavailable is for the errors of Records and Objects. Nil stays nil.
func unavailable(err error) error {
	if _, known := errors.AsType[*store.Error](err); known || err == nil {
		return err
	}
	return store.Unavailable(err)
}

// isDamaged records damage of a blob. Check reports the first that was found.
func (s *Store) isDamaged(name string, err error) error {
	err = fmt.Errorf("%w: %s: %q: %w", store.ErrDamaged, s.options.Objects, name, err)
	s.damage.CompareAndSwap(nil, &err)
	s.notice("%v", err)
	return err
}

func random() (id blocks.ID) {
	_, _ = rand.Read(id[:]) // never returns an error
	return id
}
