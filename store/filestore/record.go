package filestore

import (
	"encoding/binary"
	"errors"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
)

// record is the metadata of a part or a blob in the database. Its size depends on owner and
// tag only, so that an update never exceeds a quota.
type record struct {
	blocks.Extent
	note    uint32 // length of the note, which is at the start of the extent
	mark    uint64
	version uint64 // version of a blob; 0: a part
	written int64  // time of the last change
	expires int64  // 0: never
	idle    int64  // lifetime of a part without changes
	synced  bool   // the extent is on the medium
	owner   string
	tag     []byte
}

// held returns the number of octets that the caller has appended.
func (r *record) held() uint64 { return r.Size - uint64(r.note) }

const (
	recordFormat = 1
	recordFixed  = 1 + len(blocks.ID{}) + 8 + 4 + 4 + 5*8 + 1 + 2
)

func (r *record) encode() []byte {
	b := make([]byte, 0, recordFixed+len(r.owner)+len(r.tag))
	b = append(append(b, recordFormat), r.File[:]...)
	b = binary.BigEndian.AppendUint64(b, r.Size)
	b = binary.BigEndian.AppendUint32(b, r.Sum)
	b = binary.BigEndian.AppendUint32(b, r.note)
	for _, n := range []uint64{r.mark, r.version, uint64(r.written), uint64(r.expires), uint64(r.idle)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	flag := byte(0)
	if r.synced {
		flag = 1
	}
	b = append(b, flag)
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.owner)))
	return append(append(b, r.owner...), r.tag...)
}

var errRecord = errors.New("the record is not one of this package")

// decodeRecord is the inverse of encode. The database has verified the checksum, so that an
// unknown format means another release.
func decodeRecord(b []byte) (*record, error) {
	switch {
	case len(b) > 0 && b[0] != recordFormat:
		return nil, store.ErrVersion
	case len(b) < recordFixed:
		return nil, errRecord
	}
	r := new(record)
	b = b[1:]
	b = b[copy(r.File[:], b):]
	r.Size, b = binary.BigEndian.Uint64(b), b[8:]
	r.Sum, b = binary.BigEndian.Uint32(b), b[4:]
	r.note, b = binary.BigEndian.Uint32(b), b[4:]
	r.mark, b = binary.BigEndian.Uint64(b), b[8:]
	r.version, b = binary.BigEndian.Uint64(b), b[8:]
	for _, n := range []*int64{&r.written, &r.expires, &r.idle} {
		*n, b = int64(binary.BigEndian.Uint64(b)), b[8:]
	}
	r.synced, b = b[0] == 1, b[1:]
	owner := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; owner > len(b) || uint64(r.note) > r.Size || r.Size > 1<<62 {
		return nil, errRecord
	}
	r.owner, r.tag = string(b[:owner]), append([]byte{}, b[owner:]...)
	return r, nil
}
