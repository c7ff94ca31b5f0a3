package sdl_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/sdl"
)

func TestTimestamps(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2026-01-01T00:00:00Z":                     time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"2026-01-01T00:00:00+00:00":                time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"2024-02-29T23:59:59.5Z":                   time.Date(2024, 2, 29, 23, 59, 59, 500_000_000, time.UTC),
		"2026-01-01T00:00:00.123456789987654321Z":  time.Date(2026, 1, 1, 0, 0, 0, 123_456_789, time.UTC),
		"2026-01-01T00:00:00.000000001+00:00":      time.Date(2026, 1, 1, 0, 0, 0, 1, time.UTC),
		"9999-12-31T23:59:59Z":                     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		"0001-01-01T00:00:00." + zeros(5000) + "Z": time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, ok := sdl.ParseTime(text); !ok || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-01-01t00:00:00Z", "2026-01-01T00:00:00z",
		"2026-01-01T00:00:00+01:00", "2026-01-01T00:00:00-00:00", "2026-01-01T00:00:00+0000", "2026-01-01T00:00:00+00", "2026-01-01T00:00:00Z ",
		"20260101T000000Z", "2026-W01-1T00:00:00Z", "2026-01-01T00:00Z", "2026-01-01T00:00:60Z", "2026-01-01T24:00:00Z", "2026-02-29T00:00:00Z",
		"2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-00T00:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00,5Z",
		"2026-1-01T00:00:000Z", "+026-01-01T00:00:00Z", "12026-01-01T00:00:00Z", "2026-01-01T0:00:00.5Z", "2026-01-01T00:00:0.5Z",
	} {
		if got, ok := sdl.ParseTime(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
	if got := sdl.FormatTime(noon.Add(time.Millisecond).In(time.FixedZone("", 3600))); got != "2026-03-01T12:00:00Z" {
		t.Error(got)
	}
	if sdl.Over(noon.Add(1), noon) || !sdl.Over(noon, noon) {
		t.Error("what ends now is over, and what ends later is not")
	}
}

func zeros(n int) string { return strings.Repeat("0", n) }

func TestForms(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":1}`: "json", " {}": "json", "\t{}": "json", "\n": "json", "\r": "json", "\xa0": "cbor", "\xbf\xff": "cbor",
		"": "UNSUPPORTED_ENCODING", "[1]": "UNSUPPORTED_ENCODING", "\xef\xbb\xbf{}": "UNSUPPORTED_ENCODING", "\x9f": "UNSUPPORTED_ENCODING", "\xc0": "UNSUPPORTED_ENCODING",
	} {
		form, refused := sdl.FormOf([]byte(body))
		if got := form.String(); refused == nil && got != want || refused != nil && verdict(refused) != want {
			t.Errorf("%q: %v, %v, want %s", body, form, refused, want)
		}
	}
	for media, want := range map[string]string{
		"": "json", "application/json": "json", "application/json; charset=utf-8": "json", "Application/JSON;a=b": "json", "application/cbor": "cbor", "application/cbor;": "cbor",
		"application/json; a=b; a=c": "json", "application/json;=": "json", " application/cbor ;x": "cbor",
		"text/plain": "UNSUPPORTED_ENCODING", "application/jsonx": "UNSUPPORTED_ENCODING", "application/json, application/cbor": "UNSUPPORTED_ENCODING", ";": "UNSUPPORTED_ENCODING", " ": "UNSUPPORTED_ENCODING",
	} {
		form, refused := sdl.FormOfMedia(media)
		if got := form.String(); refused == nil && got != want || refused != nil && verdict(refused) != want {
			t.Errorf("%q: %v, %v, want %s", media, form, refused, want)
		}
	}
}

func TestBodies(t *testing.T) {
	const unreadable = "UNSUPPORTED_ENCODING"
	small := sdl.Limits{MaxBytes: 20}
	for _, test := range []struct {
		body   string
		form   sdl.Form
		limits sdl.Limits
		want   string
	}{
		{`{"a":1}`, sdl.JSON, sdl.Limits{}, accepted},
		{"\xa1\x61a\x01", sdl.CBOR, sdl.Limits{}, accepted},
		{`{"a":1}`, sdl.CBOR, sdl.Limits{}, unreadable},
		{"\xa1\x61a\x01", sdl.JSON, sdl.Limits{}, unreadable},
		{`[]`, sdl.JSON, sdl.Limits{}, unreadable},
		{`null`, sdl.JSON, sdl.Limits{}, unreadable},
		{``, sdl.JSON, sdl.Limits{}, unreadable},
		{`{"a":NaN}`, sdl.JSON, sdl.Limits{}, unreadable},
		{`{"a":1,"a":1}`, sdl.JSON, sdl.Limits{}, bad},
		{`{"a":"\ud800"}`, sdl.JSON, sdl.Limits{}, bad},
		{`{"a":1e400}`, sdl.JSON, sdl.Limits{}, bad},
		{` {"a":1e400}`, sdl.JSON, sdl.Limits{}, bad},
		{`{"a":1e400} x`, sdl.JSON, sdl.Limits{}, unreadable}, // no JSON, whatever is in it
		{`{"a":1,"a":1`, sdl.JSON, sdl.Limits{}, unreadable},
		{`[1e400]`, sdl.JSON, sdl.Limits{}, unreadable}, // no object
		{`"\ud800"`, sdl.JSON, sdl.Limits{}, unreadable},
		{strings.Repeat("[", 600), sdl.JSON, sdl.Limits{}, unreadable},
		{strings.Repeat("\x81", 600), sdl.CBOR, sdl.Limits{}, unreadable},
		{strings.Repeat("\xa1\x60", 600), sdl.CBOR, sdl.Limits{}, bad},
		{"\xa2\x61a\x01\x61a\x02", sdl.CBOR, sdl.Limits{}, unreadable},
		{`{"aaaaaaaaaaaa":"a"}`, sdl.JSON, small, accepted},
		{`{"aaaaaaaaaaaa":"aa"}`, sdl.JSON, small, bad + ` {"max_bytes":20}`},
		{strings.Repeat("x", 21), sdl.JSON, small, bad + ` {"max_bytes":20}`}, // before it is read
	} {
		v, refused := sdl.Decode([]byte(test.body), test.form, test.limits)
		if got := verdict(refused); got != test.want || refused != nil && !v.IsNull() {
			t.Errorf("%q as %v: %s (%v), want %s", test.body, test.form, got, refused, test.want)
		}
	}
}

func TestBothFormsOfAnEnvelopeAreTheSame(t *testing.T) {
	v := state(t)
	for _, form := range []sdl.Form{sdl.JSON, sdl.CBOR} {
		body := form.Append(nil, v)
		if told, refused := sdl.FormOf(body); refused != nil || told != form {
			t.Errorf("%v is taken for %v, %v", form, told, refused)
		}
		w, refused := sdl.Decode(body, form, sdl.Limits{})
		if refused != nil || !w.Equal(v) || !bytes.Equal(form.Append(nil, w), body) {
			t.Errorf("%v: %v, %v", form, w, refused)
		}
		if got := validate(w, sdl.Options{}); got != accepted {
			t.Error(got)
		}
	}
}
