package nslip

import (
	"bytes"
	"math"
	"strings"
	"unicode/utf8"
)

// Parse reads a line of text into m, replacing its contents. The strings of m are windows
// into line and into m: valid as long as line does not change, and until the next read into
// m. Its errors are *Error; then the content of m is undefined.
func (c Codec) Parse(m *Message, line []byte) error {
	if err := c.full(len(line)); err != nil {
		return err
	}
	line = bytes.Trim(line, " \t\r\n")
	last := len(line) - 1
	if last < 1 || line[0] != '@' || line[last] != '#' {
		return fault(Framing, "want @…#")
	}
	m.reset()
	r := reader{m: m, rest: line[1:last:last]}
	for len(r.rest) > 0 {
		if r.rest[0] == '|' { // of an empty field
			r.rest = r.rest[1:]
		} else if err := r.field(); err != nil {
			return err
		}
	}
	return r.end()
}

// reader holds the unread rest of a line.
type reader struct {
	m     *Message
	rest  []byte
	seen  uint32    // bits of headers, then of slots
	heads [6]uint64 // values of headers
}

const allHeaders = 1<<len(headers) - 1

// field reads one field, which has at least its letter.
func (r *reader) field() error {
	letter := r.rest[0]
	r.rest = r.rest[1:]
	head, slot := strings.IndexByte(headers, letter), -1
	bit := uint32(1) << max(head, 0)
	isText := false
	if head < 0 {
		if slot = slotOf(letter); slot < 0 {
			return fault(UnknownPrefix, "%q", letter)
		}
		bit, isText = 1<<(len(headers)+slot), slots[slot].text
	}
	var value uint64
	var text []byte
	var err error
	quoted := len(r.rest) > 0 && r.rest[0] == '"'
	switch {
	case quoted:
		text, err = r.string()
	default:
		value, err = r.integer(isText)
	}
	switch {
	case err != nil:
		return err
	case quoted != isText:
		return fault(BadType, "field %q", letter)
	case r.seen&bit != 0:
		return fault(Duplicate, "field %q", letter)
	}
	r.seen |= bit
	if head >= 0 {
		r.heads[head] = value
	} else {
		r.m.Slots = append(r.m.Slots, Slot{slots[slot].code, value, text})
	}
	return nil
}

// slotOf is the place in slots of a letter, or -1.
func slotOf(letter byte) int {
	for i := range slots {
		if slots[i].letter == letter {
			return i
		}
	}
	return -1
}

// integer reads an unquoted value up to the end of its field. Any other value is an error:
// BadString in a slot for a string, else BadInteger.
func (r *reader) integer(isText bool) (value uint64, err error) {
	class := BadInteger
	if isText {
		class = BadString
	}
	i := 0
	for ; i < len(r.rest) && r.rest[i] != '|'; i++ {
		digit, ok := digitOf(r.rest[i])
		switch {
		case !ok:
			return 0, fault(class, "character %q", r.rest[i])
		case value > (math.MaxUint64-digit)/base:
			return 0, fault(class, "above 2^64-1")
		}
		value = value*base + digit
	}
	if i == 0 {
		return 0, fault(class, "no value")
	}
	r.rest = r.rest[i:]
	return value, nil
}

const (
	base   = 62
	digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

func digitOf(c byte) (uint64, bool) {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0'), true
	case 'A' <= c && c <= 'Z':
		return uint64(c-'A') + 10, true
	case 'a' <= c && c <= 'z':
		return uint64(c-'a') + 36, true
	}
	return 0, false
}

// string reads a quoted value. A string without escapes is a window into the line;
// otherwise it is built in m.text.
func (r *reader) string() ([]byte, error) {
	in := r.rest[1:]
	start, escapes := len(r.m.text), false
	from := 0 // of the text that is not in m.text yet
	for i := 0; i < len(in); i++ {
		switch b := in[i]; {
		case b == '"':
			text := in[from:i:i]
			if escapes {
				r.m.text = append(r.m.text, text...)
				text = r.m.text[start:len(r.m.text):len(r.m.text)]
			}
			if r.rest = in[i+1:]; len(r.rest) > 0 && r.rest[0] != '|' {
				return nil, fault(BadString, "text after the closing quote")
			}
			if !utf8.Valid(text) {
				return nil, fault(BadString, "octets that are no UTF-8")
			}
			return text, nil
		case b == '\\':
			if i+1 == len(in) || in[i+1] != '\\' && in[i+1] != '"' {
				return nil, fault(BadString, "a backslash before another character")
			}
			r.m.text = append(r.m.text, in[from:i]...)
			i++
			from, escapes = i, true
		case isControl(b):
			return nil, fault(BadString, "control character %q", b)
		}
	}
	return nil, fault(BadString, "it is not closed")
}

// isControl reports whether b is not allowed in strings.
func isControl(b byte) bool { return b < ' ' && b != '\t' || b == 0x7f }

// end makes the checks that need the whole line.
func (r *reader) end() error {
	if r.seen == 0 {
		return fault(Empty, "no field")
	}
	if missing := ^r.seen & allHeaders; missing != 0 {
		for i := range len(headers) {
			if missing&(1<<i) != 0 {
				return fault(MissingHeader, "%q", headers[i])
			}
		}
	}
	return r.m.setHeaders(r.heads)
}

// setHeaders takes the values of headers, in their order.
func (m *Message) setHeaders(v [6]uint64) error {
	if v[0] >= uint64(len(acts)) {
		return fault(BadAct, "%d, want at most %d", v[0], len(acts)-1)
	}
	if v[1] >= uint64(len(frames)) {
		return fault(BadFrame, "%d, want at most %d", v[1], len(frames)-1)
	}
	m.Act, m.Frame, m.ConvID, m.Src, m.Dst, m.Turn = Act(v[0]), Frame(v[1]), v[2], v[3], v[4], v[5]
	return nil
}
