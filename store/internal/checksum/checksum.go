// Package checksum is the checksum of the rows of an engine.
package checksum

import (
	"encoding/binary"
	"hash/crc32"
)

// Castagnoli is the CRC polynomial with hardware support.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the checksum of a row: CRC-32C of its table, its numbers, its names, each with its
// length, and its value. It includes the key, so that no row passes for another one. The returned
// scratch is the memory for the next call.
func Sum(scratch []byte, table byte, numbers []int64, value []byte, names ...[]byte) (sum int64, _ []byte) {
	b := append(scratch[:0], table)
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, name := range names {
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
	}
	return int64(crc32.Update(crc32.Checksum(b, Castagnoli), Castagnoli, value)), b
}

// Values of table for Sum.
const (
	State  = 's'
	Owner  = 'o'
	Record = 'r'
	Log    = 'l'
	Entry  = 'e'
	Line   = 'q'
	Item   = 'i'
	Body   = 'b'
)
