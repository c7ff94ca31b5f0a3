package e1

import "math/bits"

// MaxUvarintSize is the size of the longest uvarint in octets. An eleventh octet is
// refused. So is a tenth octet above 1, which would overflow 64 bits. Overlong forms of at
// most ten octets are legal.
const MaxUvarintSize = 10

// SizeUvarint returns the size of the shortest form of v.
func SizeUvarint(v uint64) int {
	return (bits.Len64(v|1) + 6) / 7
}

// AppendUvarint appends v to dst in its shortest form.
func AppendUvarint(dst []byte, v uint64) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// Uvarint reads a uvarint from the front of b and returns its value and its
// size. The error is ErrUvarintTruncated, ErrUvarintTooLong or
// ErrUvarintOverflow.
func Uvarint(b []byte) (v uint64, size int, err error) {
	for i, c := range b[:min(len(b), MaxUvarintSize)] {
		v |= uint64(c&0x7f) << (7 * i & 63)
		if c >= 0x80 {
			continue
		}
		if i == MaxUvarintSize-1 && c > 1 {
			return 0, 0, ErrUvarintOverflow
		}
		return v, i + 1, nil
	}
	// Ten octets with the continuation bit: an eleventh would be refused, so more input
	// cannot help.
	if len(b) >= MaxUvarintSize {
		return 0, 0, ErrUvarintTooLong
	}
	return 0, 0, ErrUvarintTruncated
}

// SizeBytes returns the size of a bytes field with n octets of content.
func SizeBytes(n int) int {
	return SizeUvarint(uint64(n)) + n
}

// AppendBytes appends b to dst as a bytes field: its length, then its octets.
func AppendBytes(dst, b []byte) []byte {
	return append(AppendUvarint(dst, uint64(len(b))), b...)
}

// decoder reads fields from the front of rest until the first error.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) uvarint(f Field) uint64 {
	if d.err != nil {
		return 0
	}
	// One octet is the common case and worth the line: versions, types, flags
	// and small lengths.
	if len(d.rest) > 0 && d.rest[0] < 0x80 {
		v := uint64(d.rest[0])
		d.rest = d.rest[1:]
		return v
	}
	v, n, err := Uvarint(d.rest)
	if err != nil {
		d.err = &Error{Field: f, Err: err}
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes(f Field) []byte {
	n := d.uvarint(f)
	if d.err != nil {
		return nil
	}
	// Compared as 64-bit numbers before narrowing: a length of 2^63 must not
	// become negative, nor 2^32+1 become 1 on a 32-bit machine.
	if n > uint64(len(d.rest)) {
		d.err = &Error{Field: f, Err: ErrTruncated, Value: n, Bound: uint64(len(d.rest))}
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}
