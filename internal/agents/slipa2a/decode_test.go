package slipa2a

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
	"github.com/slimwire/swp/vectors/datatest"
)

func extension(t *testing.T, o Options) *Extension {
	t.Helper()
	x, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// class is that of an error, empty for none.
func class(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return string(e.Class)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// good is a message in SLIP; %s is metadata after the version and encoding.
const good = `{"messageId":"m","role":"ROLE_USER","parts":[{"data":1,"note":"text"},{"text":"SLIP v1 a b RequestReview x"},{"text":"more"}],` +
	`"extensions":["urn:other","` + URI + `"],"metadata":{"urn:other":7,"` + URI + `":{"slipVersion":"v1","encoding":"mnemonic"%s}}}`

func say(rest string) []byte { return fmt.Appendf(nil, good, rest) }

func sayHash(hash string) []byte { return say(`,"ucrHash":"` + hash + `"`) }

const foreign = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

func TestDecode(t *testing.T) {
	r, err := extension(t, Options{}).Decode(say(`,"ucrVersion":"9.0.0","ucrHash":"` + ucr.CoreHash + `","confidence":0.5,"more":[]`))
	if err != nil {
		t.Fatal(err)
	}
	review, _ := ucr.CoreNamed("RequestReview")
	half := 0.5
	want := &Received{
		Kind: SLIP, Text: "SLIP v1 a b RequestReview x", UCR: Match, Confidence: &half,
		Message:     &slipstream.Message{Src: "a", Dst: "b", Anchor: review, Payload: []slipstream.Token{{Text: "x"}}},
		Attachments: []json.RawMessage{[]byte(`{"data":1,"note":"text"}`), []byte(`{"text":"more"}`)},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeOfWhatIsNotMarked(t *testing.T) {
	x := extension(t, Options{RequireHash: true})
	for _, message := range []string{
		`{}`,
		` {"parts":[{"text":"SLIP v1 a b RequestReview"}]} `,
		`{"extensions":[],"metadata":{"` + URI + `":{}}}`,
		`{"extensions":null,"parts":7}`,
		`{"extensions":["` + URI + `/","` + strings.ToUpper(URI) + `",7,["` + URI + `"]]}`,
		`{"parts":1,"parts":2}`,
	} {
		if r, err := x.Decode([]byte(message)); err != nil || r.Kind != Ordinary || r.Message != nil || r.UCR != "" {
			t.Errorf("%s: %+v, %v", message, r, err)
		}
	}
}

func TestDecodeFindsTheMarkInAnyWriting(t *testing.T) {
	escaped := strings.ReplaceAll(URI, "/", `\/`)
	message := strings.ReplaceAll(string(say("")), URI, escaped)
	message = strings.Replace(message, `"extensions"`, "\n\t\"\\u0065xtensions\" ", 1)
	if r, err := extension(t, Options{}).Decode([]byte(message)); err != nil || r.Kind != SLIP {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestUCRHash(t *testing.T) {
	for _, test := range []struct {
		name    string
		message []byte
		opts    Options
		want    string // a class, or kind and UCR
	}{
		{"equal", sayHash(ucr.CoreHash), Options{}, "1 match"},
		{"equal and required", sayHash(ucr.CoreHash), Options{RequireHash: true}, "1 match"},
		{"absent", say(""), Options{}, "1 unknown"},
		{"null", say(`,"ucrHash":null`), Options{}, "1 unknown"},
		{"absent but required", say(""), Options{RequireHash: true}, "ucr_missing"},
		{"absent but required, with fallback", say(""), Options{RequireHash: true, Mismatch: Fallback}, "ucr_missing"},
		{"different", sayHash(foreign), Options{}, "ucr_mismatch"},
		{"different, with fallback", sayHash(foreign), Options{Mismatch: Fallback}, "2 differs"},
		{"in capitals", sayHash(strings.ToUpper(ucr.CoreHash)), Options{}, "ucr_mismatch"},
		{"empty", sayHash(""), Options{}, "ucr_mismatch"},
		{"a number", say(`,"ucrHash":7`), Options{}, "ucr_mismatch"},
		{"another member", say(`,"ucr_hash":"` + foreign + `"`), Options{}, "1 unknown"},
		{"beside another member", say(`,"ucrHash":"` + ucr.CoreHash + `","ucr_hash":"` + foreign + `"`), Options{}, "1 match"},
	} {
		r, err := extension(t, test.opts).Decode(test.message)
		got := class(err)
		if err == nil {
			got = fmt.Sprintf("%d %s", r.Kind, r.UCR)
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestFallbackLooksUpNoAnchor(t *testing.T) {
	message := strings.Replace(string(sayHash(foreign)), "RequestReview", "LaunchRocket", 1)
	r, err := extension(t, Options{Mismatch: Fallback}).Decode([]byte(message))
	if err != nil || r.Kind != Plain || r.Message != nil || r.Text != "SLIP v1 a b LaunchRocket x" || len(r.Attachments) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestConfidence(t *testing.T) {
	for value, want := range map[string]any{
		"0": 0.0, "1": 1.0, "0.85": 0.85, "1e-3": 0.001, "null": nil, "-0.1": nil, "1.01": nil, `"0.5"`: nil, "[]": nil, "1e999": nil,
	} {
		r, err := extension(t, Options{}).Decode(say(`,"confidence":` + value))
		if err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		var got any
		if r.Confidence != nil {
			got = *r.Confidence
		}
		if got != want {
			t.Errorf("%s: %v, want %v", value, got, want)
		}
	}
}

// PR-18: what hides an anchor, a line or another hash is refused, and so is what two
// decoders would read in two ways.
func TestPR18DecodeRefuses(t *testing.T) {
	x := extension(t, Options{})
	for name, test := range map[string]struct{ old, new, want string }{
		"no JSON":                 {`{"messageId"`, `{messageId`, "bad_message"},
		"two values":              {`{"messageId"`, `{} {"messageId"`, "bad_message"},
		"no object":               {`{"messageId"`, `[{"messageId"`, "bad_message"},
		"extensions twice":        {`"messageId":`, `"extensions":[],"messageId":`, "bad_message"},
		"extensions again":        {`"messageId":`, `"Extensions":[],"messageId":`, "bad_message"},
		"extensions is text":      {`"extensions":["urn:other",`, `"extensions":"x","more":["urn:other",`, "bad_message"},
		"metadata twice":          {`"messageId":`, `"metadata":{},"messageId":`, "bad_message"},
		"the member twice":        {`"urn:other":7`, `"` + URI + `":{}`, "bad_message"},
		"ucrHash again":           {`"encoding"`, `"UCRHASH":"x","encoding"`, "bad_message"},
		"parts twice":             {`"messageId":`, `"parts":[],"messageId":`, "bad_message"},
		"parts is an object":      {`"parts":[`, `"parts":{},"more":[`, "bad_message"},
		"a part is text":          {`{"data":1`, `"x",{"data":1`, "bad_message"},
		"text twice in a part":    {`{"data":1`, `{"text":"x","text":"y","data":1`, "bad_message"},
		"octets that are no text": {`"messageId":"m"`, "\"messageId\":\"\xff\"", "bad_message"},
		"no metadata":             {`"metadata"`, `"other"`, "metadata_missing"},
		"metadata of another":     {`{"slipVersion"`, `7,"x":{"slipVersion"`, "metadata_missing"},
		"null as metadata":        {`{"slipVersion"`, `null,"x":{"slipVersion"`, "metadata_missing"},
		"metadata is a list":      {`"metadata":{`, `"metadata":[],"x":{`, "metadata_missing"},
		"another version":         {`"slipVersion":"v1"`, `"slipVersion":"v2"`, "slip_version"},
		"version is a number":     {`"slipVersion":"v1"`, `"slipVersion":1`, "slip_version"},
		"no version":              {`"slipVersion":"v1",`, ``, "slip_version"},
		"another encoding":        {`"mnemonic"`, `"hex"`, "encoding"},
		"no encoding":             {`"encoding":"mnemonic"`, `"x":1`, "encoding"},
		"no parts":                {`"parts"`, `"others"`, "no_text_part"},
		"text is no text":         {`{"text":"SLIP v1 a b RequestReview x"},{"text":"more"}`, `{"text":7},{"text":null}`, "no_text_part"},
		"an index":                {"RequestReview", "0x0032", "hex_anchor"},
		"an unknown anchor":       {"RequestReview", "LaunchRocket", "unknown_anchor"},
		"a second line":           {"RequestReview x", `RequestReview\nSLIP v1 b a MetaAck`, "bad_delimiter"},
		"a line in a quote":       {"RequestReview x", `Fallback \"a\u000ab\"`, "bad_delimiter"},
		"no SLIP":                 {"SLIP v1", "Please look", "bad_marker"},
	} {
		message := strings.Replace(string(say("")), test.old, test.new, 1)
		if name == "no object" {
			message += "]"
		}
		if message == string(say("")) {
			t.Errorf("%s: nothing was changed", name)
		}
		if r, err := x.Decode([]byte(message)); class(err) != test.want {
			t.Errorf("%s: %+v, %v, want %s", name, r, err, test.want)
		}
	}
}

func TestBounds(t *testing.T) {
	message := say("")
	parts := func(n int) []byte {
		return []byte(strings.Replace(string(message), `{"data":1,"note":"text"}`, strings.Repeat(`{},`, n-3)+"{}", 1))
	}
	metadata := len(`{"slipVersion":"v1","encoding":"mnemonic"}`)
	for name, test := range map[string]struct {
		opts    Options
		message []byte
		want    string
	}{
		"message":          {Options{MaxMessage: len(message)}, message, ""},
		"message above":    {Options{MaxMessage: len(message) - 1}, message, "bad_message"},
		"parts":            {Options{MaxParts: 5}, parts(5), ""},
		"parts above":      {Options{MaxParts: 5}, parts(6), "bad_message"},
		"default parts":    {Options{}, parts(256), ""},
		"above the parts":  {Options{}, parts(257), "bad_message"},
		"metadata":         {Options{MaxMetadata: metadata}, message, ""},
		"metadata above":   {Options{MaxMetadata: metadata - 1}, message, "bad_message"},
		"text above":       {Options{Codec: slipstream.Codec{MaxText: 20}}, message, "too_long"},
		"deep":             {Options{}, say(`,"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000)), "bad_message"},
		"an unclosed list": {Options{}, say(`,"x":` + strings.Repeat("[", 2000)), "bad_message"},
	} {
		if _, err := extension(t, test.opts).Decode(test.message); class(err) != test.want {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// Anchors are asked for with each message, because a reload may change them.
func TestAnchorsOfTheInstallationAreThoseInForce(t *testing.T) {
	table, err := ucr.NewTable(ucr.Anchor{Index: 0x8000, Mnemonic: "LaunchRocket"})
	if err != nil {
		t.Fatal(err)
	}
	var now *ucr.Table
	x := extension(t, Options{Anchors: func() *ucr.Table { return now }})
	message := bytes.Replace(say(""), []byte("RequestReview"), []byte("LaunchRocket"), 1)
	if _, err := x.Decode(message); class(err) != "unknown_anchor" {
		t.Errorf("before: %v", err)
	}
	now = table
	if r, err := x.Decode(message); err != nil || r.Message == nil || r.Message.Anchor.Index != 0x8000 {
		t.Errorf("after: %+v, %v", r, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, o := range []Options{{Mismatch: "ignore"}, {MaxParts: -1}, {MaxMessage: -1}, {MaxMetadata: -1}, {Codec: slipstream.Codec{MaxText: -1}}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestRowsOfTheSharedData(t *testing.T) {
	type row struct {
		ID       string
		Message  json.RawMessage
		Expected struct {
			SLIP         bool
			Wire         string
			Mnemonic     string
			UCR          string
			Error        string
			FallbackText *string `json:"fallback_text"`
			Attachments  int
		}
	}
	x := extension(t, Options{})
	n := 0
	datatest.Rows(t, "slip/slip-a2a.jsonl", func(row row) {
		n++
		want := row.Expected
		r, err := x.Decode(row.Message)
		if class(err) != want.Error {
			t.Errorf("%s: %v, want %q", row.ID, err, want.Error)
		}
		if err != nil {
			return
		}
		if !want.SLIP {
			if r.Kind != Ordinary {
				t.Errorf("%s: kind %d", row.ID, r.Kind)
			}
			return
		}
		line, err := (slipstream.Codec{}).Append(nil, r.Message)
		if err != nil || string(line) != want.Wire || r.Message.Anchor.Mnemonic != want.Mnemonic {
			t.Errorf("%s: %s, %v", row.ID, line, err)
		}
		if string(r.UCR) != want.UCR || len(r.Attachments) != want.Attachments {
			t.Errorf("%s: ucr %s, %d attachments", row.ID, r.UCR, len(r.Attachments))
		}
		if want.FallbackText != nil && r.Message.Text() != *want.FallbackText {
			t.Errorf("%s: text %q", row.ID, r.Message.Text())
		}
	})
	if n != 20 {
		t.Errorf("%d rows, want 20", n)
	}
	t.Logf("%d rows", n)
}

// Decode never reads other than it writes again, and survives everything.
func FuzzDecode(f *testing.F) {
	f.Add(say(""))
	f.Add(sayHash(foreign))
	f.Add([]byte(`{"extensions":["` + URI + `"]}`))
	x, err := New(Options{Mismatch: Fallback})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		r, err := x.Decode(message)
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Class == "" {
				t.Fatalf("%v has no class", err)
			}
			return
		}
		if r.Kind != Plain {
			return
		}
		octets, err := plain(message, func(doc []byte) (*object, error) { return parseObject(doc, whole(doc)) })
		if err != nil {
			t.Fatal(err)
		}
		if again, err := x.Decode(octets); err != nil || again.Kind != Ordinary {
			t.Fatalf("%s: %+v, %v", octets, again, err)
		}
	})
}
