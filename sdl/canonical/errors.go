package canonical

import "fmt"

// SyntaxError says that octets are neither JSON nor CBOR in the data model of JSON
// (A2A-SDL: UNSUPPORTED_ENCODING).
type SyntaxError struct {
	Offset int    // octets read before
	Reason string // never quotes the input
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("canonical: octet %d: %s", e.Offset, e.Reason)
}

// ValueError says that octets can be parsed, but not as one unambiguous value: a duplicate
// member, half a surrogate pair, a number out of range, nesting beyond MaxDepth (A2A-SDL:
// BAD_REQUEST).
type ValueError struct {
	Offset int    // octets read before
	Reason string // never quotes the input
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("canonical: octet %d: %s", e.Offset, e.Reason)
}

// Bounds of the parsers. They are higher than the limits of A2A-SDL, which are checked
// later, on the value.
const (
	// MaxDepth bounds nesting.
	MaxDepth = 512

	// MaxValues bounds the number of values in a text. A value takes about 100 octets of
	// memory but only one or two octets of text. A meaningful text of 1 MiB has fewer
	// values.
	MaxValues = 1 << 18

	// MaxDigits bounds the decimal digits of an integer. The conversion to binary takes
	// quadratic time; within this bound it is faster than one signature.
	MaxDigits = 4300
)
