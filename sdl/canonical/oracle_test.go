package canonical_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/slimwire/swp/sdl/canonical"
)

// deterministic writes what RFC 8949 §4.2.1 asks for.
var deterministic = func() cbor.EncMode {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// strict reads what is well-formed and has no name twice.
var strict = func() cbor.DecMode {
	mode, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxNestedLevels: 1 << 12}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// bignum returns CBOR of 10^digits-1.
func bignum(digits int) string {
	n, _ := new(big.Int).SetString(strings.Repeat("9", digits), 10)
	octets, err := deterministic.Marshal(n)
	if err != nil {
		panic(err)
	}
	return string(octets)
}

// plain returns v as the CBOR library takes it: it knows integers and floats by
// their Go types.
func plain(t testing.TB, v canonical.Value) any {
	switch v.Kind() {
	case canonical.KindInteger:
		n, ok := new(big.Int).SetString(v.String(), 10)
		if !ok {
			t.Fatalf("%v is no integer", v)
		}
		return n
	case canonical.KindFloat:
		f, err := strconv.ParseFloat(v.String(), 64)
		if err != nil {
			t.Fatal(err)
		}
		return f
	case canonical.KindArray:
		all := []any{}
		for e := range v.All() {
			all = append(all, plain(t, e))
		}
		return all
	case canonical.KindObject:
		all := map[string]any{}
		for name, m := range v.Members() {
			all[name] = plain(t, m)
		}
		return all
	}
	return v.Any()
}

// same reports whether encoding/json decoded what v is.
func same(v canonical.Value, decoded any) bool {
	switch d := decoded.(type) {
	case nil:
		return v.IsNull()
	case bool:
		b, ok := v.Bool()
		return ok && b == d
	case string:
		s, ok := v.Text()
		return ok && s == d
	case json.Number:
		if !strings.ContainsAny(string(d), ".eE") {
			n, _ := new(big.Int).SetString(string(d), 10)
			return v.Kind() == canonical.KindInteger && n.String() == v.String()
		}
		want, _ := strconv.ParseFloat(string(d), 64)
		return v.Kind() == canonical.KindFloat && canonical.Float(want).Equal(v)
	case []any:
		if v.Kind() != canonical.KindArray || v.Len() != len(d) {
			return false
		}
		for i := range d {
			if !same(v.At(i), d[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		if v.Kind() != canonical.KindObject || v.Len() != len(d) {
			return false
		}
		for name, m := range d {
			if !v.Has(name) || !same(v.Get(name), m) {
				return false
			}
		}
		return true
	}
	return false
}

// holds wants of a value that was read what is true of every value.
func holds(t *testing.T, v canonical.Value) {
	t.Helper()
	text := v.AppendJSON(nil)
	if v.JSONSize() != len(text) {
		t.Errorf("%s: size %d, want %d", text, v.JSONSize(), len(text))
	}
	w, err := canonical.ParseJSON(text)
	if err != nil || !w.Equal(v) || w.Depth() != v.Depth() || w.MaxArray() != v.MaxArray() {
		t.Errorf("%s: from JSON %v, %v", text, w, err)
	}
	octets := v.AppendCBOR(nil)
	w, err = canonical.ParseCBOR(octets)
	if err != nil || !w.Equal(v) || !bytes.Equal(w.AppendJSON(nil), text) {
		t.Errorf("%s: from CBOR %v, %v", text, w, err)
	}
	want, err := deterministic.Marshal(plain(t, v))
	if err != nil || !bytes.Equal(octets, want) {
		t.Errorf("%s: CBOR %x, want %x (%v)", text, octets, want, err)
	}
	tokens := json.NewDecoder(bytes.NewReader(text))
	tokens.UseNumber()
	var decoded any
	if err := tokens.Decode(&decoded); err != nil || !same(v, decoded) {
		t.Errorf("%s: encoding/json reads %v, %v", text, decoded, err)
	}
}

var seeds = []string{
	`{}`, `[]`, `null`, `-0`, `-0.0`, `1E5`, `1.5e-7`, `5e-324`, `1e400`, `65504.0`, `18446744073709551616`, `-18446744073709551617`,
	`"\u0000\u001f\u007f\ud83d\ude00\u2028"`, `"\ud800"`, `{"b":1,"a":{"bb":[1.0,1]},"":null}`, `{"a":1,"a":2}`, ` [ 1 , [ ] ] `, `{"é":1,"zz":2}`,
}

func FuzzParseJSON(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := canonical.ParseJSON(text)
		valid := json.Valid(text) && utf8.Valid(text)
		switch classOf(err) {
		case "accepted":
			if !valid {
				t.Fatalf("%q is accepted and is not JSON", text)
			}
			holds(t, v)
			tokens := json.NewDecoder(bytes.NewReader(text))
			tokens.UseNumber()
			var decoded any
			if err := tokens.Decode(&decoded); err != nil || !same(v, decoded) {
				t.Errorf("%q: %v, but encoding/json reads %v, %v", text, v, decoded, err)
			}
		case "syntax":
			if valid {
				t.Errorf("%q: %v, but encoding/json accepts it", text, err)
			}
		case "value": // what follows is not read
		default:
			t.Error(err)
		}
	})
}

func FuzzParseCBOR(f *testing.F) {
	for _, s := range seeds {
		if v, err := canonical.ParseJSON([]byte(s)); err == nil {
			f.Add(v.AppendCBOR(nil))
		}
	}
	for _, s := range []string{"\x9f\x01\xff", "\xbf\x61a\x01\xff", "\x7f\x61a\x61b\xff", "\xc2\x5f\x41\x01\xff", "\xd9\xd9\xf7\x00", "\xf9\x7e\x00", "\xa2\x61a\x01\x61a\x02"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, octets []byte) {
		v, err := canonical.ParseCBOR(octets)
		switch classOf(err) {
		case "accepted":
			holds(t, v)
			var decoded any
			if err := strict.Unmarshal(octets, &decoded); err != nil {
				t.Errorf("%x: %v, but the library says %v", octets, v, err)
			}
		case "syntax", "value":
		default:
			t.Error(err)
		}
	})
}
