package artifact

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/slimwire/swp/profiles"
)

// maxName is how long a name in a Store may be.
const maxName = 1024

// The name of an artifact in a Store is its artifact_id, an unambiguous separator, and the
// identity of its owner. So names are in the order of artifact_ids, names with the same
// artifact_id are adjacent, and no artifact_id can collide with an artifact of another
// owner.
const (
	escaped = "\x00\xff" // stands for NUL
	ending  = "\x00\x01"
)

// nameOf returns the name of an artifact of an owner. The error refuses a name that is too
// long.
func nameOf(id, owner string) (string, error) {
	name := allOf(id) + owner
	if len(name) > maxName {
		return "", profiles.Errorf(profiles.InvalidProfilePayload, "artifact: artifact_id and the identity of its owner are too long together")
	}
	return name, nil
}

// allOf returns the prefix of the names of all artifacts with an artifact_id.
func allOf(id string) string { return strings.ReplaceAll(id, "\x00", escaped) + ending }

// splitName is the inverse of nameOf.
func splitName(name string) (id, owner string, ok bool) {
	id, owner, ok = strings.Cut(name, ending)
	return strings.ReplaceAll(id, escaped, "\x00"), owner, ok
}

// OwnerOf returns the owner of an artifact, by its name in a Store.
func OwnerOf(name string) (owner string, ok bool) {
	_, owner, ok = splitName(name)
	return owner, ok
}

// tag is the part of an offer that is kept in memory: to compare offers, and for the
// expected octets.
type tag struct {
	size     uint64
	sum      [sha256.Size]byte
	metadata [sha256.Size]byte // of the metadata
}

const tagSize = 8 + 2*sha256.Size

// In a Store a tag is followed by the rank of the artifact if it replaces another one of its
// owner. Of artifacts with the same artifact_id the lowest rank is for peers without one of their
// own. It is the version of the first artifact that its owner has replaced, so that no
// replacement gives the place to another owner.
const rankSize = 8

// rankOf returns the rank of an artifact.
func rankOf(version uint64, stored []byte) uint64 {
	if len(stored) == tagSize+rankSize {
		return binary.BigEndian.Uint64(stored[tagSize:])
	}
	return version
}

func tagOf(m *Offer) tag {
	return tag{m.TotalSize, [sha256.Size]byte(m.Hash), sha256.Sum256(m.Metadata)}
}

// encode returns the tag for a Store, with a rank unless that is 0.
func (t *tag) encode(rank uint64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, tagSize+rankSize), t.size)
	b = append(append(b, t.sum[:]...), t.metadata[:]...)
	if rank == 0 {
		return b
	}
	return binary.BigEndian.AppendUint64(b, rank)
}

// is reports whether what is stored is this tag, with any rank.
func (t *tag) is(stored []byte) bool {
	other, err := decodeTag(stored)
	return err == nil && other == *t
}

func decodeTag(b []byte) (t tag, err error) {
	if len(b) != tagSize && len(b) != tagSize+rankSize {
		return t, &profiles.Error{Code: profiles.Internal, Detail: "store", Text: "internal error", Cause: errTag}
	}
	t.size = binary.BigEndian.Uint64(b)
	copy(t.sum[:], b[8:])
	copy(t.metadata[:], b[8+sha256.Size:tagSize])
	return t, nil
}

var errTag = errors.New("artifact: what is stored is not of this profile")

// IDs returns the first artifact_ids in a Store that begin with a prefix, in the order of
// their octets. It looks at most artifacts, of all owners; scan calls yield with their names
// in the Store that begin with a prefix.
func IDs(scan func(prefix string, yield func(name string) bool) error, prefix string, most int) (ids []string, err error) {
	n := 0
	err = scan(strings.ReplaceAll(prefix, "\x00", escaped), func(name string) bool {
		if id, _, ok := splitName(name); ok && (len(ids) == 0 || ids[len(ids)-1] != id) {
			ids = append(ids, id)
		}
		n++
		return n < most
	})
	return ids, err
}
