package nslip

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// Append appends m as text: the headers in their fixed order, then the slots in the order
// of m, integers without leading zeros, and only backslash and quote escaped. Its errors
// are *Error; then dst is returned unchanged.
func (c Codec) Append(dst []byte, m *Message) ([]byte, error) {
	if err := c.check(m); err != nil {
		return dst, err
	}
	start := len(dst)
	for i, v := range [...]uint64{uint64(m.Act), uint64(m.Frame), m.ConvID, m.Src, m.Dst, m.Turn} {
		sep := byte('|')
		if i == 0 {
			sep = '@'
		}
		dst = appendInteger(append(dst, sep, headers[i]), v)
	}
	for _, s := range m.Slots {
		dst = append(dst, '|', slots[s.Code.index()].letter)
		if s.Code.IsText() {
			if c.NoBars && bytes.IndexByte(s.Text, '|') >= 0 {
				return dst[:start], fault(BadString, "slot %s: a bar", s.Code)
			}
			dst = appendString(dst, s.Text)
		} else {
			dst = appendInteger(dst, s.Int)
		}
	}
	dst = append(dst, '#')
	if err := c.full(len(dst) - start); err != nil {
		return dst[:start], err
	}
	return dst, nil
}

// check says why a Message cannot be written.
func (c Codec) check(m *Message) error {
	if int(m.Act) >= len(acts) {
		return fault(BadAct, "%d, want at most %d", m.Act, len(acts)-1)
	}
	if int(m.Frame) >= len(frames) {
		return fault(BadFrame, "%d, want at most %d", m.Frame, len(frames)-1)
	}
	seen := uint32(0)
	for _, s := range m.Slots {
		i := s.Code.index()
		switch {
		case i < 0:
			return fault(UnknownPrefix, "slot %d", s.Code)
		case s.Code.IsText() && s.Int != 0, !s.Code.IsText() && s.Text != nil:
			return fault(BadType, "slot %s", s.Code)
		case seen&(1<<i) != 0:
			return fault(Duplicate, "slot %s", s.Code)
		case len(s.Text) > c.maxString():
			return fault(TooLong, "slot %s: %d octets, want at most %d", s.Code, len(s.Text), c.maxString())
		case !isString(s.Text):
			return fault(BadString, "slot %s: control characters, or octets that are no UTF-8", s.Code)
		}
		seen |= 1 << i
	}
	return nil
}

// isString reports whether text can be the text of a slot.
func isString(text []byte) bool {
	return !slices.ContainsFunc(text, isControl) && utf8.Valid(text)
}

func appendInteger(dst []byte, v uint64) []byte {
	var buf [11]byte // 62^11 > 2^64
	i := len(buf)
	for {
		i--
		buf[i] = digits[v%base]
		if v /= base; v == 0 {
			return append(dst, buf[i:]...)
		}
	}
}

func appendString(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, b := range text {
		if b == '"' || b == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, b)
	}
	return append(dst, '"')
}
