package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of an input, in the order in which they can hurt (ABUSE RS-07).
const (
	maxOctets   = 8 << 20
	maxDepth    = 64
	maxElements = 10_000  // of one array, and members of one object
	maxValues   = 100_000 // in all
	maxNumber   = 64      // characters of a number
	maxExponent = 999
)

// decode returns the value of a JSON text. It stops at the first bound that is
// exceeded, so that its result never exceeds them.
func decode(octets []byte) (any, error) {
	if len(octets) > maxOctets {
		return nil, fmt.Errorf("the input has %d octets, limit %d", len(octets), maxOctets)
	}
	if !utf8.Valid(octets) {
		return nil, errors.New("the input is not UTF-8")
	}
	if !paired(octets) {
		return nil, errors.New("the input has half a surrogate pair")
	}
	d := &decoder{tokens: json.NewDecoder(bytes.NewReader(octets))}
	d.tokens.UseNumber()
	v, err := d.value(1)
	if err != nil {
		return nil, err
	}
	if _, err := d.tokens.Token(); !errors.Is(err, io.EOF) {
		return nil, d.notJSON()
	}
	return v, nil
}

// paired reports whether each surrogate that is written as an escape is one of a
// pair. encoding/json replaces half a pair with U+FFFD, and other readers of the
// octets may replace it with something else.
func paired(octets []byte) bool {
	for {
		i := bytes.IndexByte(octets, '\\')
		if i < 0 {
			return true
		}
		octets = octets[i:]
		switch first, ok := escape(octets); {
		case !ok:
			octets = octets[min(2, len(octets)):] // of another kind, or no JSON
		case !utf16.IsSurrogate(first):
			octets = octets[escapeSize:]
		default:
			second, _ := escape(octets[escapeSize:])
			if utf16.DecodeRune(first, second) == utf8.RuneError {
				return false
			}
			octets = octets[2*escapeSize:]
		}
	}
}

// escapeSize is the length of an escape with four digits.
const escapeSize = len(`\u0000`)

// escape returns the code unit that octets begin with as an escape.
func escape(octets []byte) (r rune, ok bool) {
	if len(octets) < escapeSize || octets[1] != 'u' || octets[0] != '\\' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(octets[2:escapeSize]), 16, 16)
	return rune(n), err == nil
}

type decoder struct {
	tokens *json.Decoder
	values int
}

// notJSON is the error for input outside the grammar. That of encoding/json
// would quote it.
func (d *decoder) notJSON() error {
	return fmt.Errorf("the input is not JSON after octet %d", d.tokens.InputOffset())
}

func (d *decoder) value(depth int) (any, error) {
	token, err := d.tokens.Token()
	if err != nil {
		return nil, d.notJSON()
	}
	return d.rest(token, depth)
}

// rest reads the value that begins with a token.
func (d *decoder) rest(token json.Token, depth int) (any, error) {
	if d.values++; d.values > maxValues {
		return nil, fmt.Errorf("the input has more than %d values", maxValues)
	}
	switch t := token.(type) {
	case json.Number:
		return t, checkNumber(string(t))
	case json.Delim:
		if depth > maxDepth {
			return nil, fmt.Errorf("the input is nested more than %d deep", maxDepth)
		}
		if t == '{' {
			return d.object(depth)
		}
		return d.array(depth)
	}
	return token, nil
}

func (d *decoder) object(depth int) (any, error) {
	members := make(map[string]any)
	for d.tokens.More() {
		token, err := d.tokens.Token()
		if err != nil {
			return nil, d.notJSON()
		}
		name, ok := token.(string)
		if !ok {
			return nil, d.notJSON()
		}
		if _, again := members[name]; again {
			return nil, fmt.Errorf("the input has a member twice in one object, before octet %d", d.tokens.InputOffset())
		}
		if len(members) == maxElements {
			return nil, fmt.Errorf("the input has an object of more than %d members", maxElements)
		}
		if members[name], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return members, d.end()
}

func (d *decoder) array(depth int) (any, error) {
	elements := []any{}
	for d.tokens.More() {
		if len(elements) == maxElements {
			return nil, fmt.Errorf("the input has an array of more than %d elements", maxElements)
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		elements = append(elements, v)
	}
	return elements, d.end()
}

// end reads the end of an object or array.
func (d *decoder) end() error {
	if _, err := d.tokens.Token(); err != nil {
		return d.notJSON()
	}
	return nil
}

// checkNumber refuses numbers that take longer to reckon with than to send.
func checkNumber(n string) error {
	if len(n) > maxNumber {
		return fmt.Errorf("the input has a number of more than %d characters", maxNumber)
	}
	i := strings.IndexAny(n, "eE")
	if i < 0 {
		return nil
	}
	exponent, err := strconv.Atoi(n[i+1:])
	if err != nil || exponent > maxExponent || exponent < -maxExponent {
		return fmt.Errorf("the input has a number with an exponent beyond %d", maxExponent)
	}
	return nil
}
