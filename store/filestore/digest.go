package filestore

import (
	"crypto/sha256"
	"hash"
	"os"
)

// digest computes the SHA-256 of a part from the octets that were read back from the
// medium. The zero value has read nothing.
type digest struct {
	hash hash.Hash
	read uint64 // octets
}

// catchUp is how much more is read than was written with each write. A part that existed
// when the store was opened is so read by the time it is complete, without one long read at
// the end.
const catchUp = 4 << 20

// follow reads at most so many further octets.
func (d *digest) follow(f *os.File, r *record, buf []byte, most uint64) error {
	if d.hash == nil {
		d.hash, d.read = sha256.New(), 0
	}
	from := uint64(r.note) + d.read
	to := min(r.size, addUp(from, most))
	return r.walk(f, from, to, buf, func(data []byte) {
		_, _ = d.hash.Write(data)
		d.read += uint64(len(data))
	})
}

// sum returns the digest of the octets read.
func (d *digest) sum() (sum [sha256.Size]byte) {
	d.hash.Sum(sum[:0])
	return sum
}
