package filestore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
	"github.com/slimwire/swp/store/internal/clock"
)

var (
	_ store.Exporter = (*Store)(nil)
	_ store.Importer = (*Store)(nil)
)

// Export implements store.Exporter. A blob or part that is replaced or removed during the export
// is exported in its later state. The records of the store are not included: an export of
// Options.Records should leave out the spaces that Spaces returns.
func (s *Store) Export(ctx context.Context, yield func(store.Piece) error) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return store.ErrClosed
	}
	s.work.Add(1) // Close waits
	now, names := s.clock.Now(), make([]string, 0, len(s.items))
	start := &store.Start{Clock: uint64(now), Versions: s.version}
	for name := range s.items {
		names = append(names, name)
	}
	s.mu.Unlock()
	defer s.work.Done()
	slices.Sort(names)
	buf := borrow(s.readers)
	defer func() { s.readers <- buf }()
	x := &exporting{s: s, yield: store.Yielding(ctx, s.gone, yield), buf: buf, now: now}
	if err := x.yield(start); err != nil {
		return err
	}
	for _, name := range names {
		if err := x.item(name); err != nil {
			return err
		}
	}
	return nil
}

// Spaces returns the spaces of Options.Records that a store with this Space uses.
func Spaces(space string) []string {
	o := Options{Space: space}
	return []string{o.Space, o.partSpace()}
}

// exporting is an export.
type exporting struct {
	s     *Store
	yield func(store.Piece) error
	buf   []byte
	now   int64
}

// records returns the records of the blob and the part of a name; nil for none.
func (x *exporting) records(name string) (all [2]*record) {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	it := x.s.items[name]
	if it == nil {
		return all
	}
	if it.blob != nil && !clock.Expired(it.blob.expires, x.now) {
		all[0] = it.blob // also a damaged one: the export must fail
	}
	all[1] = it.live(x.now)
	return all
}

// item exports the blob and the part of a name. It opens the files of both before it reads: an
// open file remains readable after its removal.
func (x *exporting) item(name string) error {
	for {
		all := x.records(name)
		var files [2]*os.File
		var err error
		for i, r := range all {
			if r != nil && err == nil {
				files[i], err = os.Open(x.s.path(r.File))
			}
		}
		again := errors.Is(err, fs.ErrNotExist) && x.records(name) != all
		for i, r := range all {
			if r != nil && err == nil {
				err = x.file(name, r, files[i])
			}
			if files[i] != nil {
				_ = files[i].Close() // it is read
			}
		}
		switch {
		case again:
			continue
		case errors.Is(err, fs.ErrNotExist):
			return x.s.damaged(name, "%w", err)
		}
		return err
	}
}

func (x *exporting) file(name string, r *record, f *os.File) error {
	note := make([]byte, 0, r.note)
	err := x.octets(name, r, f, 0, uint64(r.note), func(data []byte) error {
		note = append(note, data...)
		return nil
	})
	if err != nil {
		return err
	}
	err = x.yield(&store.Blob{
		Name: name, Owner: r.owner, Version: r.version, Mark: r.mark, Changed: uint64(r.written), Expires: uint64(r.expires),
		Idle: uint64(r.idle), Size: r.held(), Tag: r.tag, Note: note,
	})
	if err != nil {
		return err
	}
	return x.octets(name, r, f, uint64(r.note), r.Size, func(data []byte) error { return x.yield(&store.Octets{Data: data}) })
}

// octets calls f with the octets of a file from from up to to.
func (x *exporting) octets(name string, r *record, file *os.File, from, to uint64, f func([]byte) error) error {
	const step = blocks.Buffer / blocks.Size * blocks.Data
	for from < to {
		end := min(to, (from/step+1)*step)
		var refused error
		err := r.Walk(file, from, end, x.buf, func(data []byte) {
			if refused == nil {
				refused = f(data)
			}
		})
		switch {
		case refused != nil:
			return refused
		case errors.Is(err, blocks.ErrSum):
			return x.s.damaged(name, "file %s: %w", r.File, err)
		case err != nil:
			return unavailable(err)
		}
		from = end
	}
	return nil
}

// Import implements store.Importer. Other operations must wait until it has ended.
func (s *Store) Import(ctx context.Context, next func() (store.Piece, error)) error {
	s.mu.Lock()
	used := len(s.items) > 0 || s.version > 0
	s.mu.Unlock()
	if used {
		return fmt.Errorf("%w: %s", store.ErrUsed, s.dir)
	}
	next = store.Pieces(next)
	for {
		p, err := next()
		switch {
		case errors.Is(err, io.EOF):
			s.versions.Lock()
			defer s.versions.Unlock()
			return s.reserve(s.version)
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		switch p := p.(type) {
		case *store.Start:
			s.clock.Advance(int64(p.Clock))
			s.mu.Lock()
			s.version = p.Versions
			s.mu.Unlock()
		case *store.Blob:
			told := make(chan error, 1)
			s.submit(p.Name, p.Owner, len(p.Tag)+len(p.Note), operation{do: func(it *item, buf []byte) (bool, error) {
				return true, s.importBlob(ctx, it, p, next, buf)
			}}, func(_ bool, err error) { told <- err })
			if err := <-told; err != nil {
				return err
			}
		default:
			return fmt.Errorf("filestore: blobs cannot keep a %T", p)
		}
	}
}

// importBlob writes a blob or a part, whose octets next returns.
func (s *Store) importBlob(ctx context.Context, it *item, p *store.Blob, next func() (store.Piece, error), buf []byte) error {
	which, there := blobRecord, it.blob
	if p.Version == 0 {
		which, there = partRecord, it.part
	}
	switch {
	case there != nil:
		return fmt.Errorf("filestore: %q comes twice", p.Name)
	case p.Name == "":
		return errName
	}
	r := &record{
		note: uint32(len(p.Note)), mark: p.Mark, version: p.Version, written: int64(p.Changed), expires: int64(p.Expires),
		idle: int64(p.Idle), synced: which == blobRecord || s.options.Durability == store.Power, owner: p.Owner, tag: slices.Clone(p.Tag),
	}
	_, _ = rand.Read(r.File[:]) // never returns an error
	f, err := os.OpenFile(s.path(r.File), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return unavailable(err)
	}
	foreign, err := r.fill(ctx, f, p, next, buf)
	if err == nil && foreign == nil && s.options.Dir != "" {
		err = f.Sync()
	}
	err = cmp.Or(err, f.Close())
	if err == nil && foreign == nil && s.options.Dir != "" {
		err = disk.SyncDir(s.dir)
	}
	if err = cmp.Or(foreign, unavailable(err)); err == nil {
		err = s.commit(it, which, r)
	}
	if err != nil {
		_ = os.Remove(s.path(r.File))
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used.Charge(r.owner, int64(r.Size), 1)
	s.mark(r.expires)
	if which == partRecord {
		it.part = r
		return nil
	}
	it.blob = r
	s.version = max(s.version, r.version)
	return nil
}

// fill writes the note and the octets of a blob to its file. foreign is an error of next.
func (r *record) fill(ctx context.Context, f *os.File, p *store.Blob, next func() (store.Piece, error), buf []byte) (foreign, err error) {
	all := uint64(len(p.Note)) + p.Size
	for data := p.Note; ; {
		if r.Extent, err = r.Grow(f, data, buf); err != nil || r.Size == all {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return err, nil
		}
		more, err := next()
		if err != nil {
			return err, nil
		}
		data = more.(*store.Octets).Data // next has checked the order
	}
}
