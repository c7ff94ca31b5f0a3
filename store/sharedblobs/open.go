package sharedblobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
	"github.com/slimwire/swp/store/internal/clock"
	"github.com/slimwire/swp/store/internal/lines"
)

// Open opens a store, and creates it the first time. Each process that shares it opens it
// with the same Records, Space and Objects. The error is store.ErrLocked if the objects
// belong to other records, store.ErrDamaged if the objects or the record of usage are not
// there although there are blobs, and store.ErrVersion if the records are of another release.
// After an error nothing has changed, and the caller closes Objects.
func Open(ctx context.Context, options Options) (*Store, error) {
	o := options.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Store{
		options: o, process: random(), damaged: make(map[string]uint64), pinned: make(map[blocks.ID]*pins), owners: make(map[string]string),
		writing: fair.NewSlots(o.Writers), writers: make(chan *sheet, o.Writers), readers: make(chan []byte, o.Readers),
	}
	for range o.Writers {
		s.writers <- nil
	}
	for range o.Readers {
		s.readers <- nil
	}
	s.accounts = &accounts{
		records: o.Records, space: o.stateSpace(), id: s.process, lapse: o.lapse, bounds: o.BlobLimits,
		written: time.Now(), wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("sharedblobs: %w", err)
	}
	s.lines = lines.New(lines.Options[operation]{
		Length: o.QueueLength, Octets: o.QueueOctets, Together: 2 * fullSize, Perform: s.perform, Owner: s.owner,
	})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.accounts.run()
	s.work.Go(s.sweeper)
	return s, nil
}

// open compares the records with the objects.
func (s *Store) open(ctx context.Context) error {
	state := s.options.stateSpace()
	version, value, err := s.options.Records.Get(ctx, state, ledgerName)
	if err != nil {
		return unavailable(err)
	}
	used := false
	if version != 0 {
		l, err := decodeLedger(value)
		if err != nil {
			return damagedRecord(state, ledgerName, err)
		}
		used = l.used
		s.clock = clock.New(s.options.Now, l.clock)
	} else {
		s.clock = clock.New(s.options.Now, 0)
		if err := s.empty(ctx); err != nil {
			return err
		}
	}
	s.accounts.clock = s.clock
	if version, s.identity, err = s.options.Records.Get(ctx, state, identityName); err != nil {
		return unavailable(err)
	}
	mark, err := readMark(ctx, s.options.Objects)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case err != nil && !missing:
		return unavailable(err)
	case !missing && version == 0, !missing && !bytes.Equal(mark, s.identity):
		return fmt.Errorf("%w: %s", errOthers, s.options.Objects)
	case !missing:
		return nil
	case used:
		return fmt.Errorf("%w: %s has no object %q: these are not the objects of this store", store.ErrDamaged, s.options.Objects, markKey)
	}
	return s.mark(ctx, version)
}

// empty returns an error if there are records of names.
func (s *Store) empty(ctx context.Context) (err error) {
	scanned := s.options.Records.Scan(ctx, s.options.Space, "", "", func(name string, _ uint64, _ []byte) bool {
		err = fmt.Errorf("%w: the record of usage is gone, and %q is there", store.ErrDamaged, name)
		return false
	})
	if scanned != nil {
		return unavailable(scanned)
	}
	return err
}

// mark makes the record of the identity, if it is missing, and then the object with it.
func (s *Store) mark(ctx context.Context, version uint64) error {
	if version == 0 {
		identity := []byte(markBegin + random().String())
		switch r := put(s.options.Records, s.options.stateSpace(), identityName, 0, identity, time.Time{}); {
		case r.Err != nil:
			return r.Err
		case r.Wrote:
			s.identity = identity
		default:
			s.identity = r.Current // another process was first
		}
	}
	made, err := s.options.Objects.Create(ctx, markKey, s.identity)
	if err != nil {
		return unavailable(err)
	}
	if !made {
		return s.belongs(ctx)
	}
	return nil
}
