package sharedblobs

import (
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
)

var (
	_ store.Exporter = (*Store)(nil)
	_ store.Importer = (*Store)(nil)
)

// Export implements store.Exporter. A blob or part that is replaced or removed during the export
// is exported in its later state. If another process removes one while it is read, the export
// fails with store.ErrUnavailable. The records of the store are not included: an export of
// Options.Records should leave out the spaces that Spaces returns.
func (s *Store) Export(ctx context.Context, yield func(store.Piece) error) error {
	if !s.enter() {
		return store.ErrClosed
	}
	defer s.work.Done()
	l, err := s.ledger(ctx)
	if err != nil {
		return s.ended(err)
	}
	buf, err := borrow(ctx, s.readers)
	if err != nil {
		return err
	}
	defer func() { s.readers <- buf }()
	x := &exporting{s: s, ctx: ctx, yield: store.Yielding(ctx, s.ctx.Done(), yield), buf: buf, now: s.clock.Now()}
	if err := x.yield(&store.Start{Clock: uint64(x.now), Versions: l.versions}); err != nil {
		return err
	}
	return s.each(ctx, func(name string, _ *entry) error { return x.name(name) })
}

// enter begins an export or import, for which Close waits.
func (s *Store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.work.Add(1)
	return true
}

// exporting is an export.
type exporting struct {
	s     *Store
	ctx   context.Context
	yield func(store.Piece) error
	buf   []byte
	now   int64
}

