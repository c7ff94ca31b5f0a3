// Package blocks is the format of stored octets: blocks with checksums, which an engine of
// store.Blobs verifies whenever it reads them.
package blocks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A file is a sequence of blocks. Each full block is followed by its CRC-32C; the checksum
// of the last, growing block is in the record of the file. So the content of a file can be
// verified at any time, and an append writes no octet twice.
//
// The checksum of a block covers the id of its file and its index, so that no block passes
// for another one.
const (
	Size    = 64 << 10 // with the checksum
	Data    = Size - sumSize
	sumSize = 4
)

// Buffer is the size of a read or write.
const Buffer = 16 * Size

// castagnoli is the CRC polynomial with hardware support.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ID is the name of a file: random octets, in hexadecimal.
type ID [16]byte

func (id ID) String() string { return fmt.Sprintf("%x", id[:]) }

// Place converts an offset in the content to an offset in the file with checksums.
func Place(n uint64) int64 { return int64(n/Data*Size + n%Data) }

// Extent is the valid part of a file.
type Extent struct {
	File ID
	Size uint64 // octets, without checksums
	Sum  uint32 // checksum of the last block, if that is not full
}

// seed returns the checksum of an empty block.
func (e *Extent) seed(block uint64) uint32 {
	var b [len(e.File) + 8]byte
	copy(b[:], e.File[:])
	binary.BigEndian.PutUint64(b[len(e.File):], block)
	return crc32.Checksum(b[:], castagnoli)
}

// Grow writes data after an extent and returns the larger extent. Octets of a failed write
// lie beyond the extent and do not count.
func (e Extent) Grow(f io.WriterAt, data, buf []byte) (Extent, error) {
	for len(data) > 0 {
		at := Place(e.Size)
		buf = buf[:0]
		for len(data) > 0 && cap(buf)-len(buf) > sumSize {
			if e.Size%Data == 0 {
				e.Sum = e.seed(e.Size / Data)
			}
			n := min(len(data), int(Data-e.Size%Data), cap(buf)-len(buf)-sumSize)
			buf = append(buf, data[:n]...)
			e.Sum = crc32.Update(e.Sum, castagnoli, data[:n])
			e.Size += uint64(n)
			if e.Size%Data == 0 {
				buf = binary.BigEndian.AppendUint32(buf, e.Sum)
				e.Sum = 0
			}
			data = data[n:]
		}
		if _, err := f.WriteAt(buf, at); err != nil {
			return e, err
		}
	}
	return e, nil
}

// ErrSum is the error for missing octets or a wrong checksum.
var ErrSum = errors.New("does not fit its checksum")

// Walk verifies the blocks that contain the octets from from up to to, and calls yield with
// these octets in order.
func (e *Extent) Walk(f io.ReaderAt, from, to uint64, buf []byte, yield func(data []byte)) error {
	for to = min(to, e.Size); from < to; {
		block := from / Data
		start := block * Data
		stop := min(start+uint64(cap(buf)/Size)*Data, e.Size, (to+Data-1)/Data*Data)
		b := buf[:Place(stop)-Place(start)]
		if n, err := f.ReadAt(b, Place(start)); n < len(b) {
			if errors.Is(err, io.EOF) {
				return fmt.Errorf("octet %d and following: %w: the file ends before", start, ErrSum)
			}
			return err
		}
		for ; start < stop; start, block = start+Data, block+1 {
			n := min(Data, stop-start)
			want := e.Sum
			if n == Data {
				want = binary.BigEndian.Uint32(b[Data:])
			}
			if crc32.Update(e.seed(block), castagnoli, b[:n]) != want {
				return fmt.Errorf("octets %d to %d: %w", start, start+n, ErrSum)
			}
			if begin, end := max(from, start), min(to, start+n); begin < end {
				yield(b[begin-start : end-start])
				from = end
			}
			b = b[min(Size, len(b)):]
		}
	}
	return nil
}
