package check

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// loadCanonical reads a row with a JSON text and its canonical forms, or with a text that
// must be refused.
func loadCanonical(row canonical.Value, _ string, _ *Keys) (Case, error) {
	s := newShape(row)
	name, input := s.text("id"), s.text("input")
	play := func() ([]Result, []string) { return playRefused(input) }
	if s.has("error") {
		s.ignore("error") // text for the reader
	} else {
		json, sum, cbor := s.text("canonical_json"), s.text("sha256"), s.text("canonical_cbor_hex")
		play = func() ([]Result, []string) { return playCanonical(input, json, sum, cbor) }
	}
	s.done()
	return Case{name, func(context.Context) ([]Result, []string) {
		if len(*s.diff) > 0 {
			return nil, *s.diff
		}
		return play()
	}}, nil
}

// unread is the result of a text that was refused, with the code that such a body would
// get.
func unread(err error) Result {
	code := sdl.UnsupportedEncoding
	if errors.As(err, new(*canonical.ValueError)) {
		code = sdl.BadRequest
	}
	return failure(sdl.Refuse(code, "%v", err))
}

func playRefused(input string) ([]Result, []string) {
	v, err := canonical.ParseJSON([]byte(input))
	if err != nil {
		return []Result{unread(err)}, nil
	}
	return []Result{{Outcome: accepted}}, []string{"input: read as " + show(v) + ", want an error"}
}

func playCanonical(input, json, sum, cbor string) ([]Result, []string) {
	v, err := canonical.ParseJSON([]byte(input))
	if err != nil {
		return []Result{unread(err)}, []string{"input: " + err.Error()}
	}
	text := func(s string) canonical.Value { return canonical.String(s) }
	octets := v.AppendCBOR(nil)
	diff := same("canonical_json", text(string(v.AppendJSON(nil))), text(json))
	diff = append(diff, same("sha256", text(canonical.Hash(v)), text(sum))...)
	diff = append(diff, same("canonical_cbor_hex", text(hex.EncodeToString(octets)), text(cbor))...)

	// The written form reads back as the same value.
	again, err := canonical.ParseJSON([]byte(json))
	if err != nil {
		return nil, append(diff, "canonical_json: "+err.Error())
	}
	diff = append(diff, same("canonical_json read again", again, v)...)
	if again, err = canonical.ParseCBOR(octets); err != nil {
		return nil, append(diff, "canonical_cbor_hex: "+err.Error())
	}
	diff = append(diff, same("canonical_cbor_hex read again", again, v)...)
	return []Result{{Outcome: accepted}}, diff
}
