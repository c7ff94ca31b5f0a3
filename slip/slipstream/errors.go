package slipstream

import "fmt"

// Class is the class of a fault, as the specification names it.
type Class string

// The classes, in the order of the checks (B2). TooLong belongs to this implementation and
// is checked first.
const (
	TooLong       Class = "too_long"       // above a bound of the Codec
	BadDelimiter  Class = "bad_delimiter"  // a control character, or invalid UTF-8
	BadQuote      Class = "bad_quote"      // not closed, inside a token, or with a backslash
	TooFewTokens  Class = "too_few_tokens" // fewer than five
	BadMarker     Class = "bad_marker"     // the first is not SLIP
	BadVersion    Class = "bad_version"    // the second is not v1
	BadAgentID    Class = "bad_agent_id"   // source or destination
	HexAnchor     Class = "hex_anchor"     // an anchor in the form of an index
	BadAnchor     Class = "bad_anchor"     // not a mnemonic
	UnknownAnchor Class = "unknown_anchor" // not in the table
	BadToken      Class = "bad_token"      // only when writing: thread or payload
)

// Error is why a line cannot be read or a Message not be written.
type Error struct {
	Class Class
	What  string
}

func (e *Error) Error() string { return "slipstream: " + string(e.Class) + ": " + e.What }

func fault(class Class, format string, args ...any) error {
	return &Error{class, fmt.Sprintf(format, args...)}
}
