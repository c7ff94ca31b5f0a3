package nslip

import (
	"encoding/binary"
	"math"
)

// Fields of NSlipMessage and NSlipSlot, and wire types of proto3 (part D).
const (
	fieldConvID  = 1
	fieldTurn    = 2
	fieldSrc     = 3
	fieldDst     = 4
	fieldAct     = 5
	fieldFrame   = 6
	fieldSlots   = 7
	fieldVersion = 8

	fieldCode = 1
	fieldInt  = 2
	fieldText = 3

	wireVarint = 0
	wireI64    = 1
	wireLen    = 2
	wireI32    = 5
)

// AppendBinary appends m as an NSlipMessage in its one canonical form: fields ascending,
// zeros omitted, shortest varints. Its errors are *Error; then dst is returned unchanged.
func (c Codec) AppendBinary(dst []byte, m *Message) ([]byte, error) {
	if err := c.check(m); err != nil {
		return dst, err
	}
	start := len(dst)
	for i, v := range [...]uint64{m.ConvID, m.Turn, m.Src, m.Dst, uint64(m.Act), uint64(m.Frame)} {
		if v != 0 {
			dst = appendVarint(dst, i+1, v)
		}
	}
	for _, s := range m.Slots {
		dst = appendSlot(dst, s)
	}
	if err := c.full(len(dst) - start); err != nil {
		return dst[:start], err
	}
	return dst, nil
}

func appendSlot(dst []byte, s Slot) []byte {
	n := 0
	if s.Code != 0 {
		n = 1 + sizeVarint(uint64(s.Code))
	}
	if s.Code.IsText() {
		n += 1 + sizeVarint(uint64(len(s.Text))) + len(s.Text)
	} else {
		n += 1 + sizeVarint(s.Int)
	}
	dst = appendLen(dst, fieldSlots, n)
	if s.Code != 0 {
		dst = appendVarint(dst, fieldCode, uint64(s.Code))
	}
	if s.Code.IsText() {
		return append(appendLen(dst, fieldText, len(s.Text)), s.Text...)
	}
	return appendVarint(dst, fieldInt, s.Int) // also a zero, because the field has presence
}

func appendVarint(dst []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(append(dst, byte(field<<3|wireVarint)), v)
}

func appendLen(dst []byte, field, n int) []byte {
	return binary.AppendUvarint(append(dst, byte(field<<3|wireLen)), uint64(n))
}

func sizeVarint(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// ParseBinary reads an NSlipMessage into m, replacing its contents. Fields may have any
// order; unknown ones are skipped, repeated ones refused. The strings of m are windows into
// b, valid as long as b does not change. Its errors are *Error; then the content of m is
// undefined.
func (c Codec) ParseBinary(m *Message, b []byte) error {
	if err := c.full(len(b)); err != nil {
		return err
	}
	m.reset()
	var heads [6]uint64 // in the order of headers
	seen, taken := uint32(0), uint32(0)
	for f := (proto{rest: b}); ; {
		ok, err := f.next()
		if err != nil {
			return err
		}
		if !ok {
			return m.setHeaders(heads)
		}
		if f.num == fieldSlots {
			err = m.readSlot(&f, &taken)
		} else if f.num >= fieldConvID && f.num <= fieldVersion {
			err = f.once(&seen, wireVarint)
		}
		if err != nil {
			return err
		}
		switch f.num {
		case fieldConvID:
			heads[2] = f.value
		case fieldTurn:
			heads[5] = f.value
		case fieldSrc:
			heads[3] = f.value
		case fieldDst:
			heads[4] = f.value
		case fieldAct:
			heads[0] = f.value
		case fieldFrame:
			heads[1] = f.value
		case fieldVersion:
			if f.value != 0 {
				return fault(BadVersion, "schema_version %d, want 0", f.value)
			}
		}
	}
}

// readSlot reads an NSlipSlot. taken has a bit for each slot that was read.
func (m *Message) readSlot(f *proto, taken *uint32) error {
	if f.wire != wireLen {
		return fault(Framing, "slots: wire type %d", f.wire)
	}
	var code uint64
	s := Slot{}
	seen := uint32(0)
	for in := (proto{rest: f.bytes}); ; {
		ok, err := in.next()
		if err == nil && ok {
			switch in.num {
			case fieldCode:
				err, code = in.once(&seen, wireVarint), in.value
			case fieldInt:
				err, s.Int = in.once(&seen, wireVarint), in.value
			case fieldText:
				err, s.Text = in.once(&seen, wireLen), in.bytes
			}
		}
		if err != nil {
			return err
		}
		if !ok {
			break
		}
	}
	s.Code = Code(min(code, math.MaxUint32))
	i := s.Code.index()
	hasInt, hasText := seen&(1<<fieldInt) != 0, seen&(1<<fieldText) != 0
	switch {
	case i < 0:
		return fault(UnknownPrefix, "slot %d", code)
	case hasText == hasInt:
		return fault(BadType, "slot %s: want one value", s.Code)
	case hasText && !isString(s.Text):
		return fault(BadString, "slot %s: control characters, or octets that are no UTF-8", s.Code)
	case hasText != s.Code.IsText():
		return fault(BadType, "slot %s", s.Code)
	case *taken&(1<<i) != 0:
		return fault(Duplicate, "slot %s", s.Code)
	}
	*taken |= 1 << i
	m.Slots = append(m.Slots, s)
	return nil
}

// proto walks the fields of a message of proto3.
type proto struct {
	rest  []byte
	num   uint64
	wire  uint64
	value uint64 // of a varint
	bytes []byte // of a field with a length; never nil
}

// next reads one field. ok is false at the end.
func (f *proto) next() (ok bool, err error) {
	if len(f.rest) == 0 {
		return false, nil
	}
	key, err := f.varint()
	if err != nil {
		return false, err
	}
	f.num, f.wire = key>>3, key&7
	if f.num == 0 || f.num > 1<<29-1 {
		return false, fault(Framing, "field %d", f.num)
	}
	var n uint64
	switch f.wire {
	case wireVarint:
		f.value, err = f.varint()
		return err == nil, err
	case wireI64:
		n = 8
	case wireI32:
		n = 4
	case wireLen:
		if n, err = f.varint(); err != nil {
			return false, err
		}
	default: // groups, which proto3 does not have
		return false, fault(Framing, "wire type %d", f.wire)
	}
	if n > uint64(len(f.rest)) {
		return false, fault(Framing, "field %d has %d octets of %d", f.num, len(f.rest), n)
	}
	f.bytes, f.rest = f.rest[:n:n], f.rest[n:]
	return true, nil
}

func (f *proto) varint() (uint64, error) {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		return 0, fault(Framing, "no varint")
	}
	f.rest = f.rest[n:]
	return v, nil
}

// once checks the wire type of a field that may occur once.
func (f *proto) once(seen *uint32, wire uint64) error {
	switch {
	case f.wire != wire:
		return fault(Framing, "field %d: wire type %d, want %d", f.num, f.wire, wire)
	case *seen&(1<<f.num) != 0:
		return fault(Duplicate, "field %d", f.num)
	}
	*seen |= 1 << f.num
	return nil
}
