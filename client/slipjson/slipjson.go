// Package slipjson converts messages of the languages called SLIP to JSON, one object each,
// and back. swp-client slip decode prints these objects, slip encode reads them.
//
// An nSLIP message has the members conv_id, turn, src, dst, act, act_code, frame,
// frame_code and slots (slot, code, value). A line of SLIP v1 has version, src, dst,
// anchor, thread, payload (text, quoted) and, for a Fallback, fallback_text. A message of
// A2A has slip (whether it is marked with SLIP-A2A) and, if it is, wire, mnemonic, ucr,
// fallback_text and attachments (the number of the other parts). Integers are exact up to
// 2^64-1.
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

// The languages. Auto detects the language of each message: "@" at the beginning or "#" at
// the end is nSLIP, "{" is A2A, everything else is SLIP v1.
const (
	Auto   Format = "auto"
	NSLIP  Format = "nslip"
	SLIPv1 Format = "slip-v1"
	A2A    Format = "a2a"
)

// Formats are all formats.
func Formats() []Format { return []Format{Auto, NSLIP, SLIPv1, A2A} }

// Classes of errors in the JSON.
const (
	BadJSON = "bad_json" // not JSON, or without the required members
	NotSLIP = "not_slip" // a message of A2A that is not marked with SLIP-A2A
)

// Error is a fault in the JSON of a message.
type Error struct{ Class, What string }

func (e *Error) Error() string { return "slip: " + e.Class + ": " + e.What }

func fault(class, format string, args ...any) error {
	return &Error{class, fmt.Sprintf(format, args...)}
}

// ClassOf returns the class of an error, as the specification names it.
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

// Codec reads and writes messages. One goroutine at a time may use it.
type Codec struct {
	nslip nslip.Codec
	slip  slipstream.Codec
	a2a   *slipa2a.Extension

	message nslip.Message // is read into again
}

// MaxSLIP is the maximum length of a line of SLIP v1 in octets. The language sets no bound;
// an endpoint accepts shorter lines only.
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

// detect returns the language of a text.
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

// unmarshal reads JSON. It refuses invalid UTF-8 and unpaired surrogates, which
// encoding/json would replace by other characters.
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

// hasHalfPair reports whether JSON has an escaped surrogate without the other half of its
// pair.
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

// escaped returns the rune of a four-digit escape at the beginning of JSON, 0 if there is
// none.
func escaped(octets []byte) rune {
	if len(octets) < 6 || octets[0] != '\\' || octets[1] != 'u' {
		return 0
	}
	r, _ := strconv.ParseUint(string(octets[2:6]), 16, 16)
	return rune(r)
}
