package filestore

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
	blockSize = 64 << 10 // with the checksum
	sumSize   = 4
	blockData = blockSize - sumSize
)

// castagnoli is the CRC polynomial with hardware support.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fileID is the name of a file: random octets, in hexadecimal.
type fileID [16]byte

func (id fileID) String() string { return fmt.Sprintf("%x", id[:]) }

// place converts an offset in the content to an offset in the file with checksums.
func place(n uint64) int64 { return int64(n/blockData*blockSize + n%blockData) }

// extent is the valid part of a file.
type extent struct {
	file fileID
	size uint64 // octets, without checksums
	sum  uint32 // checksum of the last block, if that is not full
}

// seed returns the checksum of an empty block.
func (e *extent) seed(block uint64) uint32 {
	var b [len(e.file) + 8]byte
	copy(b[:], e.file[:])
	binary.BigEndian.PutUint64(b[len(e.file):], block)
	return crc32.Checksum(b[:], castagnoli)
}

// grow writes data after an extent and returns the larger extent. Octets of a failed write
// lie beyond the extent and do not count.
func (e extent) grow(f io.WriterAt, data, buf []byte) (extent, error) {
	for len(data) > 0 {
		at := place(e.size)
		buf = buf[:0]
		for len(data) > 0 && cap(buf)-len(buf) > sumSize {
			if e.size%blockData == 0 {
				e.sum = e.seed(e.size / blockData)
			}
			n := min(len(data), int(blockData-e.size%blockData), cap(buf)-len(buf)-sumSize)
			buf = append(buf, data[:n]...)
			e.sum = crc32.Update(e.sum, castagnoli, data[:n])
			e.size += uint64(n)
			if e.size%blockData == 0 {
				buf = binary.BigEndian.AppendUint32(buf, e.sum)
				e.sum = 0
			}
			data = data[n:]
		}
		if _, err := f.WriteAt(buf, at); err != nil {
			return e, err
		}
	}
	return e, nil
}

// errSum is the error for missing octets or a wrong checksum.
var errSum = errors.New("does not fit its checksum")

// walk verifies the blocks that contain the octets from from up to to, and calls yield with
// these octets in order.
func (e *extent) walk(f io.ReaderAt, from, to uint64, buf []byte, yield func(data []byte)) error {
	for to = min(to, e.size); from < to; {
		block := from / blockData
		start := block * blockData
		stop := min(start+uint64(cap(buf)/blockSize)*blockData, e.size, (to+blockData-1)/blockData*blockData)
		b := buf[:place(stop)-place(start)]
		if n, err := f.ReadAt(b, place(start)); n < len(b) {
			if errors.Is(err, io.EOF) {
				return fmt.Errorf("octet %d and following: %w: the file ends before", start, errSum)
			}
			return err
		}
		for ; start < stop; start, block = start+blockData, block+1 {
			n := min(blockData, stop-start)
			want := e.sum
			if n == blockData {
				want = binary.BigEndian.Uint32(b[blockData:])
			}
			if crc32.Update(e.seed(block), castagnoli, b[:n]) != want {
				return fmt.Errorf("octets %d to %d: %w", start, start+n, errSum)
			}
			if begin, end := max(from, start), min(to, start+n); begin < end {
				yield(b[begin-start : end-start])
				from = end
			}
			b = b[min(blockSize, len(b)):]
		}
	}
	return nil
}
