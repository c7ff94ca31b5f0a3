package slipa2a

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/slip/ucr"
)

func entry(t *testing.T, o Options) string {
	t.Helper()
	octets, err := extension(t, o).entry()
	if err != nil {
		t.Fatal(err)
	}
	return string(octets)
}

func TestDeclareAddsTheEntryAndNothingElse(t *testing.T) {
	e := entry(t, Options{Description: "words"})
	if want := `{"uri":"` + URI + `","description":"words","required":false,"params":{"slipVersion":"v1","ucrVersion":"1.0.0","ucrHash":"` +
		ucr.CoreHash + `","preferredInputMode":"text/slip"}}`; e != want {
		t.Errorf("%s, want %s", e, want)
	}
	x := extension(t, Options{Description: "words"})
	for card, want := range map[string]string{
		`{}`:                                          `{"capabilities":{"extensions":[@]}}`,
		` { "name" : "\u0061" , "n" : 1.0 } `:         ` { "name" : "\u0061" , "n" : 1.0,"capabilities":{"extensions":[@]} } `,
		`{"capabilities":null,"a":1}`:                 `{"capabilities":{"extensions":[@]},"a":1}`,
		`{"capabilities":{ },"a":1}`:                  `{"capabilities":{"extensions":[@] },"a":1}`,
		`{"capabilities":{"streaming": true}}`:        `{"capabilities":{"streaming": true,"extensions":[@]}}`,
		`{"capabilities":{"extensions":null, "x":1}}`: `{"capabilities":{"extensions":[@], "x":1}}`,
		`{"capabilities":{"extensions":[ ]}}`:         `{"capabilities":{"extensions":[@ ]}}`,
		`{"capabilities":{"extensions":[ {"uri": "urn:x"} ]}, "signatures":null}`: `{"capabilities":{"extensions":[ {"uri": "urn:x"},@ ]}, "signatures":null}`,
	} {
		got, err := x.Declare([]byte(card))
		if err != nil {
			t.Errorf("%s: %v", card, err)
			continue
		}
		if diff := cmp.Diff(strings.Replace(want, "@", e, 1), string(got)); diff != "" {
			t.Errorf("%s: %s", card, diff)
		}
		if !json.Valid(got) {
			t.Errorf("%s is no JSON", got)
		}
		again, err := x.Declare(got)
		if err != nil || string(again) != string(got) {
			t.Errorf("declared again: %s, %v", again, err)
		}
		d, ok, err := Declared(got)
		if want := (Declaration{false, "v1", "1.0.0", ucr.CoreHash, "text/slip"}); d != want || !ok || err != nil || !d.Understands() {
			t.Errorf("%+v, %v, %v", d, ok, err)
		}
	}
}

func TestDeclareLeavesSignedCards(t *testing.T) {
	x := extension(t, Options{Required: true})
	if _, err := x.Declare([]byte(`{"signatures":[{}]}`)); !errors.Is(err, ErrSigned) {
		t.Error(err)
	}
	declared := `{"signatures":[{}],"capabilities":{"extensions":[` + entry(t, Options{Required: true}) + `]}}`
	if got, err := x.Declare([]byte(declared)); err != nil || string(got) != declared {
		t.Errorf("%s, %v", got, err)
	}
	if d, ok, err := Declared([]byte(declared)); !d.Required || !ok || err != nil {
		t.Errorf("%+v, %v, %v", d, ok, err)
	}
}

func TestDeclaredRefuses(t *testing.T) {
	e := entry(t, Options{})
	for _, card := range []string{
		``, `[]`, `{`, `{"capabilities":7}`, `{"capabilities":{"extensions":{}}}`, `{"capabilities":{"extensions":["` + URI + `"]}}`,
		`{"capabilities":{},"capabilities":{}}`, `{"capabilities":{},"Capabilities":{}}`, `{"capabilities":{"extensions":[` + e + `,` + e + `]}}`,
		`{"x":"` + strings.Repeat("x", maxCard) + `"}`,
	} {
		if d, ok, err := Declared([]byte(card)); err == nil {
			t.Errorf("%.100s: %+v, %v", card, d, ok)
		}
	}
}

func TestUnderstands(t *testing.T) {
	for params, want := range map[string]bool{
		`{"slipVersion":"v1","ucrVersion":"1.0.0","ucrHash":"` + ucr.CoreHash + `"}`: true,
		`{"slipVersion":"v1","ucrVersion":"1.0.1","ucrHash":"` + ucr.CoreHash + `"}`: true,
		`{"slipVersion":"v1","ucrVersion":"1.0.0"}`:                                  true,
		`{"slipVersion":"v1","ucrVersion":"1.0.1"}`:                                  false,
		`{"slipVersion":"v1"}`: false,
		`{"slipVersion":"v1","ucrVersion":"1.0.0","ucrHash":"` + foreign + `"}`:      false,
		`{"slipVersion":"v2","ucrVersion":"1.0.0","ucrHash":"` + ucr.CoreHash + `"}`: false,
		`{}`: false, `null`: false, `7`: false,
	} {
		d, ok, err := Declared([]byte(`{"capabilities":{"extensions":[{"uri":"` + URI + `","params":` + params + `}]}}`))
		if !ok || err != nil || d.Understands() != want {
			t.Errorf("%s: %+v, %v, %v", params, d, ok, err)
		}
	}
	if _, ok, err := Declared([]byte(`{"capabilities":{"extensions":[{"uri":"` + URI + `/"},{}]}}`)); ok || err != nil {
		t.Errorf("another URI: %v, %v", ok, err)
	}
}
