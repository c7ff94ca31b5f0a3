package p1

import "google.golang.org/protobuf/encoding/protowire"

// Each Append function has a Size function that returns how many octets it will add, so
// that a buffer can be allocated in one piece. Except AppendHeader and AppendVarint they
// write nothing for a default value, as proto3 requires.

// AppendHeader appends key and length of a length-delimited field of n octets:
// the wrapper of a body, with msg_type as its number, or a nested message. The
// caller appends the n octets.
func AppendHeader(dst []byte, num uint64, n int) []byte {
	dst = protowire.AppendVarint(dst, num<<3|uint64(protowire.BytesType))
	return protowire.AppendVarint(dst, uint64(n))
}

// SizeHeader returns the size of the header and the n octets that follow it.
func SizeHeader(num uint64, n int) int {
	return sizeKey(num) + protowire.SizeBytes(n)
}

// AppendBytes appends a field of type bytes or string, unless v is empty.
func AppendBytes[T ~[]byte | ~string](dst []byte, num uint64, v T) []byte {
	if len(v) == 0 {
		return dst
	}
	return append(AppendHeader(dst, num, len(v)), v...)
}

// SizeBytes returns the number of octets that AppendBytes appends.
func SizeBytes[T ~[]byte | ~string](num uint64, v T) int {
	if len(v) == 0 {
		return 0
	}
	return SizeHeader(num, len(v))
}

// AppendUint appends a field of type uint32 or uint64, unless v is 0.
func AppendUint(dst []byte, num, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return AppendVarint(dst, num, v)
}

// SizeUint returns the number of octets that AppendUint appends.
func SizeUint(num, v uint64) int {
	if v == 0 {
		return 0
	}
	return SizeVarint(num, v)
}

// AppendBool appends a field of type bool, unless v is false.
func AppendBool(dst []byte, num uint64, v bool) []byte {
	if !v {
		return dst
	}
	return AppendVarint(dst, num, 1)
}

// SizeBool returns the number of octets that AppendBool appends.
func SizeBool(num uint64, v bool) int {
	if !v {
		return 0
	}
	return SizeVarint(num, 1)
}

// AppendVarint appends a field of a varint type, also with a default value, for fields with
// presence.
func AppendVarint(dst []byte, num, v uint64) []byte {
	dst = protowire.AppendVarint(dst, num<<3|uint64(protowire.VarintType))
	return protowire.AppendVarint(dst, v)
}

// SizeVarint returns the number of octets that AppendVarint appends.
func SizeVarint(num, v uint64) int {
	return sizeKey(num) + protowire.SizeVarint(v)
}

func sizeKey(num uint64) int { return protowire.SizeVarint(num << 3) }

// Bit returns the value of a field of type bool for AppendVarint.
func Bit(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}
