package sharedblobs

import (
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"hash"
	"io/fs"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
)

// fan is how many tails of the same level are joined to one of the next. So each octet is
// copied once for each factor of 16 between the sizes of an Append and of a full segment.
const fan = 16

// merge joins tails of a stored content to full segments and larger tails. It returns
// the keys of objects that are not named any more.
func (c *claim) merge(to *content) (left []string, err error) {
	for sum(to.tail) >= fullSize {
		if left, err = c.fill(to, left); err != nil {
			return nil, err
		}
	}
	for {
		same := 0
		for same < len(to.tail) && to.tail[len(to.tail)-1-same].level == to.tail[len(to.tail)-1].level {
			same++
		}
		if same < fan {
			return left, nil
		}
		if left, err = c.join(to, len(to.tail)-same, left); err != nil {
			return nil, err
		}
	}
}

// fill makes a full segment of the first tails.
func (c *claim) fill(to *content, left []string) ([]string, error) {
	digest, err := to.digest()
	if err != nil {
		return nil, err
	}
	n := 0
	for size := uint64(0); size < fullSize; n++ {
		size += to.tail[n].Size
	}
	old := to.tail[:n]
	page, at := c.t.page, uint64(to.full)*fullSize
	made := to.fullSegment(to.full)
	page.begin(made.File)
	skip := uint64(to.note) // the note is in the first one
	if to.full > 0 {
		skip = 0
	}
	err = c.t.read(to, at, at+fullSize, func(data []byte) {
		page.add(data)
		n := min(skip, uint64(len(data)))
		skip -= n
		_, _ = digest.Write(data[n:])
	})
	if err != nil {
		return nil, err
	}
	// Another process may have written the same: the object is not removed after a failure.
	if err = c.t.s.options.Objects.Put(c.t.ctx, to.fullKey(to.full), page.octets); err != nil {
		return nil, unavailable(err)
	}
	if to.hash, err = digest.(encoding.BinaryMarshaler).MarshalBinary(); err != nil {
		return nil, err
	}
	to.full, to.tail = to.full+1, to.tail[n:]
	return append(left, to.tailKeys(old)...), nil
}

// join makes one tail of the tails from an index on.
func (c *claim) join(to *content, from int, left []string) ([]string, error) {
	old := to.tail[from:]
	page, at := c.t.page, to.size()-sum(old)
	page.begin(random())
	if err := c.t.read(to, at, to.size(), page.add); err != nil {
		return nil, err
	}
	made := segment{Extent: page.extent, level: old[0].level + 1}
	key := to.tailKey(&made)
	c.made = append(c.made, key)
	if err := c.t.s.options.Objects.Put(c.t.ctx, key, page.octets); err != nil {
		return nil, unavailable(err)
	}
	to.tail = append(to.tail[:from:from], made)
	return append(left, to.tailKeys(old)...), nil
}

// digest returns the unfinished digest of the octets in full segments, without the note.
func (c *content) digest() (hash.Hash, error) {
	digest := sha256.New()
	if len(c.hash) == 0 {
		return digest, nil
	}
	return digest, digest.(encoding.BinaryUnmarshaler).UnmarshalBinary(c.hash)
}

// errOctets is the error of octets that are damaged or missing.
var errOctets = errors.New("octets are damaged or missing")

// read is walk of a content that is stored. The error is errRace if another process has
// replaced it since then, and otherwise errOctets if octets are missing or damaged.
func (t *turn) read(c *content, from, to uint64, yield func(data []byte)) error {
	err := t.s.walk(t.ctx, c, from, to, t.page.read, yield)
	if !errors.Is(err, blocks.ErrSum) && !errors.Is(err, fs.ErrNotExist) {
		return unavailable(err)
	}
	version, _, again := t.s.load(t.ctx, t.name)
	switch {
	case again != nil:
		return again
	case version != t.version:
		return errRace
	}
	if wrong := t.s.belongs(t.ctx); wrong != nil {
		return wrong
	}
	return fmt.Errorf("%w: %w: %w", store.ErrDamaged, errOctets, err)
}
