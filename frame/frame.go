// Package frame reads and writes the outermost layer of SWP: a stream of
// bodies, each after its length as an unsigned 32-bit big-endian number.
//
//	frame  := N (u32_be, 4 octets) || body (exactly N octets)
//	stream := frame*
//
// A body is one E1 envelope; package e1 reads it. The length counts the octets of the body
// only. A length of zero or above the limit is an error. So is a stream that ends inside a
// frame. After any error of this package except a read timeout (see Reader.Next) the stream
// cannot be resynchronised.
//
// Specification: SWP Core §2.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// HeaderSize is the size of the length prefix in octets.
const HeaderSize = 4

// DefaultLimit is MAX_FRAME_BYTES where no other limit is configured: 8 MiB.
const DefaultLimit = 8 << 20

// MaxLimit is the largest limit a Reader accepts, 1 GiB. A frame lives in
// memory as a whole, so larger ones would be a mistake on any machine.
const MaxLimit = 1 << 30

var (
	// ErrTruncated reports a stream that ended inside a prefix or a body.
	ErrTruncated = errors.New("frame: stream ends inside a frame")

	// ErrZeroLength reports a prefix of zero.
	ErrZeroLength = errors.New("frame: length 0, want at least 1")
)

// TooLargeError reports a prefix above the limit. The prefix alone decides: no octet of the
// body has been read, and no memory has been allocated for it.
type TooLargeError struct {
	Length uint32 // as the peer wrote it
	Limit  int    // in octets
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("frame: length %d exceeds limit %d", e.Length, e.Limit)
}

// AppendHeader appends the prefix of a body of n octets to dst. The caller must have
// checked n against the limit of the peer. AppendHeader panics if n is not between 1 and
// 2^32-1: a truncated length would desynchronise the stream.
func AppendHeader(dst []byte, n int) []byte {
	if n < 1 || uint64(n) > 1<<32-1 {
		panic(fmt.Sprintf("frame: AppendHeader: body of %d octets", n))
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

// Append appends a whole frame to dst: the prefix, then body.
func Append(dst, body []byte) []byte {
	return append(AppendHeader(dst, len(body)), body...)
}
