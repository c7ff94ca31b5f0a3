package filestore

import (
	"crypto/sha256"
	"hash"
	"os"
)

// digest is the SHA-256 of the octets of a part that were read back. The zero
// value has read nothing.
type digest struct {
	hash hash.Hash
	read uint64 // octets
}

// catchUp is how many octets more than were written are read with each write. So
// a part that was there when the store was opened is read by the time it is
// complete, and nobody waits for that at once.
const catchUp = 4 << 20

// follow reads on, at most so many octets.
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
