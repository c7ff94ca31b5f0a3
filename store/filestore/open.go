package filestore

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
	"github.com/slimwire/swp/store/internal/clock"
	"github.com/slimwire/swp/store/internal/lines"
)

// lostDir is the subdirectory for unusable files that AcceptDamage keeps.
const lostDir = "lost"

// lockName is the file that locks the directory: another store would remove files that it
// does not know.
const lockName = "lock"

// Open opens or creates a store and removes what a crash left behind. An error
// store.ErrLocked names the lock, and store.ErrDamaged the file; store.ErrVersion means
// records of another release. After one of these errors nothing has changed.
func Open(ctx context.Context, options Options) (*Store, error) {
	s := &Store{
		options: options.withDefaults(), items: make(map[string]*item), due: math.MaxInt64,
		gone: make(chan struct{}),
	}
	s.SetBounds(options.BlobLimits)
	s.lines = lines.New(lines.Options[operation]{
		Length: s.options.QueueLength, Octets: s.options.QueueOctets, Together: maxBatch, Perform: s.perform, Owner: s.owner, Idle: s.forget,
	})
	err := s.options.validate()
	if err != nil {
		return nil, err
	}
	if s.options.Dir == "" {
		s.dir, err = os.MkdirTemp("", "swp-blobs-*")
	} else if s.dir, err = filepath.Abs(s.options.Dir); err == nil {
		err = os.MkdirAll(s.dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	if s.lock, err = disk.Acquire(filepath.Join(s.dir, lockName)); err != nil {
		err = fmt.Errorf("filestore: %w", err)
	} else if err = s.load(ctx); err != nil {
		_ = s.lock.Close()
	}
	if err != nil {
		if s.options.Dir == "" {
			_ = os.RemoveAll(s.dir)
		}
		return nil, err
	}
	s.writing = fair.NewSlots(s.options.Writers)
	s.writers, s.readers = make(chan []byte, s.options.Writers), make(chan []byte, s.options.Readers)
	s.probes = make(chan struct{}, 1)
	for range s.options.Writers {
		s.writers <- nil
	}
	for range s.options.Readers {
		s.readers <- nil
	}
	s.work.Go(s.sweeper)
	return s, nil
}

// load reads the records and compares them with the files. If something is damaged and
// damage is not accepted, it changes no valid data.
func (s *Store) load(ctx context.Context) error {
	forget, left, err := s.loadRecords(ctx)
	if err != nil {
		return fmt.Errorf("filestore: %w", err)
	}
	known := make(map[blocks.ID]bool)
	var buf []byte // with AcceptDamage: for reading all files
	if s.options.AcceptDamage {
		buf = make([]byte, blocks.Buffer)
	}
	for _, it := range s.items {
		if it.part != nil && it.blob != nil && it.part.File == it.blob.File {
			it.part = nil // it was sealed: the blob has its file
			forget = append(forget, func() error { return s.commit(it, partRecord, nil) })
		}
		for which, r := range []*record{it.part, it.blob} {
			if r == nil {
				continue
			}
			switch err := s.fit(ctx, r, buf); {
			case err == nil:
				known[r.File] = true
				s.used.Charge(r.owner, int64(r.Size), 1)
				s.mark(r.expires)
				continue
			case !errors.Is(err, blocks.ErrSum):
				return unavailable(err)
			case which == partRecord && r.held() == 0:
				// The part has no octets yet, and its Begin may have failed.
			case which == blobRecord || r.synced:
				// Its existence was acknowledged.
				if err = s.damaged(it.name, "file %s: %w", r.File, err); !s.options.AcceptDamage {
					return err
				}
				left[which]++
			default:
				s.notice("%q: file %s: %v: what was not synced ended with the machine", it.name, r.File, err)
			}
			forget = append(forget, func() error { return s.commit(it, which, nil) })
			if which == partRecord {
				it.part = nil
			} else {
				it.blob = nil
			}
		}
	}
	for _, commit := range forget {
		if err := commit(); err != nil {
			return fmt.Errorf("filestore: %w", err)
		}
	}
	for name, it := range s.items {
		if it.empty() {
			delete(s.items, name)
		}
	}
	if n := left[partRecord] + left[blobRecord]; n > 0 {
		s.notice("%s: %d blobs and %d unfinished parts that are damaged were left out, as was accepted; what is left of their files is kept in %s",
			s.dir, left[blobRecord], left[partRecord], lostDir)
		s.damage.Store(nil) // the damaged entries are no longer in the store
	}
	return s.tidy(known)
}

// loadRecords reads the records and starts the clock. With AcceptDamage the returned
// functions remove unreadable records, and left is their number.
func (s *Store) loadRecords(ctx context.Context) (forget []func() error, left [2]int, err error) {
	latest := int64(0)
	read := func(it *item, which int, version uint64, value []byte) error {
		it.stored[which] = version
		r, err := decodeRecord(value)
		switch {
		case errors.Is(err, store.ErrVersion):
			return fmt.Errorf("%w: %s: the record of %q", err, s.dir, it.name)
		case err != nil:
			if err = s.damaged(it.name, "%w", err); !s.options.AcceptDamage {
				return err
			}
			forget = append(forget, func() error { return s.commit(it, which, nil) })
			if it != &s.counter {
				left[which]++
			}
			return nil
		case which == partRecord:
			it.part = r
		default:
			it.blob = r
		}
		latest = max(latest, r.written)
		s.version = max(s.version, r.version)
		return nil
	}
	for which := range 2 {
		var bad error
		err = s.options.Records.Scan(ctx, s.space(which), "", "", func(name string, version uint64, value []byte) bool {
			bad = read(s.item(name), which, version, value)
			return bad == nil
		})
		if err = cmp.Or(err, bad); err != nil {
			return nil, left, err
		}
	}
	// The empty name is not greater than itself: Scan does not return this record.
	version, value, err := s.options.Records.Get(ctx, s.options.Space, s.counter.name)
	if err == nil && version != 0 {
		err = read(&s.counter, blobRecord, version, value)
	}
	if err != nil {
		return nil, left, err
	}
	s.reserved = s.version
	s.clock = clock.New(s.options.Now, latest)
	return forget, left, nil
}

// fit truncates a file to the length in its record. A shorter or missing file is blocks.ErrSum.
// With a buffer it also verifies the checksums.
func (s *Store) fit(ctx context.Context, r *record, buf []byte) error {
	info, err := os.Stat(s.path(r.File))
	switch want := blocks.Place(r.Size); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: it is missing", blocks.ErrSum)
	case err != nil:
		return err
	case info.Size() < want:
		return fmt.Errorf("%w: it has %d octets, want %d", blocks.ErrSum, info.Size(), want)
	case info.Size() > want:
		err = os.Truncate(s.path(r.File), want)
	}
	if err != nil || buf == nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := os.Open(s.path(r.File))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it is read
	if err = r.Walk(f, 0, r.Size, buf, func([]byte) {}); err != nil && !errors.Is(err, blocks.ErrSum) {
		err = fmt.Errorf("%w: %w", blocks.ErrSum, err) // unreadable octets count as damaged
	}
	return err
}

// tidy removes files without a record.
func (s *Store) tidy(known map[blocks.ID]bool) error {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return unavailable(err)
	}
	for _, file := range files {
		id, err := hex.DecodeString(file.Name())
		if err != nil || len(id) != len(blocks.ID{}) || known[blocks.ID(id)] {
			continue // another kind of file, or in use
		}
		path := filepath.Join(s.dir, file.Name())
		if !s.options.AcceptDamage {
			err = os.Remove(path)
		} else if err = os.MkdirAll(filepath.Join(s.dir, lostDir), 0o700); err == nil {
			// It may belong to a record that was lost.
			err = os.Rename(path, filepath.Join(s.dir, lostDir, file.Name()))
			s.notice("%s: nothing is known of it; it is kept in %s", path, lostDir)
		}
		if err != nil {
			return unavailable(err)
		}
	}
	return nil
}
