package filestore

import (
	"encoding/binary"
	"errors"

	"github.com/slimwire/swp/store"
)

// record is what the database keeps of a part or a blob. For an owner and a tag
// it has always the same size, so that no change of it is ever refused for want
// of room.
type record struct {
	extent
	note    uint32 // how many octets of the extent, at its beginning, are the note
	mark    uint64
	version uint64 // of a blob; 0: a part
	written int64  // when it was last changed
	expires int64  // 0: never
	idle    int64  // how long a part lasts without a change
	synced  bool   // what the extent says has reached the medium
	owner   string
	tag     []byte
}

// size is how many octets the caller has appended.
func (r *record) held() uint64 { return r.size - uint64(r.note) }

const (
	recordFormat = 1
	recordFixed  = 1 + len(fileID{}) + 8 + 4 + 4 + 5*8 + 1 + 2
)

func (r *record) encode() []byte {
	b := make([]byte, 0, recordFixed+len(r.owner)+len(r.tag))
	b = append(append(b, recordFormat), r.file[:]...)
	b = binary.BigEndian.AppendUint64(b, r.size)
	b = binary.BigEndian.AppendUint32(b, r.sum)
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

// decodeRecord is the inverse of encode. The database has verified that the octets
// are what was once written, so that another format is that of another release.
func decodeRecord(b []byte) (*record, error) {
	switch {
	case len(b) > 0 && b[0] != recordFormat:
		return nil, store.ErrVersion
	case len(b) < recordFixed:
		return nil, errRecord
	}
	r := new(record)
	b = b[1:]
	b = b[copy(r.file[:], b):]
	r.size, b = binary.BigEndian.Uint64(b), b[8:]
	r.sum, b = binary.BigEndian.Uint32(b), b[4:]
	r.note, b = binary.BigEndian.Uint32(b), b[4:]
	r.mark, b = binary.BigEndian.Uint64(b), b[8:]
	r.version, b = binary.BigEndian.Uint64(b), b[8:]
	for _, n := range []*int64{&r.written, &r.expires, &r.idle} {
		*n, b = int64(binary.BigEndian.Uint64(b)), b[8:]
	}
	r.synced, b = b[0] == 1, b[1:]
	owner := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; owner > len(b) || uint64(r.note) > r.size || r.size > 1<<62 {
		return nil, errRecord
	}
	r.owner, r.tag = string(b[:owner]), append([]byte{}, b[owner:]...)
	return r, nil
}
