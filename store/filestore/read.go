package filestore

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
	"github.com/slimwire/swp/store/internal/lines"
)

// ReadAt implements store.Blobs.
func (s *Store) ReadAt(ctx context.Context, name string, version uint64, p []byte, at uint64) (n int, found bool, err error) {
	r := s.blob(name)
	if r == nil || r.version != version {
		return 0, false, s.whyMissing(name, version)
	}
	from := lines.AddUp(uint64(r.note), at)
	return s.read(ctx, name, r, p, from, min(lines.AddUp(from, uint64(len(p))), r.Size))
}

// Note implements store.Blobs.
func (s *Store) Note(ctx context.Context, name string, version uint64) (note []byte, found bool, err error) {
	r := s.blob(name)
	if r == nil || r.version != version {
		return nil, false, s.whyMissing(name, version)
	}
	note = make([]byte, r.note)
	_, found, err = s.read(ctx, name, r, note, 0, uint64(r.note))
	return note, found, err
}

// whyMissing returns ErrDamaged if the blob exists but is damaged, otherwise nil.
func (s *Store) whyMissing(name string, version uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.items[name]; it != nil && it.damaged && it.blob != nil && it.blob.version == version {
		return store.ErrDamaged
	}
	return nil
}

// read copies octets of a file to p and verifies them.
func (s *Store) read(ctx context.Context, name string, r *record, p []byte, from, to uint64) (n int, found bool, err error) {
	var buf []byte
	select {
	case <-s.gone:
		return 0, false, store.ErrClosed
	default:
	}
	select {
	case <-s.gone:
		return 0, false, store.ErrClosed
	case <-ctx.Done():
		return 0, false, ctx.Err()
	case buf = <-s.readers:
	}
	if buf == nil {
		buf = make([]byte, blocks.Buffer)
	}
	defer func() { s.readers <- buf }()
	f, err := os.Open(s.path(r.File))
	if err == nil {
		err = r.Walk(f, from, to, buf, func(data []byte) { n += copy(p[n:], data) })
		_ = f.Close()
	}
	switch {
	case err == nil:
		return n, true, nil
	case !errors.Is(err, blocks.ErrSum) && !errors.Is(err, fs.ErrNotExist):
		return 0, false, unavailable(err)
	}
	s.mu.Lock()
	it := s.items[name]
	same := it != nil && it.blob == r
	if same {
		it.damaged = true
	}
	s.mu.Unlock()
	if !same {
		return 0, false, nil // removed or replaced during the read
	}
	return 0, false, s.damaged(name, "file %s: %w", r.File, err)
}

// Scan implements store.Blobs.
func (s *Store) Scan(ctx context.Context, prefix, after string, yield func(store.BlobInfo) bool) error {
	return s.options.Records.Scan(ctx, s.options.Space, prefix, after, func(name string, _ uint64, _ []byte) bool {
		r := s.blob(name) // the current version, which may be newer
		return r == nil || yield(r.info(name))
	})
}
