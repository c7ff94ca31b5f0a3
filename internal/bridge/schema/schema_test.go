package schema_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/bridge/schema"
)

func write(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "with a space %41.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func load(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Load(write(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const order = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "required": ["items"],
  "properties": {
    "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
    "a/b~c": {"type": "string"}
  },
  "additionalProperties": false,
  "$defs": {"item": {"type": "object", "required": ["count"], "properties": {
    "count": {"type": "integer", "minimum": 1, "multipleOf": 0.5},
    "name": {"type": "string", "maxLength": 5, "pattern": "^[a-z]*$"}
  }}}
}`

func TestValidateNamesThePlaceAndNotTheContent(t *testing.T) {
	s := load(t, order)
	for input, want := range map[string]string{
		`{"items":[]}`:                          "",
		` {"items":[{"count":1e0,"x":null}]} `:  "",
		`{}`:                                    `the input breaks the rule "required" of its schema at ""`,
		`[]`:                                    `the input breaks the rule "type" of its schema at ""`,
		`{"items":[{"count":1},{}]}`:            `the input breaks the rule "required" of its schema at "/items/1"`,
		`{"items":[{"count":0}]}`:               `the input breaks the rule "minimum" of its schema at "/items/0/count"`,
		`{"items":[{"count":"SECRET"}]}`:        `the input breaks the rule "type" of its schema at "/items/0/count"`,
		`{"items":[{"count":1,"name":"SECR"}]}`: `the input breaks the rule "pattern" of its schema at "/items/0/name"`,
		`{"items":[],"a/b~c":1}`:                `the input breaks the rule "type" of its schema at "/a~1b~0c"`,
		`{"items":[],"SECRET":1}`:               `the input breaks the rule "additionalProperties" of its schema at ""`,
		`{"items":[{"count":0},{"name":7}]}`:    `the input breaks the rule "minimum" of its schema at "/items/0/count"`,
		``:                                      `the input is not JSON after octet 0`,
		`{"items":[SECRET]}`:                    `the input is not JSON after octet 10`,
		`{"items":[]} x`:                        `the input is not JSON after octet 13`,
		"{\"items\":[]}\x00":                    `the input is not JSON after octet 12`,
		`{"items":[]}{"items":[]}`:              `the input is not JSON after octet 13`,
		`{"items":[]`:                           `the input is not JSON after octet 11`,
		"{\"items\":[],\"a/b~c\":\"\xff\"}":     `the input is not UTF-8`,
		`{"items":[],"i\u0074ems":[1]}`:         `the input has a member twice in one object, before octet 24`,
	} {
		for range 5 { // maps have no order
			got := ""
			if err := s.Validate([]byte(input)); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%q:\ngot  %s\nwant %s", input, got, want)
				break
			}
		}
	}
}

func TestLongPlacesAreCut(t *testing.T) {
	s := load(t, `{"additionalProperties":{"additionalProperties":{"type":"string"}}}`)
	err := s.Validate([]byte(`{"` + strings.Repeat("é", 5000) + `":{"x":1}}`))
	if err == nil || len(err.Error()) > 400 {
		t.Errorf("%v", err)
	}
}

func TestLoadRefusesWhatPointsElsewhere(t *testing.T) {
	other := write(t, `{}`)
	for name, text := range map[string]string{
		"http":          `{"$ref":"http://127.0.0.1:1/x.json"}`,
		"file":          `{"$ref":"file://` + filepath.ToSlash(other) + `"}`,
		"relative":      `{"$ref":"other.json"}`,
		"meta-schema":   `{"$schema":"https://example.org/schema"}`,
		"unknown place": `{"$ref":"#/$defs/none"}`,
		"id elsewhere":  `{"$id":"https://example.org/a","$ref":"b"}`,
		"no schema":     `{"type":"strong"}`,
		"no JSON":       `{"type":`,
		"twice":         `{"type":"string","type":"number"}`,
		"number":        `7`,
	} {
		if _, err := schema.Load(write(t, text)); err == nil {
			t.Errorf("%s: %s is accepted", name, text)
		}
	}
	if _, err := schema.Load(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is accepted")
	}
	for _, text := range []string{
		`true`, `{"$schema":"http://json-schema.org/draft-07/schema#"}`, `{"$id":"https://example.org/a","$defs":{"x":{"$id":"b"}},"$ref":"b"}`,
		`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`,
	} {
		if _, err := schema.Load(write(t, text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestRS07BoundsAreExact(t *testing.T) {
	s := load(t, `{"multipleOf":1,"uniqueItems":true}`)
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	elements := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ",%d", i)
		}
		return "[" + b.String()[1:] + "]"
	}
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%d":0`, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	values := func(n int) string { // an object, an array, in it arrays of 999 strings, and zeros
		full, rest := (n-2)/1000, (n-2)%1000
		one := `["` + strings.Repeat(`","`, 998) + `"]`
		all := append(slices.Repeat([]string{one}, full), slices.Repeat([]string{"0"}, rest)...)
		return `{"a":[` + strings.Join(all, ",") + `]}`
	}
	long := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	for name, test := range map[string]struct{ at, above string }{
		"octets":            {long(8 << 20), long(8<<20 + 1)},
		"depth":             {nested(64), nested(65)},
		"elements":          {elements(10_000), elements(10_001)},
		"members":           {members(10_000), members(10_001)},
		"values":            {values(100_000), values(100_001)},
		"characters":        {strings.Repeat("1", 64), strings.Repeat("1", 65)},
		"exponent":          {"1e999", "1e1000"},
		"negative exponent": {"0e-999", "0e-1000"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := s.Validate([]byte(test.at)); err != nil {
				t.Errorf("at the limit: %v", err)
			}
			if err := s.Validate([]byte(test.above)); err == nil {
				t.Error("above the limit it is accepted")
			}
		})
	}
}

