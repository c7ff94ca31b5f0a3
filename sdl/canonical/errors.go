package canonical

import "fmt"

// SyntaxError says that octets are not JSON or not the CBOR that stands for JSON
// (A2A-SDL: UNSUPPORTED_ENCODING).
type SyntaxError struct {
	Offset int    // octets read before
	Reason string // never repeats what was read
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("canonical: octet %d: %s", e.Offset, e.Reason)
}

// ValueError says that octets can be read, but not as one certain value: a
// member twice, half a surrogate pair, a number out of range, nesting beyond
// MaxDepth (A2A-SDL: BAD_REQUEST).
type ValueError struct {
	Offset int    // octets read before
	Reason string // never repeats what was read
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("canonical: octet %d: %s", e.Offset, e.Reason)
}

// Bounds of the parsers. They leave room above the limits of A2A-SDL, which are
// measured on the value later than other things are checked.
const (
	// MaxDepth bounds nesting.
	MaxDepth = 512

	// MaxValues bounds the values of a text in all. A value takes some 100 octets of
	// memory and can be written in one or two: a mebibyte that means something has
	// fewer.
	MaxValues = 1 << 18

	// MaxDigits bounds the decimal digits of an integer. It keeps the conversion to
	// binary, whose time grows with their square, below that of one signature.
	MaxDigits = 4300
)
