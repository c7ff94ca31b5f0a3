// Package slipjson is messages of the languages called SLIP as JSON, one object each:
// what swp-client slip decode prints and slip encode reads.
//
// A nSLIP message has the members conv_id, turn, src, dst, act, act_code, frame,
// frame_code and slots (slot, code, value); a line of SLIP v1 has version, src, dst,
// anchor, thread, payload (text, quoted) and, for a Fallback, fallback_text; a message of A2A
// that may be marked with SLIP-A2A becomes slip, and if it is, wire, mnemonic, ucr,
// fallback_text and attachments, the number of the other parts. Integers are exact up
// to 2^64-1.
package slipjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/slimwire/swp/internal/agents/slipa2a"
	"github.com/slimwire/swp/slip/nslip"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// Format is a language.
type Format string

// The languages. Auto looks at each message: "@" at its begin or "#" at its end is
// nSLIP, "{" is A2A, all else is SLIP v1.
const (
	Auto   Format = "auto"
	NSLIP  Format = "nslip"
	SLIPv1 Format = "slip-v1"
	A2A    Format = "a2a"
)

// Formats are all formats.
func Formats() []Format { return []Format{Auto, NSLIP, SLIPv1, A2A} }

// Classes that belong to no language.
const (
	BadJSON = "bad_json" // it is no JSON, or has not the members that are needed
	NotSLIP = "not_slip" // a message of A2A that is not marked cannot be written
)

// Error is a message that cannot be read or written for a reason of the JSON.
type Error struct{ Class, What string }

func (e *Error) Error() string { return "slip: " + e.Class + ": " + e.What }

func fault(class, format string, args ...any) error {
	return &Error{class, fmt.Sprintf(format, args...)}
}

// ClassOf is what is wrong, as the specification names it.
func ClassOf(err error) string {
	if e, ok := errors.AsType[*nslip.Error](err); ok {
		return string(e.Class)
	}
	if e, ok := errors.AsType[*slipstream.Error](err); ok {
		return string(e.Class)
	}
	if e, ok := errors.AsType[*slipa2a.Error](err); ok {
		return string(e.Class)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return string(slipa2a.BadMessage) // slipa2a could not write it
}

// Codec reads and writes messages. It may be used by one at a time.
type Codec struct {
	nslip nslip.Codec
	slip  slipstream.Codec
	a2a   *slipa2a.Extension

	message nslip.Message // is read into again
}

// MaxSLIP is how many octets a line of SLIP v1 has here at most. The language sets no
// bound; an endpoint that keeps what it reads takes less.
const MaxSLIP = 1 << 20

// New returns a Codec that knows the anchors of a table, nil for the core.
func New(table *ucr.Table) (*Codec, error) {
	slip := slipstream.Codec{Table: table, MaxText: MaxSLIP, MaxTokens: MaxSLIP}
	x, err := slipa2a.New(slipa2a.Options{Codec: slip})
	if err != nil {
		return nil, err
	}
	return &Codec{slip: slip, a2a: x}, nil
}

// detect says which language text is in.
func detect(text []byte) Format {
	text = bytes.Trim(text, " \t\r\n")
	switch {
	case bytes.HasPrefix(text, []byte("{")):
		return A2A
	case bytes.HasPrefix(text, []byte("@")):
		return NSLIP
	case bytes.HasSuffix(text, []byte("#")) && !bytes.HasPrefix(text, []byte("SLIP ")):
		return NSLIP
	}
	return SLIPv1
}

// marshal is JSON without escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fault(BadJSON, "%v", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// unmarshal reads JSON, and refuses what no message can say: octets that are no UTF-8
// and halves of surrogate pairs, in place of which others would be read.
func unmarshal(octets []byte, v any) error {
	if !utf8.Valid(octets) {
		return fault(BadJSON, "octets that are no UTF-8")
	}
	if err := json.Unmarshal(octets, v); err != nil {
		return fault(BadJSON, "%v", err)
	}
	if hasHalfPair(octets) {
		return fault(BadJSON, "half of a surrogate pair")
	}
	return nil
}

// hasHalfPair reports whether JSON has an escape of a surrogate that is without its
// other half.
func hasHalfPair(octets []byte) bool {
	for {
		i := bytes.IndexByte(octets, '\\')
		if i < 0 {
			return false
		}
		first := escaped(octets[i:])
		octets = octets[i+2:]
		if !utf16.IsSurrogate(first) {
			continue
		}
		octets = octets[4:]
		if utf16.DecodeRune(first, escaped(octets)) == utf8.RuneError {
			return true
		}
		octets = octets[6:]
	}
}

// escaped is the rune of an escape of four digits at the begin of JSON, 0 if there is
// none.
func escaped(octets []byte) rune {
	if len(octets) < 6 || octets[0] != '\\' || octets[1] != 'u' {
		return 0
	}
	r, _ := strconv.ParseUint(string(octets[2:6]), 16, 16)
	return rune(r)
}
