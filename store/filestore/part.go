package filestore

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
	"github.com/slimwire/swp/store/internal/lines"
)

var noExpiry time.Time

// Begin implements store.Blobs.
func (s *Store) Begin(name, owner string, size uint64, tag, note []byte, idle time.Duration, done func(made bool, err error)) {
	s.submit(name, owner, len(tag)+len(note), operation{do: func(it *item, buf []byte) (bool, error) {
		if name == "" {
			return false, errName
		}
		if err := lines.CheckSizes(name, owner, tag, note); err != nil {
			return false, err
		}
		if it.live(s.clock.Now()) != nil {
			return false, nil
		}
		if err := s.discard(it); err != nil { // an expired one
			return false, err
		}
		return s.begin(it, &record{
			note: uint32(len(note)), idle: int64(max(idle, 0)), owner: owner, tag: append([]byte{}, tag...),
		}, size, note, buf)
	}}, done)
}

func (s *Store) begin(it *item, r *record, size uint64, note, buf []byte) (bool, error) {
	if err := s.makeRoom(r.owner, lines.AddUp(uint64(len(note)), size), 1); err != nil {
		return false, err
	}
	if err := s.take(r.owner, uint64(len(note)), 1); err != nil {
		return false, err
	}
	_, _ = rand.Read(r.File[:]) // never returns an error
	err := s.create(r, note, buf)
	if err == nil {
		s.touch(r)
		err = s.commit(it, partRecord, r)
	}
	if err != nil {
		_ = os.Remove(s.path(r.File)) // if the record was written after all, it counts no octets
		s.giveBack(r.owner, uint64(len(note)), 1)
		return false, err
	}
	it.digest = blocks.Digest{}
	s.publish(it, r, it.blob)
	return true, nil
}

// create makes the file of a part, with its note.
func (s *Store) create(r *record, note, buf []byte) error {
	f, err := os.OpenFile(s.path(r.File), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return unavailable(err)
	}
	r.Extent, err = r.Grow(f, note, buf)
	if err == nil {
		err = s.sync(f)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil && s.options.Durability == store.Power {
		err = disk.SyncDir(s.dir)
	}
	return unavailable(err)
}

// touch records the time of the last change of a part.
func (s *Store) touch(r *record) {
	r.written = s.clock.Now()
	r.expires = s.clock.After(time.Duration(r.idle))
	r.synced = s.options.Durability == store.Power
}

// sync makes the octets of a file durable if the durability requires it.
func (s *Store) sync(f *os.File) error {
	if s.options.Durability != store.Power {
		return nil
	}
	return f.Sync()
}

func (s *Store) path(id blocks.ID) string { return filepath.Join(s.dir, id.String()) }

// Append implements store.Blobs.
func (s *Store) Append(name string, at, mark uint64, data []byte, done func(wrote bool, err error)) {
	s.submit(name, "", len(data), operation{grow: growth{at, mark, data}}, done)
}

// grow performs Appends.
func (s *Store) grow(it *item, ops []*pending, buf []byte) {
	was := it.live(s.clock.Now())
	if was == nil {
		return
	}
	end := was.held()
	more := make([]*pending, 0, len(ops))
	for _, op := range ops {
		if op.Args.grow.at != end {
			continue
		}
		if op.Err = s.take(was.owner, uint64(len(op.Args.grow.data)), 0); op.Err == nil {
			end += uint64(len(op.Args.grow.data))
			more = append(more, op)
		}
	}
	if len(more) == 0 {
		return
	}
	r := *was
	err := s.write(it, &r, more, buf)
	if err != nil {
		s.giveBack(was.owner, end-was.held(), 0)
	}
	for _, op := range more {
		op.OK, op.Err = err == nil, err
	}
}

// write writes octets to a part and then commits its new length.
func (s *Store) write(it *item, r *record, ops []*pending, buf []byte) error {
	f, err := os.OpenFile(s.path(r.File), os.O_RDWR, 0)
	if err != nil {
		return unavailable(err)
	}
	defer func() { _ = f.Close() }() // already synced
	was := it.part
	for _, op := range ops {
		if r.Extent, err = r.Grow(f, op.Args.grow.data, buf); err != nil {
			break
		}
		r.mark = op.Args.grow.mark
	}
	if err == nil {
		err = s.sync(f)
	}
	if err != nil {
		_ = f.Truncate(blocks.Place(was.Size)) // the next write may be shorter
		return unavailable(err)
	}
	s.touch(r)
	committed := s.put(it, partRecord, r)
	unread := r.follow(&it.digest, f, buf, r.Size-was.Size+catchUp)
	if err = committed(); err != nil || unread != nil {
		it.digest = blocks.Digest{} // octets that it has read may be replaced; Seal reports a read error
	}
	if err == nil {
		s.publish(it, r, it.blob)
	}
	return err
}

// catchUp is how much more is read than was written with each write. A part that existed
// when the store was opened is so read by the time it is complete, without one long read at
// the end.
const catchUp = 4 << 20

// follow adds at most so many further octets of the file to its digest.
func (r *record) follow(d *blocks.Digest, f *os.File, buf []byte, most uint64) error {
	return d.Follow(uint64(r.note), r.Size, most, func(from, to uint64, yield func([]byte)) error {
		return r.Walk(f, from, to, buf, yield)
	})
}

// Discard implements store.Blobs.
func (s *Store) Discard(name string, done func(removed bool, err error)) {
	s.submit(name, "", 0, operation{do: func(it *item, _ []byte) (bool, error) {
		there := it.part != nil
		err := s.discard(it)
		return there && err == nil, err
	}}, done)
}

// discard removes the part of an item, if there is one.
func (s *Store) discard(it *item) error {
	r := it.part
	if r == nil {
		return nil
	}
	if err := s.commit(it, partRecord, nil); err != nil {
		return err
	}
	it.digest = blocks.Digest{}
	s.publish(it, nil, it.blob)
	s.drop(r)
	return nil
}

// drop removes a file that no record refers to.
func (s *Store) drop(r *record) {
	if err := os.Remove(s.path(r.File)); err != nil {
		s.notice("%v", err)
	}
	s.giveBack(r.owner, r.Size, 1)
}

var errName = errors.New("filestore: the name is empty")
