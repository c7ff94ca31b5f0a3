package p1

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Bounds of a message. No schema comes near them.
const (
	MaxDepth  = 16      // how deep groups may nest
	MaxFields = 1 << 14 // fields in one message, those in groups included
)

// Fields walks over the fields of one message in the order of the wire:
//
//	f := p1.Read(body)
//	for f.Next() {
//		switch f.Num() {
//		case 1:
//			f.Bytes(&m.RPCID)
//		case 3:
//			f.Bool(&m.Retryable)
//		}
//	}
//	return f.Err()
//
// Fields that the caller does not name are unknown fields: their structure is checked and
// they are dropped. A message with more than MaxFields fields is refused, so that a flood of
// tiny fields is cheap. A repeated occurrence of a singular field replaces the earlier one,
// as in proto3. Slices are windows into the message with limited capacity, so an append
// copies. Nothing is allocated unless Message has to merge.
type Fields struct {
	rest  []byte // what follows the present field
	from  []byte // the message from the present field on
	data  []byte // value of a length-delimited field
	value uint64 // value of a varint field
	num   uint64
	typ   protowire.Type
	count int // keys read
	err   error
}

// Read returns the fields of a message.
func Read(message []byte) Fields { return Fields{rest: message} }

// Next moves to the next field. It returns false at the end and at the first
// fault, which Err returns.
func (f *Fields) Next() bool {
	f.from = f.rest
	if !f.token() {
		return false
	}
	switch f.typ {
	case protowire.StartGroupType:
		f.skipGroup()
	case protowire.EndGroupType:
		f.fail(DetailGroup, "field %d: group ends that never began", f.num)
	}
	return f.err == nil
}

// Num returns the number of the present field.
func (f *Fields) Num() uint64 { return f.num }

// Raw returns the octets of the present field, its key included: for callers
// that copy unknown fields.
func (f *Fields) Raw() []byte {
	n := len(f.from) - len(f.rest)
	return f.from[:n:n]
}

// Err returns the first fault, nil if there was none.
func (f *Fields) Err() error { return f.err }

// Bytes reads a field of type bytes into dst, or one element of a repeated
// field of messages.
func (f *Fields) Bytes(dst *[]byte) {
	if f.is(protowire.BytesType) {
		*dst = f.data
	}
}

// Octets is Bytes into a string, which is a copy.
func (f *Fields) Octets(dst *string) {
	var b []byte
	f.Bytes(&b)
	*dst = string(b)
}

// Text reads a field of type string into dst. Octets that are not UTF-8 are
// refused.
func (f *Fields) Text(dst *[]byte) {
	if !f.is(protowire.BytesType) {
		return
	}
	if !utf8.Valid(f.data) {
		f.fail(DetailUTF8, "field %d: not UTF-8", f.num)
		return
	}
	*dst = f.data
}

// Message reads a singular field of message type into dst, which is nil before the first
// occurrence. Further occurrences are merged, as proto3 requires, by concatenation; only
// then dst is allocated.
func (f *Fields) Message(dst *[]byte) {
	if !f.is(protowire.BytesType) || *dst != nil && len(f.data) == 0 {
		return
	}
	if *dst == nil {
		*dst = f.data
		return
	}
	// Each piece must be complete: otherwise an incomplete end could be completed by the
	// next piece.
	if err := Check(f.data); err != nil {
		f.err = err
		return
	}
	if cap(*dst)-len(*dst) < len(f.data) {
		// A window has no spare capacity, so this is the first merge. Allocate for all that
		// can follow: at most the octets that have arrived.
		if f.err = Check(*dst); f.err != nil {
			return
		}
		whole := make([]byte, len(*dst), len(*dst)+len(f.data)+len(f.rest))
		copy(whole, *dst)
		*dst = whole
	}
	*dst = append(*dst, f.data...)
}

// Uint64 reads a field of type uint64 into dst.
func (f *Fields) Uint64(dst *uint64) {
	if f.is(protowire.VarintType) {
		*dst = f.value
	}
}

