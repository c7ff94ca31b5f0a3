package filestore

import (
	"errors"
	"math"
	"os"
	"time"

	"github.com/slimwire/swp/store/internal/blocks"
)

// Seal implements store.Blobs.
func (s *Store) Seal(name string, sum [32]byte, keep time.Duration, done func(sealed bool, err error)) {
	s.submit(name, "", 0, operation{do: func(it *item, buf []byte) (bool, error) {
		r := it.live(s.clock.Now())
		if r == nil {
			return false, nil
		}
		switch same, err := s.verify(it, r, sum, buf); {
		case err != nil:
			return false, err
		case !same:
			return false, s.discard(it)
		}
		return true, s.seal(it, *r, keep)
	}}, done)
}

// verify reads the octets of a part that were not read before, and reports whether the
// checksum of all is sum. Damage on the medium changes the checksum.
func (s *Store) verify(it *item, r *record, sum [32]byte, buf []byte) (same bool, err error) {
	f, err := os.OpenFile(s.path(r.File), os.O_RDWR, 0)
	if err != nil {
		return false, unavailable(err)
	}
	defer func() { _ = f.Close() }() // synced below
	err = r.follow(&it.digest, f, buf, math.MaxUint64)
	if errors.Is(err, blocks.ErrSum) {
		s.notice("%q: %v: the part is discarded", it.name, err)
		return false, nil
	}
	if err != nil {
		it.digest = blocks.Digest{}
		return false, unavailable(err)
	}
	if it.digest.Sum() != sum {
		return false, nil
	}
	if !r.synced && s.options.Dir != "" {
		err = f.Sync()
	}
	return true, unavailable(err)
}

// seal makes a part the blob of its name. After a crash between the two commits a part and
// a blob have the same file; Open then drops the part.
func (s *Store) seal(it *item, r record, keep time.Duration) error {
	var err error
	if r.version, err = s.nextVersion(); err != nil {
		return err
	}
	r.written, r.expires, r.idle, r.synced = s.clock.Now(), s.clock.After(keep), 0, true
	if err = s.commit(it, blobRecord, &r); err != nil {
		return err
	}
	old := it.blob
	s.mu.Lock()
	it.part, it.blob, it.damaged = nil, &r, false
	s.mark(r.expires)
	s.mu.Unlock()
	it.digest = blocks.Digest{}
	if old != nil {
		s.drop(old)
	}
	_ = s.commit(it, partRecord, nil) // if it fails, the next operation repeats it
	return nil
}

// versionsAhead is how many versions are reserved at once: so many blobs are sealed for one more record
// that is written.
const versionsAhead = 1024

// nextVersion returns a version that no blob has had, also no blob that was removed before the store was
// opened.
func (s *Store) nextVersion() (uint64, error) {
	s.versions.Lock()
	defer s.versions.Unlock()
	if s.version == s.reserved {
		if err := s.reserve(s.version + versionsAhead); err != nil {
			return 0, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	return s.version, nil
}

// reserve stores that versions up to upTo may have been given: after Open, blobs get larger ones. The
// caller holds versions.
func (s *Store) reserve(upTo uint64) error {
	if err := s.commit(&s.counter, blobRecord, &record{version: upTo}); err != nil {
		return err
	}
	s.reserved = upTo
	return nil
}

// Remove implements store.Blobs.
func (s *Store) Remove(name string, was uint64, done func(removed bool, err error)) {
	s.submit(name, "", 0, operation{do: func(it *item, _ []byte) (bool, error) {
		if r := it.blob; r == nil || was != 0 && r.version != was {
			return false, nil
		}
		err := s.remove(it)
		return err == nil, err
	}}, done)
}

// remove removes the blob of an item, if there is one.
func (s *Store) remove(it *item) error {
	r := it.blob
	if r == nil {
		return nil
	}
	if err := s.commit(it, blobRecord, nil); err != nil {
		return err
	}
	s.mu.Lock()
	it.blob, it.damaged = nil, false
	s.mu.Unlock()
	s.drop(r)
	return nil
}
