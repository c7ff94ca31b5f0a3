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

// MaxDepth bounds how deep the parsers follow nesting. It leaves room above the
// limit of A2A-SDL, which is measured on the value later than other things are
// checked.
const MaxDepth = 512