// Uint32 reads a field of type uint32 into dst: the low 32 bits of its value.
func (f *Fields) Uint32(dst *uint32) {
	if f.is(protowire.VarintType) {
		*dst = uint32(f.value)
	}
}

// Bool reads a field of type bool into dst. Any value but 0 is true.
func (f *Fields) Bool(dst *bool) {
	if f.is(protowire.VarintType) {
		*dst = f.value != 0
	}
}

// is refuses a known field of another wire type.
func (f *Fields) is(want protowire.Type) bool {
	if f.err == nil && f.typ != want {
		f.fail(DetailWireType, "field %d: wire type %d, want %d", f.num, f.typ, want)
	}
	return f.err == nil
}

// token reads one key and, unless it begins or ends a group, its value.
func (f *Fields) token() bool {
	if len(f.rest) == 0 || f.err != nil {
		return false
	}
	if f.count++; f.count > MaxFields {
		return f.fail(DetailCount, "more than %d fields", MaxFields)
	}
	tag, ok := f.varint()
	if !ok {
		return false
	}
	f.num, f.typ = tag>>3, protowire.Type(tag&7)
	if f.num == 0 || f.num > uint64(protowire.MaxValidNumber) {
		return f.fail(DetailFieldNumber, "field number %d, want 1 to %d", f.num, protowire.MaxValidNumber)
	}
	switch f.typ {
	case protowire.BytesType:
		n, ok := f.varint()
		if !ok {
			return false
		}
		// Compare as 64-bit numbers before narrowing.
		if n > uint64(len(f.rest)) {
			return f.fail(DetailTruncated, "field %d: length %d, only %d octets follow", f.num, n, len(f.rest))
		}
		f.data, f.rest = f.rest[:n:n], f.rest[n:]
		return true
	case protowire.VarintType:
		f.value, ok = f.varint()
		return ok
	case protowire.Fixed32Type:
		return f.skip(4)
	case protowire.Fixed64Type:
		return f.skip(8)
	case protowire.StartGroupType, protowire.EndGroupType:
		return true
	}
	return f.fail(DetailWireType, "field %d: wire type %d does not exist", f.num, f.typ)
}

// varint reads a varint from the front of rest. Most are one octet long.
func (f *Fields) varint() (uint64, bool) {
	if len(f.rest) > 0 && f.rest[0] < 0x80 {
		v := uint64(f.rest[0])
		f.rest = f.rest[1:]
		return v, true
	}
	v, n := protowire.ConsumeVarint(f.rest)
	if n < 0 {
		if len(f.rest) >= 10 {
			return 0, f.fail(DetailOverflow, "varint of more than 64 bits")
		}
		return 0, f.fail(DetailTruncated, "message ends inside a field")
	}
	f.rest = f.rest[n:]
	return v, true
}

func (f *Fields) skip(n int) bool {
	if len(f.rest) < n {
		return f.fail(DetailTruncated, "field %d: message ends inside a value of %d octets", f.num, n)
	}
	f.rest = f.rest[n:]
	return true
}

// skipGroup skips to the end of the group that has just begun. Afterwards the
// present field is the group as a whole.
func (f *Fields) skipGroup() {
	var open [MaxDepth]uint64
	open[0] = f.num
	for depth := 1; depth > 0; {
		if !f.token() {
			if f.err == nil {
				f.fail(DetailTruncated, "field %d: group without an end", open[0])
			}
			return
		}
		switch f.typ {
		case protowire.StartGroupType:
			if depth == MaxDepth {
				f.fail(DetailGroup, "groups nested deeper than %d", MaxDepth)
				return
			}
			open[depth] = f.num
			depth++
		case protowire.EndGroupType:
			depth--
			if f.num != open[depth] {
				f.fail(DetailGroup, "field %d: group ended as field %d", open[depth], f.num)
				return
			}
		}
	}
	f.num, f.typ = open[0], protowire.StartGroupType
}

// fail keeps the first fault. It returns false.
func (f *Fields) fail(detail, format string, args ...any) bool {
	if f.err == nil {
		f.err = refuse(detail, format, args...)
	}
	return false
}
