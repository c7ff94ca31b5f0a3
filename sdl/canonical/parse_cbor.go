package canonical

import (
	"math"
	"unicode/utf8"
)

// ParseCBOR returns the value of CBOR in the data model of JSON (A2A-SDL §3.2): text as
// names, definite or indefinite lengths, octet strings in bignums only, no other tags, no
// undefined or simple values, finite floats, unique names, no trailing octets. The input
// need not be canonical. The value does not alias octets. Other CBOR is a *SyntaxError; a
// value above one of the bounds is a *ValueError. Time and memory are linear in the length
// of octets.
func ParseCBOR(octets []byte) (Value, error) {
	p := cborParser{octets: octets, stacks: newStacks()}
	return p.whole()
}

// whole reads the one value of octets.
func (p *cborParser) whole() (Value, error) {
	v, err := p.value(1)
	if err != nil {
		return Value{}, err
	}
	if p.at < len(p.octets) {
		return Value{}, p.syntax("data after the value")
	}
	return v, nil
}

type cborParser struct {
	octets []byte
	at     int
	stacks
	scratch []byte // of a string in pieces
}

func (p *cborParser) syntax(reason string) error       { return &SyntaxError{p.at, reason} }
func (p *cborParser) unacceptable(reason string) error { return &ValueError{p.at, reason} }

// head is the beginning of a data item.
type head struct {
	major      byte
	info       byte   // the lower five bits
	argument   uint64 // a number, a length, a tag, the bits of a float
	indefinite bool   // unknown length, or a break
}

func (p *cborParser) head() (h head, err error) {
	if p.at == len(p.octets) {
		return h, p.syntax("the item ends early")
	}
	first := p.octets[p.at]
	h.major, h.info = first&0xe0, first&0x1f
	switch {
	case h.info < 24:
		p.at++
		h.argument = uint64(h.info)
		return h, nil
	case h.info == 31:
		p.at++
		h.indefinite = true
		return h, nil
	case h.info > 27:
		return h, p.syntax("a head that is reserved")
	}
	size := 1 << (h.info - 24)
	if len(p.octets)-p.at-1 < size {
		return h, p.syntax("the item ends early")
	}
	for _, c := range p.octets[p.at+1 : p.at+1+size] {
		h.argument = h.argument<<8 | uint64(c)
	}
	p.at += 1 + size
	return h, nil
}

// ends consumes a break if it comes next, and reports whether it did.
func (p *cborParser) ends() bool {
	if p.at < len(p.octets) && p.octets[p.at] == cborBreak {
		p.at++
		return true
	}
	return false
}

func (p *cborParser) value(depth int) (Value, error) {
	h, err := p.head()
	if err != nil {
		return Value{}, err
	}
	if p.values++; p.values > MaxValues {
		return Value{}, p.unacceptable("too many values")
	}
	if depth > MaxDepth && (h.major == majorArray || h.major == majorMap) {
		return Value{}, p.unacceptable("nested too deep")
	}
	switch h.major {
	case majorUnsigned, majorNegative:
		if h.indefinite {
			return Value{}, p.syntax("an integer without a value")
		}
		return unsigned(h.argument, h.major == majorNegative), nil
	case majorText:
		s, err := p.text(h)
		return Value{kind: KindString, num: uint64(escaping(s)), text: s}, err
	case majorArray:
		return p.array(h, depth)
	case majorMap:
		return p.object(h, depth)
	case majorTag:
		return p.tagged(h)
	case majorBytes:
		return Value{}, p.syntax("octets are no value of JSON")
	}
	return p.other(h)
}

func (p *cborParser) array(h head, depth int) (Value, error) {
	if h.argument > uint64(len(p.octets)-p.at) {
		return Value{}, p.syntax("the item ends early")
	}
	base := len(p.elements)
	for n := uint64(0); h.indefinite && !p.ends() || n < h.argument; n++ {
		v, err := p.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		p.pushElement(v)
	}
	return p.popArray(base), nil
}

func (p *cborParser) object(h head, depth int) (Value, error) {
	if h.argument > uint64(len(p.octets)-p.at)/2 {
		return Value{}, p.syntax("the item ends early")
	}
	base := len(p.members)
	for n := uint64(0); h.indefinite && !p.ends() || n < h.argument; n++ {
		name, err := p.head()
		if err != nil {
			return Value{}, err
		}
		if name.major != majorText {
			return Value{}, p.syntax("a name that is no text")
		}
		s, err := p.text(name)
		if err != nil {
			return Value{}, err
		}
		p.enter(depth, s)
		v, err := p.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		p.pushMember(depth, s, v)
	}
	v, ok := p.popObject(base)
	if !ok {
		return Value{}, p.syntax("a name twice in one map")
	}
	return v, nil
}

// tagged reads what follows a tag.
func (p *cborParser) tagged(tag head) (Value, error) {
	if tag.indefinite || tag.argument != tagPositive && tag.argument != tagNegative {
		return Value{}, p.syntax("a tag that is no value of JSON")
	}
	h, err := p.head()
	if err != nil {
		return Value{}, err
	}
	if h.major != majorBytes {
		return Value{}, p.syntax("a bignum without octets")
	}
	octets, err := p.string(h, false)
	if err != nil {
		return Value{}, err
	}
	v, ok := bignum(octets, tag.argument == tagNegative)
	if !ok {
		return Value{}, p.unacceptable("an integer with too many digits")
	}
	return v, nil
}

// other reads null, booleans and floats.
func (p *cborParser) other(h head) (Value, error) {
	var f float64
	ok := true
	switch h.major | h.info {
	case cborFalse, cborTrue:
		return Bool(h.info == cborTrue&0x1f), nil
	case cborNull:
		return Value{}, nil
	case cborHalf:
		f, ok = fromHalf(uint16(h.argument))
	case cborFloat:
		f = float64(math.Float32frombits(uint32(h.argument)))
	case cborWide:
		f = math.Float64frombits(h.argument)
	default:
		return Value{}, p.syntax("a simple value that JSON has not")
	}
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}, p.syntax("a float that JSON has not")
	}
	return Float(f), nil
}

func (p *cborParser) text(h head) (string, error) {
	octets, err := p.string(h, true)
	return string(octets), err
}

// string reads the octets of a string, valid until the next call. Each chunk of a text must
// be valid UTF-8 (RFC 8949 §3.2.3).
func (p *cborParser) string(h head, text bool) ([]byte, error) {
	if !h.indefinite {
		return p.piece(h, text)
	}
	p.scratch = p.scratch[:0]
	for !p.ends() {
		inner, err := p.head()
		if err != nil {
			return nil, err
		}
		if inner.major != h.major || inner.indefinite {
			return nil, p.syntax("a string with a piece that is none")
		}
		octets, err := p.piece(inner, text)
		if err != nil {
			return nil, err
		}
		p.scratch = append(p.scratch, octets...)
	}
	return p.scratch, nil
}

func (p *cborParser) piece(h head, text bool) ([]byte, error) {
	if h.argument > uint64(len(p.octets)-p.at) {
		return nil, p.syntax("the item ends early")
	}
	octets := p.octets[p.at : p.at+int(h.argument)]
	if text && !utf8.Valid(octets) {
		return nil, p.syntax("not UTF-8")
	}
	p.at += int(h.argument)
	return octets, nil
}