func TestRS07BombsAreRefusedWhereTheyBegin(t *testing.T) {
	s := load(t, `{}`)
	for name, input := range map[string]string{
		"a million brackets": strings.Repeat("[", 1<<20),
		"a million braces":   strings.Repeat(`{"":`, 1<<20),
		"a MiB of digits":    strings.Repeat("9", 1<<20),
		"huge exponent":      "1e999999999",
		"huge negative":      "-1E-999999999",
		"exponent overflow":  "1e99999999999999999999",
	} {
		grew := testing.AllocsPerRun(1, func() {
			if err := s.Validate([]byte(input)); err == nil {
				t.Errorf("%s is accepted", name)
			}
		})
		if grew > 1000 {
			t.Errorf("%s: %v allocations", name, grew)
		}
	}
}

// Half a surrogate pair is no character, and a text that two parsers would read
// in two ways is no JSON here.
func TestRS07WhatIsNoTextIsRefused(t *testing.T) {
	s := load(t, `{}`)
	for name, input := range map[string]string{
		"half a pair":             `"\ud800"`,
		"the other half":          `"\udc00"`,
		"a pair the wrong way":    `"\udc00\ud800"`,
		"half a pair as a key":    `{"\ud800":1}`,
		"half a pair, then more":  `"\ud800\n\udc00"`,
		"behind a backslash":      `"\\\ud800"`,
		"at the end":              `"\ud800`,
		"half a pair, raw":        "\"\xed\xa0\x80\"",
		"NUL after the document":  "{}\x00",
		"NUL before the document": "\x00{}",
		"NUL in a text":           "\"\x00\"",
	} {
		if err := s.Validate([]byte(input)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for _, input := range []string{`"\ud83d\ude00"`, `"\uD83D\uDE00\n\ud83d\ude00"`, `"\\ud800"`, `"\\\\ud800"`, `"\ufffd\u0000"`, `""`} {
		if err := s.Validate([]byte(input)); err != nil {
			t.Errorf("%s: %v", input, err)
		}
	}
}

func TestRS07AMillionKeysAreRefused(t *testing.T) {
	s := load(t, `{}`)
	for name, input := range map[string]string{
		"different": func() string {
			var b strings.Builder
			for i := range 1_000_000 {
				fmt.Fprintf(&b, `,"%d":0`, i)
			}
			return "{" + b.String()[1:] + "}"
		}(),
		"all the same": "{" + strings.Repeat(`"k":1,`, 999_999) + `"k":1}`,
	} {
		allocs := testing.AllocsPerRun(1, func() {
			if s.Validate([]byte(input)) == nil {
				t.Errorf("%s: accepted", name)
			}
		})
		if allocs > 50_000 { // for 10,000 members, not for a million
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

func BenchmarkValidateMiB(b *testing.B) {
	s := load(b, `{"type":"array","uniqueItems":true,"items":{"type":"object","additionalProperties":{"type":["string","integer"]}}}`)
	var text strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&text, `,{"id":%d,"name":"%0*d","tags":"a b c d"}`, i, 75, i)
	}
	input := []byte("[" + text.String()[1:] + "]")
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(input); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzValidate(f *testing.F) {
	s := load(f, order)
	f.Add([]byte(`{"items":[{"count":1,"name":"abc"}],"a/b~c":""}`))
	f.Add([]byte(`{"items":[{"count":1e999}]}`))
	f.Fuzz(func(t *testing.T, input []byte) {
		if err := s.Validate(input); err != nil && len(err.Error()) > 2000 {
			t.Errorf("%d octets of error", len(err.Error()))
		}
	})
}
