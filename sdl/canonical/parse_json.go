package canonical

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ParseJSON returns the value of a JSON text: RFC 8259 in UTF-8 without a byte order mark,
// with unique member names. The value does not alias text. Errors are *SyntaxError or
// *ValueError. If a text has both kinds of faults, the *SyntaxError is returned, unless a
// bound was exceeded before. Time and memory are linear in the length of text.
func ParseJSON(text []byte) (Value, error) {
	if !utf8.Valid(text) {
		return Value{}, &SyntaxError{0, "not UTF-8"}
	}
	p := jsonParser{text: text, stacks: newStacks()}
	return p.whole()
}

// whole reads the one value of a text.
func (p *jsonParser) whole() (Value, error) {
	v, err := p.value(1)
	if err != nil {
		return Value{}, err
	}
	if p.blanks(); p.at < len(p.text) {
		return Value{}, p.syntax("data after the value")
	}
	if p.invalid != nil {
		return Value{}, p.invalid
	}
	return v, nil
}

// jsonParser reads text from at. The parts of incomplete arrays and objects are on stacks,
// so that a complete one is allocated with its exact size.
type jsonParser struct {
	text []byte
	at   int
	stacks
	scratch []byte // of a string with escapes
	invalid error  // the first *ValueError; parsing continues after it
}

func (p *jsonParser) syntax(reason string) error       { return &SyntaxError{p.at, reason} }
func (p *jsonParser) unacceptable(reason string) error { return &ValueError{p.at, reason} }

// note records a *ValueError. Parsing continues, because a later *SyntaxError takes
// precedence.
func (p *jsonParser) note(reason string) {
	if p.invalid == nil {
		p.invalid = p.unacceptable(reason)
	}
}

// blanks skips white space.
func (p *jsonParser) blanks() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// next returns the first octet after white space, 0 at the end: a zero octet cannot occur
// outside strings.
func (p *jsonParser) next() byte {
	if p.blanks(); p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *jsonParser) value(depth int) (Value, error) {
	if p.values++; p.values > MaxValues {
		return Value{}, p.unacceptable("too many values")
	}
	switch c := p.next(); {
	case c == '"':
		s, err := p.string()
		return Value{kind: KindString, num: uint64(escaping(s)), text: s}, err
	case c == '{' || c == '[':
		if depth > MaxDepth {
			return Value{}, p.unacceptable("nested too deep")
		}
		if p.at++; c == '{' {
			return p.object(depth)
		}
		return p.array(depth)
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	case c == 't':
		return Bool(true), p.literal("true")
	case c == 'f':
		return Bool(false), p.literal("false")
	case c == 'n':
		return Value{}, p.literal("null")
	case p.at == len(p.text):
		return Value{}, p.syntax("the text ends early")
	}
	return Value{}, p.syntax("no value of JSON begins like this")
}

func (p *jsonParser) literal(s string) error {
	if !bytes.HasPrefix(p.text[p.at:], []byte(s)) {
		return p.syntax("no value of JSON begins like this")
	}
	p.at += len(s)
	return nil
}

func (p *jsonParser) array(depth int) (Value, error) {
	base := len(p.elements)
	if p.next() == ']' {
		p.at++
		return Value{kind: KindArray}, nil
	}
	for {
		v, err := p.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		p.pushElement(v)
		switch p.next() {
		case ',':
			p.at++
		case ']':
			p.at++
			return p.popArray(base), nil
		default:
			return Value{}, p.syntax("an array goes on with a comma or ends")
		}
	}
}

func (p *jsonParser) object(depth int) (Value, error) {
	base := len(p.members)
	if p.next() == '}' {
		p.at++
		return Value{kind: KindObject}, nil
	}
	for {
		if p.next() != '"' {
			return Value{}, p.syntax("a member begins with its name")
		}
		name, err := p.string()
		if err != nil {
			return Value{}, err
		}
		if p.next() != ':' {
			return Value{}, p.syntax("a colon follows a name")
		}
		p.at++
		p.enter(depth, name)
		v, err := p.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		p.pushMember(depth, name, v)
		switch p.next() {
		case ',':
			p.at++
		case '}':
			p.at++
			v, ok := p.popObject(base)
			if !ok {
				p.note("a member twice in one object")
			}
			return v, nil
		default:
			return Value{}, p.syntax("an object goes on with a comma or ends")
		}
	}
}

