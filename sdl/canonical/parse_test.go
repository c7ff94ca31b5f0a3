package canonical_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/sdl/canonical"
)

// classOf says which kind of error err is.
func classOf(err error) string {
	var syntax *canonical.SyntaxError
	var value *canonical.ValueError
	switch {
	case err == nil:
		return "accepted"
	case errors.As(err, &syntax):
		return "syntax"
	case errors.As(err, &value):
		return "value"
	}
	return err.Error()
}

func TestStrictJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, want := range map[string]string{
		" \t\r\n{ \"a\" : [ 1 , 2 ] } \n": "accepted",
		`"\ud83d\uDE00\u0000\/"`:          "accepted",
		`{"a":1,"A":2,"":3}`:              "accepted",
		"[\"\u2028\x7f\uFFFF\"]":          "accepted",
		"1e-400":                          "accepted",
		"-1E+2":                           "accepted",

		"":                              "syntax",
		" ":                             "syntax",
		"\uFEFF{}":                      "syntax",
		"{}\x00":                        "syntax",
		"{} {}":                         "syntax",
		"nul":                           "syntax",
		"nullx":                         "syntax",
		"NaN":                           "syntax",
		"-Infinity":                     "syntax",
		"+1":                            "syntax",
		"01":                            "syntax",
		"-":                             "syntax",
		"-01":                           "syntax",
		".5":                            "syntax",
		"1.":                            "syntax",
		"1.e1":                          "syntax",
		"1e":                            "syntax",
		"1e+":                           "syntax",
		"0x1":                           "syntax",
		"1_000":                         "syntax",
		"[1,]":                          "syntax",
		"[,1]":                          "syntax",
		"[1 2]":                         "syntax",
		"[":                             "syntax",
		"[1":                            "syntax",
		"]":                             "syntax",
		`{"a"}`:                         "syntax",
		`{"a":}`:                        "syntax",
		`{"a":1,}`:                      "syntax",
		`{"a":1 "b":2}`:                 "syntax",
		`{a:1}`:                         "syntax",
		`{1:1}`:                         "syntax",
		`{`:                             "syntax",
		`{"a":1`:                        "syntax",
		`'a'`:                           "syntax",
		`"a`:                            "syntax",
		`"a\`:                           "syntax",
		`"\x"`:                          "syntax",
		`"\u12"`:                        "syntax",
		`"\u12G4"`:                      "syntax",
		"\"\x01\"":                      "syntax",
		"\"\\n\x01\"":                   "syntax",
		"\"\xff\"":                      "syntax",
		"\"\xed\xa0\x80\"":              "syntax",
		"// a\n1":                       "syntax",
		`"\ud800"`:                      "value",
		`"\udc00\ud800"`:                "value",
		`"\ud800\u0041"`:                "value",
		`"\ud800A"`:                     "value",
		`{"\ud800":1}`:                  "value",
		`{"a":1,"b":2,"a":1}`:           "value",
		`{"a":1,"\u0061":1}`:            "value",
		`[{"x":[{"a":1,"a":1}]}]`:       "value",
		`{"a":1,"a":2} x`:               "syntax", // whatever comes first
		`[1e400`:                        "syntax",
		`["\ud800",tru]`:                "syntax",
		`"\ud800\u12"`:                  "syntax",
		`"\ud800\ud83d\ude00"`:          "value",
		`["\ud800",1e400]`:              "value",
		"1e400":                         "value",
		"-1e400":                        "value",
		"1" + strings.Repeat("0", 4299): "accepted",
		"1" + strings.Repeat("0", 4300): "value",
		strings.Repeat("9", 4301) + "x": "syntax",
		deep(canonical.MaxDepth):        "accepted",
		deep(canonical.MaxDepth + 1):    "value",
	} {
		v, err := canonical.ParseJSON([]byte(text))
		if got := classOf(err); got != want {
			t.Errorf("%.60q: %s (%v), want %s", text, got, err, want)
		}
		if err != nil && !v.IsNull() {
			t.Errorf("%.60q: a value beside an error", text)
		}
	}
}

// Every beginning of a text that needs its end is no text.
func TestEveryBeginningIsRefused(t *testing.T) {
	text := `{"a":[1.5e3,"\ud83d\ude00",true,null,{"b":-7}],"c":"x"}`
	octets := parse(t, text).AppendCBOR(nil)
	for i := range len(text) {
		if _, err := canonical.ParseJSON([]byte(text[:i])); err == nil {
			t.Errorf("%q is accepted", text[:i])
		}
	}
	for i := range octets {
		if _, err := canonical.ParseCBOR(octets[:i]); classOf(err) != "syntax" {
			t.Errorf("%x: %v", octets[:i], err)
		}
	}
}

func TestCBORThatStandsForJSON(t *testing.T) {
	for input, want := range map[string]string{
		"9f01ff":                   "[1]",
		"bf616101ff":               `{"a":1}`,
		"a2616201616102":           `{"a":2,"b":1}`, // any order of names
		"7f61616162ff":             `"ab"`,
		"bf7f61616162ff01ff":       `{"ab":1}`,
		"1800":                     "0", // any length of a head
		"3b7fffffffffffffff":       "-9223372036854775808",
		"3b8000000000000000":       "-9223372036854775809",
		"1b8000000000000000":       "9223372036854775808",
		"c240":                     "0",
		"c340":                     "-1",
		"c24107":                   "7",
		"c349010000000000000000":   "-18446744073709551617",
		"c25f410141ffff":           "511",
		"c24a00000000000000000001": "1",
		"fb3ff0000000000000":       "1.0",
		"fa3f800000":               "1.0",
		"f98000":                   "-0.0",
		"f90001":                   "5.960464477539063e-08",
	} {
		v, err := canonical.ParseCBOR(octets(t, input))
		if err != nil || v.String() != want {
			t.Errorf("%s: %v, %v, want %s", input, v, err, want)
		}
	}
}

func octets(t *testing.T, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestStrictCBOR(t *testing.T) {
	for what, input := range map[string]string{
		"nothing":                      "",
		"data after the value":         "0000",
		"octets":                       "4161",
		"a name that is a number":      "a10101",
		"a name that is an array":      "a18001",
		"a name of octets":             "a1416101",
		"a name twice":                 "a2616101616102",
		"a name twice in two forms":    "a261610178016102",
		"undefined":                    "f7",
		"a simple value":               "e0",
		"a simple value in two octets": "f820",
		"false in two octets":          "f814",
		"a break alone":                "ff",
		"a break as value":             "bf6161ff",
		"a break in a definite array":  "82ff01",
		"infinity":                     "f97c00",
		"infinity, wide":               "fb7ff0000000000000",
		"NaN":                          "f97e00",
		"NaN, single":                  "fa7fc00000",
		"a date":                       "c11a514b67b0",
		"a shared reference":           "d81c80",
		"self-described CBOR":          "d9d9f700",
		"a bignum of text":             "c26101",
		"a bignum in a bignum":         "c2c24101",
		"a tag without end":            "df00",
		"text that is not UTF-8":       "61ff",
		"a letter in two pieces":       "7f61c361a9ff",
		"a piece of octets":            "7f4161ff",
		"a piece in pieces":            "7f7f6161ffff",
		"a text without end":           "7f6161",
		"a number without end":         "1f",
		"a reserved head":              "1c",
		"a reserved head of a float":   "fc",
		"an array that ends early":     "8201",
		"a map that ends early":        "a26161",
		"a map without a value":        "a16161",
	} {
		if v, err := canonical.ParseCBOR(octets(t, input)); classOf(err) != "syntax" {
			t.Errorf("%s: %v, %v", what, v, err)
		}
	}
}

// A mebibyte of anything is read in a moment and in a few stacks of memory.
func TestRS07HostileSizes(t *testing.T) {
	const size = 1 << 20
	again := strings.Repeat
	for what, test := range map[string]struct{ text, want string }{
		"brackets":           {again("[", size), "value"},
		"braces":             {again(`{"":`, size/4), "value"},
		"one integer":        {again("9", size), "value"},
		"one fraction":       {"0." + again("1", size), "accepted"},
		"one exponent":       {"1e" + again("9", size), "value"},
		"one small exponent": {"1e-" + again("9", size), "accepted"},
		"integers":           {"[" + again(again("9", canonical.MaxDigits)+",", size/canonical.MaxDigits) + "0]", "accepted"},
		"empty arrays":       {"[" + again("[],", size/3) + "[]]", "value"},
		"as many values":     {"[" + again("0,", canonical.MaxValues-2) + "0]", "accepted"},
		"one value more":     {"[" + again("0,", canonical.MaxValues-1) + "0]", "value"},
		"members":            {`{"a":[` + again(`{"":0},`, canonical.MaxValues/2-2) + "0]}", "accepted"},
		"one member more":    {`{"a":[` + again(`{"":0},`, canonical.MaxValues/2-1) + "0]}", "value"},
		"escapes":            {`"` + again(`\u0001`, size/6) + `"`, "accepted"},
	} {
		v, err := canonical.ParseJSON([]byte(test.text))
		if got := classOf(err); got != test.want {
			t.Errorf("%s: %s (%v), want %s", what, got, err, test.want)
			continue
		}
		if w, err := canonical.ParseCBOR(v.AppendCBOR(nil)); err != nil || !w.Equal(v) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, test := range map[string]struct{ octets, want string }{
		"arrays":                  {again("\x81", size), "value"},
		"arrays without end":      {again("\x9f", size), "value"},
		"arrays of 65 536":        {again("\x99\xff\xff", size/3), "value"},
		"as many values":          {"\x9f" + again("\x00", canonical.MaxValues-1) + "\xff", "accepted"},
		"one value more":          {"\x9f" + again("\x00", canonical.MaxValues) + "\xff", "value"},
		"tags":                    {again("\xc2", size), "syntax"},
		"an array of 2^63":        {"\x9b\x80\x00\x00\x00\x00\x00\x00\x00", "syntax"},
		"a map of 2^63":           {"\xbb\x80\x00\x00\x00\x00\x00\x00\x00", "syntax"},
		"a text of 2^63":          {"\x7b\x80\x00\x00\x00\x00\x00\x00\x00", "syntax"},
		"a bignum":                {"\xc2\x5a\x00\x10\x00\x00" + again("\xff", size), "value"},
		"a bignum of leading 0":   {"\xc2\x5a\x00\x10\x00\x01" + again("\x00", size) + "\x07", "accepted"},
		"pieces of text, all 0":   {"\x7f" + again("\x60", size) + "\xff", "accepted"},
		"4300 digits of a bignum": {bignum(canonical.MaxDigits), "accepted"},
		"4301 digits of a bignum": {bignum(canonical.MaxDigits + 1), "value"},
	} {
		if _, err := canonical.ParseCBOR([]byte(test.octets)); classOf(err) != test.want {
			t.Errorf("%s: %v, want %s", what, err, test.want)
		}
	}
}
