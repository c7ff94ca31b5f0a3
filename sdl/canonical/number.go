package canonical

import (
	"bytes"
	"math"
	"strconv"
)

// integer returns the integer with these decimal digits, at least one and at
// most MaxDigits, without leading zeros.
func integer(negative bool, digits []byte) Value {
	if len(digits) < 19 { // below 10^18, so in an int64
		n := int64(0)
		for _, c := range digits {
			n = 10*n + int64(c-'0')
		}
		if negative {
			n = -n
		}
		return Int(n)
	}
	text := string(digits)
	if negative {
		text = "-" + text
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return Int(n)
	}
	return Value{kind: KindInteger, big: true, text: text}
}

// nearest returns the float that is nearest to an integer.
func nearest(digits string) float64 {
	f, _ := strconv.ParseFloat(digits, 64) // infinite beyond the range
	return f
}

// appendNumber writes a number as canonical JSON.
func (v *Value) appendNumber(dst []byte) []byte {
	switch {
	case v.kind == KindFloat:
		return appendFloat(dst, math.Float64frombits(v.num))
	case v.big:
		return append(dst, v.text...)
	}
	return strconv.AppendInt(dst, int64(v.num), 10)
}

// appendFloat writes the shortest digits that read back as f: positional with a
// fraction while the exponent is between -4 and 15, else scientific.
func appendFloat(dst []byte, f float64) []byte {
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if bytes.IndexByte(dst[start:], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	return dst
}
