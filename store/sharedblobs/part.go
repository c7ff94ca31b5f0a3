package sharedblobs

import (
	"cmp"
	"errors"
	"time"

	"github.com/slimwire/swp/store/internal/lines"
)

// Begin implements store.Blobs.
func (s *Store) Begin(name, owner string, size uint64, tag, note []byte, idle time.Duration, done func(made bool, err error)) {
	s.submit(name, owner, len(tag)+len(note), operation{do: func(t *turn) (bool, error) {
		if name == "" {
			return false, errName
		}
		if err := lines.CheckSizes(name, owner, tag, note); err != nil {
			return false, err
		}
		now := s.clock.Now()
		if t.entry.live(now) != nil {
			return false, nil
		}
		c := &content{
			group: random(), note: uint32(len(note)), written: now, expires: s.clock.After(idle), idle: int64(max(idle, 0)),
			owner: owner, tag: append([]byte{}, tag...),
		}
		return t.begin(c, size, note)
	}}, done)
}

// begin makes a part. An expired one is removed with it.
func (t *turn) begin(c *content, size uint64, note []byte) (bool, error) {
	old := t.entry.part
	claim, err := t.claim(c.owner, func(room func(uint64, int) error) (uint64, int, error) {
		return uint64(len(note)), 1, room(lines.AddUp(uint64(len(note)), size), 1)
	}, c.expires, nil, old)
	if err != nil {
		return false, err
	}
	if len(note) > 0 {
		err = claim.write(c, note)
	}
	if err == nil {
		err = t.replace(c, t.entry.blob)
	}
	if old != nil {
		err = claim.end(err, nil, old)
	} else {
		err = claim.end(err, nil)
	}
	return err == nil, err
}

// write adds octets at the end of a content, as new objects. The content gets a new tail.
func (c *claim) write(to *content, data ...[]byte) error {
	page := c.t.page
	id := random()
	page.begin(id)
	put := func() error {
		s := segment{Extent: page.extent}
		key := to.tailKey(&s)
		c.made = append(c.made, key)
		to.tail = append(to.tail[:len(to.tail):len(to.tail)], s)
		return unavailable(c.t.s.options.Objects.Put(c.t.ctx, key, page.octets))
	}
	end := to.size()
	for _, b := range data {
		for len(b) > 0 {
			n := min(uint64(len(b)), fullSize-end%fullSize)
			page.add(b[:n])
			b = b[n:]
			if end += n; end%fullSize == 0 {
				if err := put(); err != nil {
					return err
				}
				page.begin(random())
			}
		}
	}
	if page.extent.Size == 0 {
		return nil
	}
	return put()
}

// Append implements store.Blobs.
func (s *Store) Append(name string, at, mark uint64, data []byte, done func(wrote bool, err error)) {
	s.submit(name, "", len(data), operation{at: at, mark: mark, data: data}, done)
}

// grow performs Appends.
func (t *turn) grow(ops []*pending) error {
	s := t.s
	was := t.entry.live(s.clock.Now())
	for _, op := range ops {
		op.OK, op.Err = false, nil
	}
	if was == nil {
		return nil
	}
	var taken []*pending
	accept := func(strict bool) charge {
		return func(room func(uint64, int) error) (uint64, int, error) {
			taken = taken[:0]
			size, end := uint64(0), was.held()
			for _, op := range ops {
				op.Err = nil
				n := uint64(len(op.Args.data))
				if op.Args.at != end {
					continue
				}
				if op.Err = room(size+n, 0); op.Err == nil {
					size, end = size+n, end+n
					taken = append(taken, op)
				} else if strict {
					return 0, 0, op.Err
				}
			}
			return size, 0, nil
		}
	}
	next := *was
	next.written, next.expires = s.clock.Now(), s.clock.After(time.Duration(was.idle))
	claim, err := t.claim(was.owner, accept(true), next.expires, nil)
	if noRoom(err) { // also not for all after a sweep
		claim, err = t.claimOnce(was.owner, accept(false), next.expires, nil)
	}
	if err != nil {
		return err
	}
	if len(taken) == 0 {
		return claim.end(nil, nil)
	}
	data := make([][]byte, 0, len(taken))
	for _, op := range taken {
		data = append(data, op.Args.data)
		next.mark = op.Args.mark
	}
	left, err := claim.merge(&next)
	if errors.Is(err, errOctets) {
		return cmp.Or(t.discardDamaged(claim, err), err)
	}
	if err == nil {
		err = claim.write(&next, data...)
	}
	if err == nil {
		err = t.replace(&next, t.entry.blob)
	}
	if err = claim.end(err, left); errors.Is(err, errRace) {
		return err
	}
	for _, op := range taken {
		op.OK, op.Err = err == nil, err
	}
	return nil
}

// Discard implements store.Blobs.
func (s *Store) Discard(name string, done func(removed bool, err error)) {
	s.submit(name, "", 0, operation{do: func(t *turn) (bool, error) { return t.discard() }}, done)
}

// discard removes the part of a name, if there is one.
func (t *turn) discard() (bool, error) {
	c := t.entry.part
	if c == nil {
		return false, nil
	}
	return t.remove(c, nil, t.entry.blob)
}

// remove replaces an entry by one without a content.
func (t *turn) remove(gone, part, blob *content) (bool, error) {
	claim, err := t.claimOnce(gone.owner, nothing, 0, nil)
	if err != nil {
		return false, err
	}
	err = claim.end(t.replace(part, blob), nil, gone)
	return err == nil, err
}

var errName = errors.New("sharedblobs: the name is empty")
