package sdl

import (
	"bytes"
	"errors"
	"strings"

	"github.com/slimwire/swp/sdl/canonical"
)

// Form is the encoding of the body of a message.
type Form uint8

// The forms.
const (
	JSON Form = iota
	CBOR
)

// String returns the name of f.
func (f Form) String() string {
	if f == CBOR {
		return "cbor"
	}
	return "json"
}

// FormOf returns the form of a body by its first octet: a CBOR map, or a JSON object or
// white space (§16).
func FormOf(body []byte) (Form, *Error) {
	if len(body) > 0 {
		switch c := body[0]; {
		case 0xa0 <= c && c <= 0xbf:
			return CBOR, nil
		case strings.IndexByte("{ \t\n\r", c) >= 0:
			return JSON, nil
		}
	}
	return JSON, Refuse(UnsupportedEncoding, "neither an object of JSON nor a map of CBOR")
}

// FormOfMedia returns the form of a media type without parameters (§3.3). An empty one
// means JSON.
func FormOfMedia(contentType string) (Form, *Error) {
	media, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "application/json":
		return JSON, nil
	case "application/cbor":
		return CBOR, nil
	case "":
		if contentType == "" {
			return JSON, nil
		}
	}
	return JSON, Refuse(UnsupportedEncoding, "media type %.100q", contentType)
}

// Append appends an envelope in form f, canonically.
func (f Form) Append(dst []byte, v canonical.Value) []byte {
	if f == CBOR {
		return v.AppendCBOR(dst)
	}
	return v.AppendJSON(dst)
}

// Decode returns the object in a body: rows 0 and 1 of §2.2. The length of the body is
// checked first. The value does not alias the body.
func Decode(body []byte, form Form, limits Limits) (canonical.Value, *Error) {
	if refused := limits.Body(len(body)); refused != nil {
		return canonical.Value{}, refused
	}
	parse := canonical.ParseJSON
	if form == CBOR {
		parse = canonical.ParseCBOR
	}
	v, err := parse(body)
	if err != nil {
		return canonical.Value{}, Refuse(codeOf(err, body, form), "%v", err)
	}
	if v.Kind() != canonical.KindObject {
		return canonical.Value{}, Refuse(UnsupportedEncoding, "the body is %v, want an object", v.Kind())
	}
	return v, nil
}

// codeOf is the code for a body that canonical refuses.
func codeOf(err error, body []byte, form Form) Code {
	if invalid := (*canonical.ValueError)(nil); errors.As(err, &invalid) && opens(body, form) {
		return BadRequest // a body that is not an object is UnsupportedEncoding, even with such faults
	}
	return UnsupportedEncoding
}

// opens reports whether a body begins like an object.
func opens(body []byte, form Form) bool {
	if form == CBOR {
		return len(body) > 0 && body[0]>>5 == 5
	}
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && body[0] == '{'
}
