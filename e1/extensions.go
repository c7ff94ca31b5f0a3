package e1

import "iter"

// Extensions is an extension block as it stands on the wire, possibly empty:
//
//	extensions := entry* ;  entry := ext_type(uvarint) || ext_value(bytes)
//
// Unknown types are skipped by their length. Repeated types are allowed and
// keep their order.
//
// Specification: SWP Core §3.3.
type Extensions []byte

// All yields type and value of each entry in order, up to the first malformed
// one; a block that Decode accepted has none. Values alias the block.
func (x Extensions) All() iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		d := decoder{rest: x}
		for len(d.rest) > 0 {
			typ, value := d.uvarint(FieldExtensions), d.bytes(FieldExtensions)
			if d.err != nil || !yield(typ, value) {
				return
			}
		}
	}
}

// Lookup returns the value of the first entry of a type. The value aliases the
// block.
func (x Extensions) Lookup(typ uint64) (value []byte, ok bool) {
	d := decoder{rest: x}
	for len(d.rest) > 0 && d.err == nil {
		t, v := d.uvarint(FieldExtensions), d.bytes(FieldExtensions)
		if d.err == nil && t == typ {
			return v, true
		}
	}
	return nil, false
}

// LookupUvarint returns the value of the first entry of a type as the uvarint
// that it consists of. An entry that is not exactly one uvarint counts as
// absent.
func (x Extensions) LookupUvarint(typ uint64) (uint64, bool) {
	b, ok := x.Lookup(typ)
	if !ok {
		return 0, false
	}
	v, n, err := Uvarint(b)
	return v, err == nil && n == len(b)
}

// AppendExtension appends one entry to a block.
func AppendExtension(dst Extensions, typ uint64, value []byte) Extensions {
	return AppendBytes(AppendUvarint(dst, typ), value)
}

// AppendExtensionUvarint appends one entry whose value is a uvarint.
func AppendExtensionUvarint(dst Extensions, typ, value uint64) Extensions {
	dst = AppendUvarint(dst, typ)
	dst = AppendUvarint(dst, uint64(SizeUvarint(value)))
	return AppendUvarint(dst, value)
}

// check refuses a block above limit without looking into it, then one that its
// entries do not fill exactly.
func (x Extensions) check(limit int) error {
	if len(x) > limit {
		return tooLarge(FieldExtensions, ErrExtensionsTooLarge, len(x), limit)
	}
	d := decoder{rest: x}
	for len(d.rest) > 0 && d.err == nil {
		d.uvarint(FieldExtensions)
		d.bytes(FieldExtensions)
	}
	return d.err
}