// number reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (p *jsonParser) number() (Value, error) {
	start := p.at
	negative := p.text[p.at] == '-'
	if negative {
		p.at++
	}
	digits := p.digits()
	switch {
	case len(digits) == 0:
		return Value{}, p.syntax("a number has digits")
	case len(digits) > 1 && digits[0] == '0':
		return Value{}, p.syntax("a number has no leading zero")
	}
	float := false
	if p.at < len(p.text) && p.text[p.at] == '.' {
		p.at++
		float = true
		if len(p.digits()) == 0 {
			return Value{}, p.syntax("a fraction has digits")
		}
	}
	if p.at < len(p.text) && p.text[p.at]|0x20 == 'e' {
		p.at++
		float = true
		if p.at < len(p.text) && (p.text[p.at] == '+' || p.text[p.at] == '-') {
			p.at++
		}
		if len(p.digits()) == 0 {
			return Value{}, p.syntax("an exponent has digits")
		}
	}
	if float {
		f, err := strconv.ParseFloat(string(p.text[start:p.at]), 64)
		if err != nil {
			p.note("a number beyond binary64")
			f = 0
		}
		return Float(f), nil
	}
	if len(digits) > MaxDigits {
		p.note("an integer with too many digits")
		return Value{}, nil
	}
	return integer(negative, digits), nil
}

// digits returns the decimal digits that come next.
func (p *jsonParser) digits() []byte {
	start := p.at
	for p.at < len(p.text) && '0' <= p.text[p.at] && p.text[p.at] <= '9' {
		p.at++
	}
	return p.text[start:p.at]
}

// string reads a string, from its quote on.
func (p *jsonParser) string() (string, error) {
	p.at++
	start := p.at
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return string(p.text[start : p.at-1]), nil
		case c == '\\':
			p.scratch = append(p.scratch[:0], p.text[start:p.at]...)
			return p.escaped()
		case c < 0x20:
			return "", p.syntax("a control character in a string")
		}
		p.at++
	}
	return "", p.syntax("the text ends early")
}

// escaped reads the rest of a string from its first escape; scratch has the beginning.
func (p *jsonParser) escaped() (string, error) {
	for p.at < len(p.text) {
		c := p.text[p.at]
		switch {
		case c == '"':
			p.at++
			return string(p.scratch), nil
		case c < 0x20:
			return "", p.syntax("a control character in a string")
		case c != '\\':
			p.scratch = append(p.scratch, c)
			p.at++
			continue
		}
		if p.at+1 == len(p.text) {
			break
		}
		letter := p.text[p.at+1]
		if letter == 'u' {
			r, err := p.codePoint()
			if err != nil {
				return "", err
			}
			p.scratch = utf8.AppendRune(p.scratch, r)
			continue
		}
		i := strings.IndexByte(`"\/bfnrt`, letter)
		if i < 0 {
			return "", p.syntax("no escape of JSON")
		}
		p.scratch = append(p.scratch, "\"\\/\b\f\n\r\t"[i])
		p.at += 2
	}
	return "", p.syntax("the text ends early")
}

// codePoint reads \uXXXX, or two of them for a surrogate pair.
func (p *jsonParser) codePoint() (rune, error) {
	r, ok := p.unit()
	if !ok {
		return 0, p.syntax("no escape of JSON")
	}
	if !utf16.IsSurrogate(r) {
		return r, nil
	}
	before := p.at
	second, _ := p.unit()
	if r = utf16.DecodeRune(r, second); r == utf8.RuneError {
		p.at = before // the next escape is a separate character
		p.note("half a surrogate pair")
	}
	return r, nil
}

// unit reads the code unit of \uXXXX.
func (p *jsonParser) unit() (rune, bool) {
	const size = len(`\uXXXX`)
	if len(p.text)-p.at < size || p.text[p.at] != '\\' || p.text[p.at+1] != 'u' {
		return 0, false
	}
	r := rune(0)
	for _, c := range p.text[p.at+2 : p.at+size] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	p.at += size
	return r, true
}
