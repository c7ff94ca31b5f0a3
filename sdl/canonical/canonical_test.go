package canonical_test

import (
	"encoding/hex"
	"testing"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/vectors/datatest"
)

func TestCanonicalVectors(t *testing.T) {
	type vector struct {
		ID, Input, Error, SHA256 string
		JSON                     string `json:"canonical_json"`
		CBOR                     string `json:"canonical_cbor_hex"`
	}
	rows := 0
	datatest.Rows(t, "sdl/canonical-vectors.jsonl", func(row vector) {
		rows++
		v, err := canonical.ParseJSON([]byte(row.Input))
		if row.Error != "" {
			if err == nil {
				t.Errorf("%s: accepted, want %s", row.ID, row.Error)
			}
			return
		}
		if err != nil {
			t.Errorf("%s: %v", row.ID, err)
			return
		}
		check(t, row.ID, v, row.JSON, row.CBOR)
		if got := canonical.Hash(v); got != row.SHA256 {
			t.Errorf("%s: hash %s, want %s", row.ID, got, row.SHA256)
		}
	})
	if rows != 79 {
		t.Errorf("%d rows, want 79", rows)
	}
}

// check wants both canonical forms of v, and v again from each.
func check(t *testing.T, name string, v canonical.Value, text, octets string) {
	t.Helper()
	if got := string(v.AppendJSON(nil)); got != text {
		t.Errorf("%s: JSON %s, want %s", name, got, text)
	}
	if got := v.JSONSize(); got != len(text) {
		t.Errorf("%s: size %d, want %d", name, got, len(text))
	}
	encoded := v.AppendCBOR(nil)
	if got := hex.EncodeToString(encoded); got != octets {
		t.Errorf("%s: CBOR %s, want %s", name, got, octets)
	}
	if w, err := canonical.ParseCBOR(encoded); err != nil || !w.Equal(v) {
		t.Errorf("%s: from CBOR: %v, %v, want %v", name, w, err, v)
	}
	if w, err := canonical.ParseJSON([]byte(text)); err != nil || !w.Equal(v) {
		t.Errorf("%s: from JSON: %v, %v, want %v", name, w, err, v)
	}
}
