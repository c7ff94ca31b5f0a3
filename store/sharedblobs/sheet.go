package sharedblobs

import (
	"context"

	"github.com/slimwire/swp/store/internal/blocks"
)

// sheet is the buffers of a writer, with the object that it makes.
type sheet struct {
	extent blocks.Extent
	octets []byte // of the object, with checksums
	grow   []byte // for Extent.Grow
	read   []byte // for Extent.Walk
}

// borrowSheet waits for a writer. The caller gives it back to writers.
func (s *Store) borrowSheet() *sheet {
	p := <-s.writers
	if p == nil {
		p = &sheet{grow: make([]byte, blocks.Buffer), read: make([]byte, blocks.Buffer)}
	}
	return p
}

// begin begins an object.
func (p *sheet) begin(id blocks.ID) {
	p.extent, p.octets = blocks.Extent{File: id}, p.octets[:0]
}

// add adds octets to the object, of which a full segment has room for.
func (p *sheet) add(data []byte) {
	p.extent, _ = p.extent.Grow(p, data, p.grow) // WriteAt never fails
}

// WriteAt is called by Grow, which writes in order.
func (p *sheet) WriteAt(b []byte, _ int64) (int, error) {
	p.octets = append(p.octets, b...)
	return len(b), nil
}

// walk calls yield with the octets of segments of a content, from from up to to, in order. The
// segments are the full ones, and then the tail. An error that is not ErrDamaged or missing
// is of the medium.
func (s *Store) walk(ctx context.Context, c *content, from, to uint64, buf []byte, yield func(data []byte)) error {
	to = min(to, c.size())
	for start, i := from/fullSize*fullSize, from/fullSize; i < uint64(c.full) && from < to; start, i = start+fullSize, i+1 {
		at := c.fullSegment(uint32(i))
		end := min(to, start+fullSize)
		if err := at.Walk(reader{ctx, s.options.Objects, c.fullKey(uint32(i))}, from-start, end-start, buf, yield); err != nil {
			return err
		}
		from = end
	}
	start := uint64(c.full) * fullSize
	for i := range c.tail {
		at := &c.tail[i]
		if end := min(to, start+at.Size); from < end {
			if err := at.Walk(reader{ctx, s.options.Objects, c.tailKey(at)}, from-start, end-start, buf, yield); err != nil {
				return err
			}
			from = end
		}
		start += at.Size
	}
	return nil
}
