package sharedblobs

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
	"github.com/slimwire/swp/store/internal/lines"
)

// Part implements store.Blobs. It waits for the records, see Blob.
func (s *Store) Part(ctx context.Context, name string) (p store.PartInfo, found bool, err error) {
	e, err := s.look(ctx, name)
	if err != nil {
		return p, false, err
	}
	if c := e.live(s.clock.Now()); c != nil {
		return store.PartInfo{Held: c.held(), Mark: c.mark, Tag: c.tag}, true, nil
	}
	return p, false, nil
}

// Blob implements store.Blobs. It waits for the records, because only they know what other
// processes have done.
func (s *Store) Blob(ctx context.Context, name string) (b store.BlobInfo, found bool, err error) {
	e, err := s.look(ctx, name)
	if err != nil {
		return b, false, err
	}
	if c := s.intact(name, e); c != nil {
		return c.info(name), true, nil
	}
	return b, false, nil
}

func (c *content) info(name string) store.BlobInfo {
	return store.BlobInfo{Name: name, Version: c.version, Size: c.held(), Mark: c.mark, Sealed: time.Unix(0, c.written), Tag: c.tag}
}

// look reads the entry of a name.
func (s *Store) look(ctx context.Context, name string) (*entry, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	_, e, err := s.load(ctx, name)
	return e, s.ended(err)
}

// intact returns the blob of an entry; nil if it is missing, has expired or is known to be
// damaged.
func (s *Store) intact(name string, e *entry) *content {
	c := e.kept(s.clock.Now())
	if c == nil || s.knownDamaged(name, c.version) {
		return nil
	}
	return c
}

func (s *Store) knownDamaged(name string, version uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damaged[name] == version
}

// ReadAt implements store.Blobs.
func (s *Store) ReadAt(ctx context.Context, name string, version uint64, p []byte, at uint64) (n int, found bool, err error) {
	return s.read(ctx, name, version, func(c *content) (p2 []byte, from, to uint64) {
		from = lines.AddUp(uint64(c.note), at)
		return p, from, min(lines.AddUp(from, uint64(len(p))), c.size())
	})
}

// Note implements store.Blobs.
func (s *Store) Note(ctx context.Context, name string, version uint64) (note []byte, found bool, err error) {
	_, found, err = s.read(ctx, name, version, func(c *content) ([]byte, uint64, uint64) {
		note = make([]byte, c.note)
		return note, 0, uint64(c.note)
	})
	if !found {
		note = nil
	}
	return note, found, err
}

// read copies octets of a blob and verifies them. place says which, and whereto.
func (s *Store) read(ctx context.Context, name string, version uint64, place func(c *content) (p []byte, from, to uint64)) (n int, found bool, err error) {
	if s.ctx.Err() != nil {
		return 0, false, store.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	c, err := s.blob(ctx, name, version)
	if c == nil || err != nil {
		return 0, false, s.ended(err)
	}
	buf, err := borrow(ctx, s.readers)
	if err != nil {
		return 0, false, s.ended(err)
	}
	defer func() { s.readers <- buf }()
	p, from, to := place(c)
	err = s.walk(ctx, c, from, to, buf, func(data []byte) { n += copy(p[n:], data) })
	switch {
	case err == nil:
		return n, true, nil
	case !errors.Is(err, blocks.ErrSum) && !errors.Is(err, fs.ErrNotExist):
		return 0, false, s.ended(unavailable(err))
	}
	if again, other := s.blob(ctx, name, version); again == nil || other != nil {
		return 0, false, s.ended(other) // removed or replaced during the read
	}
	if other := s.belongs(ctx); other != nil {
		return 0, false, s.ended(other)
	}
	s.mu.Lock()
	if len(s.damaged) < maxDamaged {
		s.damaged[name] = version
	}
	s.mu.Unlock()
	return 0, false, s.isDamaged(name, err)
}

// maxDamaged is how many damaged blobs are remembered. Others are found again at each read.
const maxDamaged = 1024

// blob returns the blob of a name with a version, or nil.
func (s *Store) blob(ctx context.Context, name string, version uint64) (*content, error) {
	_, e, err := s.load(ctx, name)
	if err != nil {
		return nil, err
	}
	switch c := e.kept(s.clock.Now()); {
	case c == nil || c.version != version:
		return nil, nil
	case s.knownDamaged(name, version):
		return nil, store.ErrDamaged
	default:
		return c, nil
	}
}

// ended returns the error of an operation, which is ErrClosed after the begin of Close.
func (s *Store) ended(err error) error {
	if err != nil && s.ctx.Err() != nil {
		return store.ErrClosed
	}
	return err
}

// Scan implements store.Blobs.
func (s *Store) Scan(ctx context.Context, prefix, after string, yield func(store.BlobInfo) bool) error {
	var bad error
	err := s.options.Records.Scan(ctx, s.options.Space, prefix, after, func(name string, _ uint64, value []byte) bool {
		e, err := decodeEntry(value)
		if err != nil {
			bad = damagedRecord(s.options.Space, name, err)
			return false
		}
		c := s.intact(name, e)
		return c == nil || yield(c.info(name))
	})
	if bad != nil {
		return bad
	}
	return err
}
