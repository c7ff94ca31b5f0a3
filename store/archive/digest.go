package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/slimwire/swp/store"
)

// Digest computes SHA-256 digests of the content of a store from the pieces of its export. They depend
// on neither the engine nor the lengths of Octets. Start is left out: the clock and the counters of two
// engines with the same content differ. It is not safe for concurrent use. The zero value is ready.
//
// The digest of a part covers its pieces: the kind and the fields of each, as in a file, and the plain
// octets of blobs. The digest of everything covers all parts: the name of each after its length, the
// number of its pieces in 8 octets, and its digest.
type Digest struct {
	section string
	parts   []Part
	hash    hash.Hash // of the last part
	buf     encoder
}

// Part is a part of the content of a store: the records, logs or queues of a space, or all blobs.
type Part struct {
	Name   string `json:"part"`
	Pieces uint64 `json:"pieces"`
	Digest string `json:"digest"` // hexadecimal
}

// Begin begins a section. The sections must have different names.
func (d *Digest) Begin(section string) { d.section = section }

// Add adds the next piece of an export.
func (d *Digest) Add(p store.Piece) {
	switch p := p.(type) {
	case *store.Start:
		return
	case *store.Record:
		d.belongs("records of " + p.Space)
	case *store.Log:
		d.belongs("logs of " + p.Space)
	case *store.Item:
		d.belongs("queues of " + p.Space)
	case *store.Blob:
		d.belongs("blobs")
	case *store.Octets:
		_, _ = d.hash.Write(p.Data) // never fails
		return
	}
	d.buf = append(d.buf[:0], 0)
	d.buf[0] = fields(&d.buf, p)
	_, _ = d.hash.Write(d.buf)
	d.parts[len(d.parts)-1].Pieces++
}

// belongs begins another part unless the last one has the name.
func (d *Digest) belongs(name string) {
	name = d.section + ": " + name
	if n := len(d.parts); n == 0 || d.parts[n-1].Name != name {
		d.end()
		d.parts, d.hash = append(d.parts, Part{Name: name}), sha256.New()
	}
}

func (d *Digest) end() {
	if d.hash != nil {
		d.parts[len(d.parts)-1].Digest = hex.EncodeToString(d.hash.Sum(nil))
	}
}

// Parts returns the parts so far, in the order of their pieces.
func (d *Digest) Parts() []Part {
	d.end()
	return d.parts
}

// Sum returns the digest of everything so far, in hexadecimal.
func (d *Digest) Sum() string {
	all := sha256.New()
	for _, p := range d.Parts() {
		b := binary.AppendUvarint(nil, uint64(len(p.Name)))
		b = binary.BigEndian.AppendUint64(append(b, p.Name...), p.Pieces)
		_, _ = all.Write(append(b, p.Digest...)) // never fails
	}
	return hex.EncodeToString(all.Sum(nil))
}

// Differences names the parts in which two exports differ.
func Differences(a, b []Part) (names []string) {
	other := make(map[string]Part, len(b))
	for _, p := range b {
		other[p.Name] = p
	}
	for _, p := range a {
		if q := other[p.Name]; p != q {
			names = append(names, fmt.Sprintf("%s (%d and %d pieces)", p.Name, p.Pieces, q.Pieces))
		}
		delete(other, p.Name)
	}
	for _, p := range b {
		if _, left := other[p.Name]; left {
			names = append(names, fmt.Sprintf("%s (0 and %d pieces)", p.Name, p.Pieces))
		}
	}
	return names
}