// name exports the blob and the part of a name.
func (x *exporting) name(name string) error {
	e, release, err := x.pinned(name)
	if err != nil {
		return err
	}
	defer release()
	for _, c := range []*content{e.kept(x.now), e.live(x.now)} {
		if c != nil {
			if err := x.content(name, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// pinned returns the entry of a name, whose objects this process keeps until release.
func (x *exporting) pinned(name string) (e *entry, release func(), err error) {
	for {
		version, e, err := x.s.load(x.ctx, name)
		if err != nil {
			return nil, nil, err
		}
		release := x.s.pin(e.part, e.blob)
		now, _, err := x.s.load(x.ctx, name)
		if err == nil && now == version {
			return e, release, nil
		}
		release()
		if err != nil {
			return nil, nil, err
		}
	}
}

func (x *exporting) content(name string, c *content) error {
	note := make([]byte, 0, c.note)
	err := x.octets(name, c, 0, uint64(c.note), func(data []byte) error {
		note = append(note, data...)
		return nil
	})
	if err != nil {
		return err
	}
	err = x.yield(&store.Blob{
		Name: name, Owner: c.owner, Version: c.version, Mark: c.mark, Changed: uint64(c.written), Expires: uint64(c.expires),
		Idle: uint64(c.idle), Size: c.held(), Tag: c.tag, Note: note,
	})
	if err != nil {
		return err
	}
	return x.octets(name, c, uint64(c.note), c.size(), func(data []byte) error { return x.yield(&store.Octets{Data: data}) })
}

// octets calls f with the octets of a content from from up to to, in pieces that end at
// multiples of blocks.Data: they are the same for all objects.
func (x *exporting) octets(name string, c *content, from, to uint64, f func([]byte) error) error {
	const step = blocks.Buffer / blocks.Size * blocks.Data
	whole := make([]byte, 0, step)
	for from < to {
		end := min(to, (from/step+1)*step)
		piece := whole
		err := x.s.walk(x.ctx, c, from, end, x.buf, func(data []byte) { piece = append(piece, data...) })
		switch {
		case errors.Is(err, blocks.ErrSum), errors.Is(err, fs.ErrNotExist):
			return x.missing(name, c, err)
		case err != nil:
			return x.s.ended(unavailable(err))
		}
		for from < end {
			n := min(blocks.Data-from%blocks.Data, end-from)
			if err := f(piece[:n]); err != nil {
				return err
			}
			piece, from = piece[n:], from+n
		}
	}
	return nil
}

// missing returns why octets are not there.
func (x *exporting) missing(name string, c *content, why error) error {
	_, e, err := x.s.load(x.ctx, name)
	if err != nil {
		return err
	}
	for _, now := range []*content{e.part, e.blob} {
		if now != nil && now.group == c.group {
			return x.s.isDamaged(name, why)
		}
	}
	return fmt.Errorf("%w: another process has removed %q during the export", store.ErrUnavailable, name)
}

// Import implements store.Importer. No other process may use the store during the import.
func (s *Store) Import(ctx context.Context, next func() (store.Piece, error)) error {
	if !s.enter() {
		return store.ErrClosed
	}
	defer s.work.Done()
	err := s.accounts.do(func(l *ledger) error {
		if l.used {
			return fmt.Errorf("%w: %s", store.ErrUsed, s.options.Objects)
		}
		l.used = true
		return nil
	}, func(l *ledger) { l.used = false })
	if err != nil {
		return err
	}
	next = store.Pieces(next)
	for {
		p, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		switch p := p.(type) {
		case *store.Start:
			s.clock.Advance(int64(p.Clock))
			err = s.accounts.do(func(l *ledger) error {
				l.versions = p.Versions
				return nil
			}, nil)
		case *store.Blob:
			err = s.importBlob(ctx, p, next)
		default:
			err = fmt.Errorf("sharedblobs: blobs cannot keep a %T", p)
		}
		if err != nil {
			return err
		}
	}
}

// importBlob writes a blob or a part, whose octets next returns.
func (s *Store) importBlob(ctx context.Context, p *store.Blob, next func() (store.Piece, error)) error {
	if p.Name == "" {
		return errName
	}
	version, e, err := s.load(ctx, p.Name)
	if err != nil {
		return err
	}
	there := &e.blob
	if p.Version == 0 {
		there = &e.part
	}
	if *there != nil {
		return fmt.Errorf("sharedblobs: %q comes twice", p.Name)
	}
	c := &content{
		group: random(), note: uint32(len(p.Note)), mark: p.Mark, version: p.Version, written: int64(p.Changed),
		expires: int64(p.Expires), idle: int64(p.Idle), owner: p.Owner, tag: slices.Clone(p.Tag),
	}
	if err := s.fill(ctx, c, p, next); err != nil {
		return err
	}
	*there = c
	r := put(s.options.Records, s.options.Space, p.Name, version, e.encode(), time.Time{})
	switch {
	case r.Err != nil:
		return r.Err
	case !r.Wrote:
		return fmt.Errorf("%w: another process changes the store", store.ErrUnavailable)
	}
	return s.accounts.do(func(l *ledger) error {
		l.charge(c.owner, int64(c.size()), 1)
		l.expires(c.expires)
		l.versions = max(l.versions, c.version)
		return nil
	}, nil)
}

// fill writes the note and the octets of a blob.
func (s *Store) fill(ctx context.Context, c *content, p *store.Blob, next func() (store.Piece, error)) error {
	sheet := s.borrowSheet()
	defer func() { s.writers <- sheet }()
	digest, skip := sha256.New(), uint64(c.note)
	all := uint64(len(p.Note)) + p.Size
	sheet.begin(c.fullSegment(0).File)
	for data, size := p.Note, uint64(0); ; {
		for len(data) > 0 {
			n := min(uint64(len(data)), fullSize-size%fullSize)
			sheet.add(data[:n])
			note := min(skip, n)
			skip -= note
			_, _ = digest.Write(data[note:n])
			data = data[n:]
			if size += n; size%fullSize == 0 {
				if err := s.options.Objects.Put(ctx, c.fullKey(c.full), sheet.octets); err != nil {
					return unavailable(err)
				}
				c.full++
				hash, err := digest.(encoding.BinaryMarshaler).MarshalBinary()
				if err != nil {
					return err
				}
				c.hash = hash
				sheet.begin(c.fullSegment(c.full).File)
			}
		}
		if size == all {
			break
		}
		more, err := next()
		if err != nil {
			return err
		}
		data = more.(*store.Octets).Data // next has checked the order
	}
	if c.version != 0 {
		c.hash = nil
	}
	if sheet.extent.Size == 0 {
		return nil
	}
	last := segment{Extent: sheet.extent}
	c.tail = []segment{last}
	return unavailable(s.options.Objects.Put(ctx, c.tailKey(&last), sheet.octets))
}
