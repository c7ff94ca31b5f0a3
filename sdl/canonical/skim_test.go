package canonical_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/sdl/canonical"
)

func TestSkimTellsOfTheMembersOfTwoLevels(t *testing.T) {
	const text = `{"a":"x","\u0062":{"c":"y","c":2,"d":{"e":"no"},"f":["no"]},"g":[{"c":"no"}],"a":null}`
	want := []string{`/a="x"`, `b/c="y"`, `b/c=2`, `b/d=null`, `b/f=null`, `/b=null`, `/g=null`, `/a=null`}
	cbor := "\xa4\x61a\x61x" + "\x61b\xa4\x61c\x61y\x61c\x02\x61d\xa1\x61e\x62no\x61f\x81\x62no" + "\x7f\x61g\xff\x81\xa1\x61c\x62no" + "\x61a\xf6"
	for form, skim := range map[string]func(func(parent, name string, v canonical.Value)) error{
		"json": func(at func(string, string, canonical.Value)) error { return canonical.SkimJSON([]byte(text), at) },
		"cbor": func(at func(string, string, canonical.Value)) error { return canonical.SkimCBOR([]byte(cbor), at) },
	} {
		var got []string
		err := skim(func(parent, name string, v canonical.Value) {
			got = append(got, fmt.Sprintf("%s/%s=%s", parent, name, v.AppendJSON(nil)))
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", form, got, err, want)
		}
	}
}

// A skim refuses what a parser refuses, but for repeated names, and at the same bounds.
func TestSkimRefusesWhatParsersRefuse(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	many := func(n int) string { return "[" + strings.Repeat("0,", n-2) + "0]" }
	for _, text := range []string{
		"", "{", "{}x", `{"a":}`, "{\"a\":\"\xff\"}", `{"a":"\ud800"}`, "1e999", "[1]", `{"a":1}`,
		nested(canonical.MaxDepth), nested(canonical.MaxDepth + 1), many(canonical.MaxValues), many(canonical.MaxValues + 1),
	} {
		_, want := canonical.ParseJSON([]byte(text))
		got := canonical.SkimJSON([]byte(text), func(string, string, canonical.Value) {})
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%.20s: %v, want %v", text, got, want)
		}
	}
	for _, octets := range []string{"", "\xa0", "\xa0\x00", "\xa1\x61a", "\x9f", strings.Repeat("\x81", canonical.MaxDepth) + "\x00", strings.Repeat("\x81", canonical.MaxDepth+1) + "\x00"} {
		_, want := canonical.ParseCBOR([]byte(octets))
		got := canonical.SkimCBOR([]byte(octets), func(string, string, canonical.Value) {})
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%.20x: %v, want %v", octets, got, want)
		}
	}
}

func TestSkimAllocatesNothingForValues(t *testing.T) {
	text := []byte(`{"a":[` + strings.Repeat("{},", 10_000) + `0]}`)
	if n := testing.AllocsPerRun(10, func() { _ = canonical.SkimJSON(text, func(string, string, canonical.Value) {}) }); n > 8 {
		t.Errorf("%v allocations", n)
	}
}
