package sqlstore

import (
	"encoding/binary"
	"hash/crc32"
)

// castagnoli is the CRC polynomial with hardware support.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum returns the checksum of a row: CRC-32C of its table, its numbers, its names, each
// with its length, and its value. It includes the key, so that no row passes for another
// one.
func (c *conn) sum(table byte, numbers []int64, value []byte, names ...[]byte) int64 {
	b := append(c.scratch[:0], table)
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, name := range names {
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
	}
	c.scratch = b
	return int64(crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, value))
}

// Values of table for sum.
const (
	sumState  = 's'
	sumOwner  = 'o'
	sumRecord = 'r'
	sumLog    = 'l'
	sumEntry  = 'e'
	sumLine   = 'q'
	sumItem   = 'i'
	sumBody   = 'b'
)
