package nslip

import "fmt"

// Class is the class of a fault, as the specification names it.
type Class string

// The classes, in the order of the checks (A5). Fields are read from left to right, so from
// BadInteger to Duplicate the leftmost fault decides. TooLong belongs to this
// implementation and is checked first.
const (
	TooLong       Class = "too_long"       // above a bound of the Codec
	Framing       Class = "framing"        // text without "@" and "#", binary that is not an NSlipMessage
	Empty         Class = "empty"          // no field
	UnknownPrefix Class = "unknown_prefix" // no header or slot has this letter or code
	BadInteger    Class = "bad_integer"    // no digits, other characters, above 2^64-1
	BadString     Class = "bad_string"     // quotes, escapes, control characters, invalid UTF-8
	BadType       Class = "bad_type"       // an integer in place of a string or the reverse
	Duplicate     Class = "duplicate"      // a repeated header or slot
	MissingHeader Class = "missing_header" // one of the six is absent
	BadAct        Class = "bad_act"
	BadFrame      Class = "bad_frame"
	BadVersion    Class = "bad_version" // binary: a schema_version that is not 0
)

// Error is why a message cannot be read or written.
type Error struct {
	Class Class
	What  string
}

func (e *Error) Error() string { return "nslip: " + string(e.Class) + ": " + e.What }

func fault(class Class, format string, args ...any) error {
	return &Error{class, fmt.Sprintf(format, args...)}
}
