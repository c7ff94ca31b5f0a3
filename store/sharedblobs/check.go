package sharedblobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
)

// The object that names the records of the other objects, and the record with the same octets.
// A store with other records would remove all objects as unknown.
const (
	markKey      = "store"
	identityName = "identity"
	markBegin    = "swp-blobs-1 "
)

// probes begins the keys of the objects that Check writes, one for each process.
const probes = "probes/"

func (s *Store) probeKey() string { return probes + s.process.String() }

// Check implements store.Blobs.
func (s *Store) Check(ctx context.Context) error {
	if found := s.damage.Load(); found != nil {
		return *found
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	want := random()
	if err := s.options.Objects.Put(ctx, s.probeKey(), want[:]); err != nil {
		return unavailable(err)
	}
	var got blocks.ID
	if _, err := s.options.Objects.ReadAt(ctx, s.probeKey(), got[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return unavailable(err)
	}
	if got != want {
		return fmt.Errorf("%w: %s: an object that was just written is another one", store.ErrUnavailable, s.options.Objects)
	}
	if err := s.belongs(ctx); err != nil {
		return err
	}
	return s.accounts.do(func(*ledger) error { return nil }, nil)
}

// belongs returns an error if the objects do not belong to the records, for example because a
// file system is not mounted. It returns nil if they are.
func (s *Store) belongs(ctx context.Context) error {
	mark, err := readMark(ctx, s.options.Objects)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s has no object %q: these are not the objects of this store", store.ErrUnavailable, s.options.Objects, markKey)
	case err != nil:
		return unavailable(err)
	case !bytes.Equal(mark, s.identity):
		return fmt.Errorf("%w: %s", errOthers, s.options.Objects)
	}
	return nil
}

var errOthers = fmt.Errorf("%w: the objects belong to other records", store.ErrLocked)

// readMark returns the content of the object markKey.
func readMark(ctx context.Context, objects Objects) ([]byte, error) {
	mark := make([]byte, len(markBegin)+2*len(blocks.ID{}))
	n, err := objects.ReadAt(ctx, markKey, mark, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return mark[:n], err
}

// Unused returns store.ErrUsed if a store has used the objects.
func Unused(ctx context.Context, objects Objects) error {
	switch _, err := readMark(ctx, objects); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return unavailable(err)
	}
	return fmt.Errorf("%w: %s", store.ErrUsed, objects)
}
