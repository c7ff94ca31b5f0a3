package canonical

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// Major types of CBOR (RFC 8949 §3.1), in the top three bits of a head.
const (
	majorUnsigned = iota << 5
	majorNegative
	majorBytes
	majorText
	majorArray
	majorMap
	majorTag
	majorOther
)

// Initial octets of values without an argument, and the tags of bignums.
const (
	cborFalse = majorOther | 20
	cborTrue  = majorOther | 21
	cborNull  = majorOther | 22
	cborHalf  = majorOther | 25
	cborFloat = majorOther | 26
	cborWide  = majorOther | 27
	cborBreak = majorOther | 31

	tagPositive = 2
	tagNegative = 3
)

// AppendCBOR appends v as canonical CBOR (A2A-SDL §3.2): definite lengths, the
// shortest heads and floats, members in the order of their encoded names.
func (v Value) AppendCBOR(dst []byte) []byte {
	switch v.kind {
	case KindNull:
		return append(dst, cborNull)
	case KindBool:
		return append(dst, cborFalse+byte(v.num))
	case KindInteger:
		switch i := int64(v.num); {
		case v.big:
			return appendBig(dst, v.text)
		case i < 0:
			return appendHead(dst, majorNegative, ^uint64(i))
		default:
			return appendHead(dst, majorUnsigned, uint64(i))
		}
	case KindFloat:
		return appendShortest(dst, math.Float64frombits(v.num))
	case KindString:
		return appendText(dst, v.text)
	case KindArray:
		dst = appendHead(dst, majorArray, uint64(v.Len()))
		if v.node != nil {
			for i := range v.node.elements {
				dst = v.node.elements[i].AppendCBOR(dst)
			}
		}
		return dst
	}
	dst = appendHead(dst, majorMap, uint64(v.Len()))
	if v.node != nil {
		dst = appendMembers(dst, v.node.members)
	}
	return dst
}

// appendMembers writes members, which are sorted by name. A longer name has a greater head,
// so encoded names are ordered by length first.
func appendMembers(dst []byte, members []Member) []byte {
	var few [32]int // most objects fit, so nothing is allocated
	order := few[:0]
	for i := range members {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(members[a].Name), len(members[b].Name)) })
	for _, i := range order {
		dst = appendText(dst, members[i].Name)
		dst = members[i].Value.AppendCBOR(dst)
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(appendHead(dst, majorText, uint64(len(s))), s...)
}

// appendHead writes the shortest head.
func appendHead(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n <= math.MaxUint8:
		return append(dst, major|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), n)
}

// appendBig writes an integer beyond int64: with a head as long as 64 bits
// suffice, else as bignum. A negative n is written as -1-n.
func appendBig(dst []byte, digits string) []byte {
	n, _ := new(big.Int).SetString(digits, 10)
	major, tag := byte(majorUnsigned), uint64(tagPositive)
	if n.Sign() < 0 {
		major, tag = majorNegative, tagNegative
		n.Not(n)
	}
	if n.IsUint64() {
		return appendHead(dst, major, n.Uint64())
	}
	octets := n.Bytes()
	dst = appendHead(appendHead(dst, majorTag, tag), majorBytes, uint64(len(octets)))
	return append(dst, octets...)
}

// appendShortest writes the shortest float that has the value of f.
func appendShortest(dst []byte, f float64) []byte {
	single := float32(f)
	if float64(single) != f {
		return binary.BigEndian.AppendUint64(append(dst, cborWide), math.Float64bits(f))
	}
	if half, ok := toHalf(single); ok {
		return binary.BigEndian.AppendUint16(append(dst, cborHalf), half)
	}
	return binary.BigEndian.AppendUint32(append(dst, cborFloat), math.Float32bits(single))
}

// toHalf returns a finite f as binary16. ok is false if binary16 cannot represent f
// exactly.
func toHalf(f float32) (half uint16, ok bool) {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	exponent := int(bits>>23&0xff) - 127
	fraction := bits & 0x7f_ffff
	switch {
	case bits<<1 == 0:
		return sign, true
	case -14 <= exponent && exponent <= 15: // 10 of 23 bits of the fraction
		return sign | uint16(exponent+15)<<10 | uint16(fraction>>13), fraction&0x1fff == 0
	case -24 <= exponent && exponent < -14: // subnormal: a multiple of 2^-24
		shift := -1 - exponent // 23 - (exponent + 24)
		whole := fraction | 1<<23
		return sign | uint16(whole>>shift), whole&(1<<shift-1) == 0
	}
	return 0, false
}

// fromHalf returns the value of a binary16; ok is false if it is not finite.
func fromHalf(half uint16) (f float64, ok bool) {
	exponent, fraction := int(half>>10&0x1f), float64(half&0x3ff)
	switch exponent {
	case 0x1f:
		return 0, false
	case 0:
		f = math.Ldexp(fraction, -24)
	default:
		f = math.Ldexp(1024+fraction, exponent-25)
	}
	if half&0x8000 != 0 {
		f = math.Copysign(f, -1)
	}
	return f, true
}

// bignum returns the integer of a bignum; ok is false if it has too many digits.
func bignum(octets []byte, negative bool) (v Value, ok bool) {
	const longest = MaxDigits * 416 / 1000 // octets, above log256(10) a digit
	n := new(big.Int)
	for len(octets) > 0 && octets[0] == 0 {
		octets = octets[1:]
	}
	if len(octets) > longest {
		return Value{}, false
	}
	if n.SetBytes(octets); negative {
		n.Not(n)
	}
	var scratch [64]byte
	digits := n.Append(scratch[:0], 10)
	if negative {
		digits = digits[1:]
	}
	if len(digits) > MaxDigits {
		return Value{}, false
	}
	return integer(negative, digits), true
}

// unsigned returns n, or -1-n.
func unsigned(n uint64, negative bool) Value {
	switch {
	case n > math.MaxInt64 && negative:
		v, _ := bignum(binary.BigEndian.AppendUint64(nil, n), true)
		return v
	case n > math.MaxInt64:
		return Value{kind: KindInteger, big: true, text: strconv.FormatUint(n, 10)}
	case negative:
		return Int(^int64(n))
	}
	return Int(int64(n))
}
