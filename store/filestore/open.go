package filestore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// lostDir is where files are kept, in the directory of a store, that can not be
// used but were asked to be gone on without.
const lostDir = "lost"

// Open opens a store, or makes it. What a crash has left over is removed. An error
// that is store.ErrDamaged names the file; nothing was changed then.
func Open(ctx context.Context, options Options) (*Store, error) {
	s := &Store{
		options: options.withDefaults(), items: make(map[string]*item), owners: make(map[string]*owner), due: math.MaxInt64,
		gone: make(chan struct{}),
	}
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
	if err = s.load(ctx); err != nil {
		if s.options.Dir == "" {
			_ = os.RemoveAll(s.dir)
		}
		return nil, err
	}
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

// load reads the records and holds them against the files. Unless all is well, or
// damage is accepted, nothing that counts is changed.
func (s *Store) load(ctx context.Context) error {
	latest := int64(0)
	for which := range 2 {
		var bad error
		err := s.options.Records.Scan(ctx, s.space(which), "", "", func(name string, version uint64, value []byte) bool {
			var r *record
			if r, bad = decodeRecord(value); bad != nil {
				bad = s.damaged(name, "%w", bad)
				return false
			}
			it := s.item(name)
			it.stored[which] = version
			if which == partRecord {
				it.part = r
			} else {
				it.blob = r
			}
			latest = max(latest, r.written)
			s.version = max(s.version, r.version)
			return true
		})
		if err == nil {
			err = bad
		}
		if err != nil {
			return fmt.Errorf("filestore: %w", err)
		}
	}
	s.clock.begin(s.options.Now, latest)
	known := make(map[fileID]bool)
	var lost []func() error
	for _, it := range s.items {
		if it.part != nil && it.blob != nil && it.part.file == it.blob.file {
			it.part = nil // it was sealed
			lost = append(lost, func() error { return s.commit(it, partRecord, nil) })
		}
		for which, r := range []*record{it.part, it.blob} {
			if r == nil {
				continue
			}
			switch err := s.fit(r); {
			case err == nil:
				known[r.file] = true
				s.charge(r.owner, int64(r.size), 1)
				s.mark(r.expires)
				continue
			case !errors.Is(err, errSum):
				return unavailable(err)
			case which == partRecord && r.held() == 0:
				// It has nothing yet, and its Begin may have failed.
			case which == blobRecord || r.synced:
				// That it is there was promised.
				if err = s.damaged(it.name, "file %s: %w", r.file, err); !s.options.AcceptDamage {
					return err
				}
			default:
				s.notice("%q: file %s: %v: what was not synced ended with the machine", it.name, r.file, err)
			}
			lost = append(lost, func() error { return s.commit(it, which, nil) })
			if which == partRecord {
				it.part = nil
			} else {
				it.blob = nil
			}
		}
	}
	for _, forget := range lost {
		if err := forget(); err != nil {
			return fmt.Errorf("filestore: %w", err)
		}
	}
	for name, it := range s.items {
		if it.empty() {
			delete(s.items, name)
		}
	}
	return s.tidy(known)
}

// fit cuts off what of a file goes beyond its record. A file that is shorter, or
// not there, is errSum.
func (s *Store) fit(r *record) error {
	info, err := os.Stat(s.path(r.file))
	switch want := place(r.size); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: it is missing", errSum)
	case err != nil:
		return err
	case info.Size() < want:
		return fmt.Errorf("%w: it has %d octets, want %d", errSum, info.Size(), want)
	case info.Size() > want:
		return os.Truncate(s.path(r.file), want)
	}
	return nil
}

// tidy removes the files that nothing is known of.
func (s *Store) tidy(known map[fileID]bool) error {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return unavailable(err)
	}
	for _, file := range files {
		id, err := hex.DecodeString(file.Name())
		if err != nil || len(id) != len(fileID{}) || known[fileID(id)] {
			continue // not one of ours, or in use
		}
		path := filepath.Join(s.dir, file.Name())
		if !s.options.AcceptDamage {
			err = os.Remove(path)
		} else if err = os.MkdirAll(filepath.Join(s.dir, lostDir), 0o700); err == nil {
			// What belongs to it may be what was lost of the records.
			err = os.Rename(path, filepath.Join(s.dir, lostDir, file.Name()))
			s.notice("%s: nothing is known of it; it is kept in %s", path, lostDir)
		}
		if err != nil {
			return unavailable(err)
		}
	}
	return nil
}
