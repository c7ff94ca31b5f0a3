package blocks

import (
	"crypto/sha256"
	"hash"
)

// Digest computes the SHA-256 of octets that are read back from the medium while more are
// appended. The zero value has read nothing.
type Digest struct {
	hash hash.Hash
	read uint64 // octets
}

// Follow reads at most so many further octets of those from from up to to. walk is Walk of
// what holds them.
func (d *Digest) Follow(from, to, most uint64, walk func(from, to uint64, yield func(data []byte)) error) error {
	if d.hash == nil {
		d.hash, d.read = sha256.New(), 0
	}
	from += d.read
	if from < to && to-from > most {
		to = from + most
	}
	return walk(from, to, func(data []byte) {
		_, _ = d.hash.Write(data)
		d.read += uint64(len(data))
	})
}

// Sum returns the digest of the octets read.
func (d *Digest) Sum() (sum [sha256.Size]byte) {
	d.hash.Sum(sum[:0])
	return sum
}
