package sharedblobs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
	"github.com/slimwire/swp/store/internal/clock"
)

// entry is the record of a name. An entry with neither a part nor a blob is the mark of a
// removal, which the records expire.
type entry struct{ part, blob *content }

// content is the metadata of a part or a blob, and where its octets are. It is not changed
// after it was stored.
type content struct {
	group   blocks.ID // of the keys of its objects
	note    uint32    // length of the note, which comes before the octets
	mark    uint64
	version uint64 // of a blob; 0: a part
	written int64  // time of the last change
	expires int64  // 0: never
	idle    int64  // lifetime of a part without changes
	owner   string
	tag     []byte

	full uint32    // number of full segments
	tail []segment // after them; none crosses a multiple of fullSize
	hash []byte    // of a part: SHA-256 of the octets in full segments, unfinished; empty without one
}

// segment is an object with octets of a content. A full one has exactly fullSize, and its
// key follows from its index.
type segment struct {
	blocks.Extent
	level byte // of a tail: how often its octets were copied
}

// fullSize is the number of octets in a full segment: about 8 MiB, in whole blocks.
const fullSize = 128 * blocks.Data

// size returns the number of octets, with the note.
func (c *content) size() uint64 { return uint64(c.full)*fullSize + sum(c.tail) }

func sum(tail []segment) (n uint64) {
	for i := range tail {
		n += tail[i].Size
	}
	return n
}

// held returns the number of octets that the caller has appended.
func (c *content) held() uint64 { return c.size() - uint64(c.note) }

// fullSegment returns the full segment with an index.
func (c *content) fullSegment(index uint32) segment {
	id := c.group
	for i, b := range binary.BigEndian.AppendUint32(nil, index) {
		id[i] ^= b
	}
	return segment{Extent: blocks.Extent{File: id, Size: fullSize}}
}

// Keys of objects. The key of a tail is random, so that no two processes write the same one.
// The key of a full segment is not: all processes write the same octets to it.
const (
	groups    = "octets/"
	fullBegin = "full-"
)

func groupKey(group blocks.ID) string { return groups + group.String() + "/" }

func (c *content) groupKey() string { return groupKey(c.group) }

func (c *content) fullKey(index uint32) string {
	return fmt.Sprintf("%s%s%08x", c.groupKey(), fullBegin, index)
}

func (c *content) tailKey(s *segment) string { return c.groupKey() + s.File.String() }

// keys returns the keys of all objects, also of a full segment that a process may have begun
// to write.
func (c *content) keys() []string {
	keys := c.tailKeys(c.tail)
	for i := range c.full + uint32(sum(c.tail)/fullSize) {
		keys = append(keys, c.fullKey(i))
	}
	return keys
}

func (c *content) tailKeys(tail []segment) []string {
	keys := make([]string, 0, len(tail))
	for i := range tail {
		keys = append(keys, c.tailKey(&tail[i]))
	}
	return keys
}

// live returns the part of an entry; nil if it is missing or has expired.
func (e *entry) live(now int64) *content { return current(e.part, now) }

// kept returns the blob of an entry; nil if it is missing or has expired.
func (e *entry) kept(now int64) *content { return current(e.blob, now) }

func current(c *content, now int64) *content {
	if c == nil || clock.Expired(c.expires, now) {
		return nil
	}
	return c
}

const entryFormat = 1

func (e *entry) encode() []byte {
	b := []byte{entryFormat}
	for _, c := range []*content{e.part, e.blob} {
		if c == nil {
			b = append(b, 0)
			continue
		}
		b = append(append(b, 1), c.group[:]...)
		for _, n := range []uint64{
			uint64(c.note), c.mark, c.version, uint64(c.written), uint64(c.expires), uint64(c.idle), uint64(c.full), uint64(len(c.tail)),
		} {
			b = binary.AppendUvarint(b, n)
		}
		for i := range c.tail {
			s := &c.tail[i]
			b = append(b, s.File[:]...)
			b = binary.AppendUvarint(b, s.Size)
			b = append(binary.BigEndian.AppendUint32(b, s.Sum), s.level)
		}
		b = appendOctets(b, c.owner)
		b = appendOctets(b, c.tag)
		b = appendOctets(b, c.hash)
	}
	return b
}

func appendOctets[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errRecord = errors.New("the record is not one of this package")

// decodeEntry is the inverse of encode. The records have checksums, so that an unknown format
// means another release. It keeps no octet of b.
func decodeEntry(b []byte) (*entry, error) {
	d := decoder{rest: b}
	if format := d.octet(); !d.bad && format != entryFormat {
		return nil, store.ErrVersion
	}
	e := new(entry)
	for _, c := range []**content{&e.part, &e.blob} {
		switch d.octet() {
		case 0:
		case 1:
			*c = d.content()
		default:
			d.bad = true
		}
	}
	if d.bad || len(d.rest) > 0 {
		return nil, errRecord
	}
	return e, nil
}

// decoder remembers whether anything was wrong.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) octet() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) octets() []byte { return d.take(d.number()) }

func (d *decoder) id() (id blocks.ID) {
	copy(id[:], d.take(uint64(len(id))))
	return id
}

func (d *decoder) content() *content {
	c := &content{group: d.id()}
	c.note, c.mark, c.version = uint32(d.number()), d.number(), d.number()
	c.written, c.expires, c.idle = int64(d.number()), int64(d.number()), int64(d.number())
	c.full = uint32(d.number())
	for range d.number() {
		s := segment{Extent: blocks.Extent{File: d.id(), Size: d.number()}}
		if sum := d.take(4); sum != nil {
			s.Sum = binary.BigEndian.Uint32(sum)
		}
		s.level = d.octet()
		if d.bad = d.bad || s.Size > fullSize; d.bad {
			return c
		}
		c.tail = append(c.tail, s)
	}
	c.owner = string(d.octets())
	c.tag = append([]byte{}, d.octets()...)
	c.hash = append([]byte{}, d.octets()...)
	d.bad = d.bad || uint64(c.note) > c.size()
	return c
}
