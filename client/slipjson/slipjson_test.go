package slipjson

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/agents/slipa2a"
	"github.com/slimwire/swp/slip/ucr"
)

func codec(t *testing.T) *Codec {
	t.Helper()
	c, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// a2aMessage is a message of A2A that is marked, with a text part.
func a2aMessage(hash, text, more string) string {
	return fmt.Sprintf(`{"messageId":"m","role":"ROLE_USER","extensions":[%q],"metadata":{%[1]q:{"slipVersion":"v1","encoding":"mnemonic","ucrHash":%q}},"parts":[{"text":%q}%s]}`,
		slipa2a.URI, hash, text, more)
}

const (
	nslipLine    = `@aA|f4|cLygHa16AHYF|S0|d1|T1|gH|t"a|\"b\""#`
	nslipMessage = `{"conv_id":18446744073709551615,"turn":1,"src":0,"dst":1,"act":"META","act_code":10,"frame":"CONTROL","frame_code":4,` +
		`"slots":[{"slot":"GOAL_ID","code":0,"value":17},{"slot":"TAG","code":20,"value":"a|\"b\""}]}`
	slipLine    = `SLIP v1 a b RequestReview thread007 x "y < z"`
	slipMessage = `{"version":"v1","src":"a","dst":"b","anchor":{"index":50,"mnemonic":"RequestReview","canonical":"Request review of work","coords":[3,4,3,3]},` +
		`"thread":"007","payload":[{"text":"x","quoted":false},{"text":"y < z","quoted":true}]}`
	fallbackLine    = `SLIP v1 a b Fallback "look at it"`
	fallbackMessage = `{"version":"v1","src":"a","dst":"b","anchor":{"index":255,"mnemonic":"Fallback","canonical":"Unquantizable - see payload for natural language","coords":[7,4,7,4]},` +
		`"thread":null,"payload":[{"text":"look at it","quoted":true}],"fallback_text":"look at it"}`
)

func TestDecodeAndEncode(t *testing.T) {
	c := codec(t)
	for _, test := range []struct {
		format        Format
		line, message string
	}{{NSLIP, nslipLine, nslipMessage}, {SLIPv1, slipLine, slipMessage}, {SLIPv1, fallbackLine, fallbackMessage}} {
		for _, format := range []Format{test.format, Auto} {
			message, err := c.Decode(format, []byte(test.line))
			if err != nil || string(message) != test.message {
				t.Errorf("%s: %s, %v", format, message, err)
			}
			for _, object := range []string{test.message, `{"ok":true,"message":` + test.message + `}`} {
				if line, err := c.Encode(format, []byte(object)); err != nil || string(line) != test.line {
					t.Errorf("%s: %s, %v", format, line, err)
				}
			}
		}
	}
}

func TestDecodeA2A(t *testing.T) {
	c := codec(t)
	for message, want := range map[string]string{
		`{"parts":[{"text":"SLIP v1 a b MetaAck"}]}`:                                 `{"slip":false}`,
		a2aMessage(ucr.CoreHash, "SLIP v1 a b MetaAck\n", ""):                        `{"slip":true,"wire":"SLIP v1 a b MetaAck","mnemonic":"MetaAck","ucr":"match"}`,
		a2aMessage(ucr.CoreHash, "SLIP v1 a b Fallback x y", `,{"url":"https://x"}`): `{"slip":true,"wire":"SLIP v1 a b Fallback x y","mnemonic":"Fallback","ucr":"match","fallback_text":"x y","attachments":1}`,
	} {
		for _, format := range []Format{A2A, Auto} {
			if got, err := c.Decode(format, []byte(message)); err != nil || string(got) != want {
				t.Errorf("%s: %s, %v", message, got, err)
			}
		}
	}
	_, err := c.Decode(A2A, []byte(a2aMessage("sha256:0", "SLIP v1 a b MetaAck", "")))
	if ClassOf(err) != "ucr_mismatch" {
		t.Error(err)
	}
}

func TestEncodeA2AIsReadAgain(t *testing.T) {
	c := codec(t)
	want := `{"slip":true,"wire":"SLIP v1 a b Fallback \"x y\"","mnemonic":"Fallback","ucr":"match","fallback_text":"x y"}`
	wire, err := c.Encode(Auto, []byte(`{"slip":true,"wire":"SLIP  v1 a b Fallback x y","messageId":"m-1"}`))
	if err != nil || !strings.Contains(string(wire), `"messageId":"m-1"`) {
		t.Fatalf("%s, %v", wire, err)
	}
	got, err := c.Decode(Auto, wire)
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("%s %v", diff, err)
	}
	first, err := c.Encode(A2A, got)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := c.Encode(A2A, got); err != nil || string(first) == string(second) {
		t.Errorf("two messages with one messageId: %s, %v", second, err)
	}
}

func TestDecodeRow(t *testing.T) {
	c := codec(t)
	for row, want := range map[string]string{
		`{"wire":` + quote(slipLine) + `,"message":"x"}`: "",
		`{"input":` + quote(nslipLine) + `}`:             "",
		`{"message":` + quote(nslipLine) + `}`:           "",
		`{"message":{"parts":[]}}`:                       "",
		`{"wire":"","format":"nslip"}`:                   "framing",
		`{"wire":"","format":"slip-v1"}`:                 "too_few_tokens",
		`{"wire":"","format":"other"}`:                   "too_few_tokens",
		`{"wire":"a3#"}`:                                 "framing",
		`{"wire":"SLIP v1 a b Fallback #"}`:              "",
		`{}`:                                             "bad_json",
		``:                                               "bad_json",
		`[]`:                                             "bad_json",
		`{"wire":null}`:                                  "bad_json",
		`null`:                                           "bad_json",
		`{"wire":null,"input":` + quote(slipLine) + `}`:       "",
		`{"Wire":"@#","wire":` + quote(slipLine) + `}`:        "",
		`{"Wire":` + quote(slipLine) + `}`:                    "bad_json",
		`{"wire":` + quote(slipLine) + `,"format":7}`:         "",
		`{"wire":"SLIP v1 a b MetaAck ` + "\xff" + `"}`:       "bad_json",
		`{"wire":"SLIP v1 a b MetaAck \ud800"}`:               "bad_json",
		`{"wire":"SLIP v1 a b MetaAck \udc00\ud800"}`:         "bad_json",
		`{"wire":"SLIP v1 a b MetaAck \ud83d\u0041"}`:         "bad_json",
		`{"wire":"SLIP v1 a b MetaAck \ud83d\uDE9C x"}`:       "",
		`{"wire":"SLIP v1 a b MetaAck \ufffd","a":"\\ud800"}`: "",
		`{"wire":1}`: "bad_json",
		`{"message":{"parts":[]},"format":"nslip"}`:                        "bad_json",
		`{"message":` + quote(`{"parts":[]}`) + `,"format":"a2a"}`:         "",
		`{"message":{"extensions":[` + quote(slipa2a.URI) + `]}}`:          "metadata_missing",
		`{"wire":` + quote(nslipLine) + `,"format":"slip-v1","decoded":1}`: "bad_quote",
	} {
		_, err := c.DecodeRow(Auto, []byte(row))
		if want == "" && err != nil || want != "" && (err == nil || ClassOf(err) != want) {
			t.Errorf("%s: %v, want %q", row, err, want)
		}
	}
	for row, want := range map[string]string{
		`{"parts":[]}`:                           "",
		`{"message":{"parts":[]}}`:               "",
		`{"role":"ROLE_USER","messageId":"m"}`:   "",
		`{"message":null,"parts":[]}`:            "",
		`[]`:                                     "bad_json",
		`{"extensions":["` + slipa2a.URI + `"]}`: "metadata_missing",
	} {
		if _, err := c.DecodeRow(A2A, []byte(row)); want == "" && err != nil || want != "" && (err == nil || ClassOf(err) != want) {
			t.Errorf("%s as A2A: %v, want %q", row, err, want)
		}
	}
	if _, err := c.DecodeRow(NSLIP, []byte(`{"wire":"SLIP v1 a b MetaAck","format":"slip-v1"}`)); ClassOf(err) != "framing" {
		t.Errorf("the format of the caller does not come first: %v", err)
	}
}

func quote(s string) string {
	octets, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(octets)
}

func TestEncodeRefuses(t *testing.T) {
	c := codec(t)
	head := `{"conv_id":1,"turn":1,"src":0,"dst":1,"act":"ASK","frame":"TASK","slots":[`
	for object, want := range map[string]string{
		``: "bad_json", `[]`: "bad_json", `{"src":"\ud800"}`: "bad_json", `{"src":"` + "\xff" + `"}`: "bad_json", `{"ok":true}`: "bad_json", `{"ok":false,"error":"framing"}`: "framing",
		`{}`: "missing_header", `{"conv_id":1,"turn":1,"src":0,"dst":1,"frame":"TASK"}`: "missing_header",
		strings.Replace(nslipMessage, `"turn":1`, `"turn":18446744073709551616`, 1): "bad_integer",
		strings.Replace(nslipMessage, `"turn":1`, `"turn":-1`, 1):                   "bad_integer",
		strings.Replace(nslipMessage, `"turn":1`, `"turn":1.5`, 1):                  "bad_integer",
		strings.Replace(nslipMessage, `"turn":1`, `"turn":1e3`, 1):                  "bad_integer",
		strings.Replace(nslipMessage, `"turn":1`, `"turn":true`, 1):                 "bad_type",
		strings.Replace(nslipMessage, `"turn":1`, `"turn":"1"`, 1):                  "bad_type",
		strings.Replace(nslipMessage, `"turn":1`, `"turn":null`, 1):                 "bad_type",
		strings.Replace(nslipMessage, `"META"`, `"meta"`, 1):                        "bad_act",
		strings.Replace(nslipMessage, `"META"`, `"ASK"`, 1):                         "bad_act",
		strings.Replace(nslipMessage, `"act_code":10`, `"act_code":256`, 1):         "bad_act",
		strings.Replace(nslipMessage, `"CONTROL"`, `"ROOT"`, 1):                     "bad_frame",
		head + `{"slot":"COLOUR","value":1}]}`:                                      "unknown_prefix",
		head + `{"code":4,"value":1}]}`:                                             "unknown_prefix",
		head + `{"value":1}]}`:                                                      "unknown_prefix",
		head + `{"slot":"TAG","code":0,"value":1}]}`:                                "unknown_prefix",
		head + `{"slot":"GOAL_ID","value":"1"}]}`:                                   "bad_type",
		head + `{"slot":"GOAL_ID","value":true}]}`:                                  "bad_type",
		head + `{"slot":"GOAL_ID"}]}`:                                               "bad_type",
		head + `{"slot":"TAG","value":1}]}`:                                         "bad_type",
		head + `{"slot":"GOAL_ID","value":0.5}]}`:                                   "bad_integer",
		head + `{"slot":"GOAL_ID","value":1},{"code":0,"value":1}]}`:                "duplicate",
		head + `{"slot":"TAG","value":"a\nb"}]}`:                                    "bad_string",
		strings.Replace(slipMessage, `"v1"`, `"v2"`, 1):                             "bad_version",
		strings.Replace(slipMessage, `"RequestReview"`, `"Ping"`, 1):                "unknown_anchor",
		strings.Replace(slipMessage, `"007"`, `""`, 1):                              "bad_token",
		strings.Replace(slipMessage, `"x"`, `"x:y"`, 1):                             "bad_token",
		`{"slip":false}`: "not_slip",
		`{"slip":true}`:  "too_few_tokens",
		`{"slip":true,"wire":"SLIP v1 a b MetaAck","attachments":1}`: "bad_message",
		`{"slip":true,"wire":"SLIP v1 a b MetaAck","confidence":2}`:  "bad_message",
		`{"src":"a","dst":"b","anchor":{"mnemonic":"Fallback"}}`:     "bad_token",
	} {
		if wire, err := c.Encode(Auto, []byte(object)); err == nil || ClassOf(err) != want {
			t.Errorf("%s: %s, %v, want %s", object, wire, err, want)
		}
	}
}

func TestEncodeTakesWhatIsEnough(t *testing.T) {
	c := codec(t)
	for object, want := range map[string]string{
		`{"conv_id":1,"turn":2,"src":0,"dst":1,"act_code":2,"frame":"TASK"}`:                                                         `@a2|f0|c1|S0|d1|T2#`,
		`{"conv_id":1,"turn":2,"src":0,"dst":1,"act":"ASK","frame_code":1,"slots":[{"slot":"TAG","value":""},{"code":0,"value":0}]}`: `@a2|f1|c1|S0|d1|T2|t""|g0#`,
		`{"src":"a","dst":"b","anchor":{"mnemonic":"MetaAck"}}`:                                                                      `SLIP v1 a b MetaAck`,
		`{"src":"a","dst":"b","anchor":{"mnemonic":"Fallback"},"fallback_text":"x y"}`:                                               `SLIP v1 a b Fallback "x y"`,
		`{"src":"a","dst":"b","anchor":{"mnemonic":"Fallback"},"payload":[{"text":"x"}]}`:                                            `SLIP v1 a b Fallback "x"`,
		`{"src":"a","dst":"b","anchor":{"mnemonic":"Fallback"},"payload":[{"text":"x:"},{"text":"y"}]}`:                              `SLIP v1 a b Fallback "x: y"`,
	} {
		if wire, err := c.Encode(Auto, []byte(object)); err != nil || string(wire) != want {
			t.Errorf("%s: %s, %v", object, wire, err)
		}
	}
}

func TestBoundsOfALine(t *testing.T) {
	c := codec(t)
	line := "SLIP v1 a b MetaAck " + strings.Repeat("x y", 2000)
	line += strings.Repeat("z", MaxSLIP-len(line))
	for extra, want := range map[string]string{"": "", "y": "too_long"} {
		message, err := c.Decode(Auto, []byte(line+extra))
		if want == "" && err != nil || want != "" && (err == nil || ClassOf(err) != want) {
			t.Fatalf("%d octets: %v, want %q", len(line+extra), err, want)
		}
		if err != nil {
			continue
		}
		if back, err := c.Encode(Auto, message); err != nil || string(back) != line+extra {
			t.Errorf("%d octets became %d: %v", len(line+extra), len(back), err)
		}
	}
}

func TestAnchorsOfAnInstallation(t *testing.T) {
	table, err := ucr.NewTable(ucr.Anchor{Index: 0x8000, Mnemonic: "Ping", Canonical: "Still there?"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(table)
	if err != nil {
		t.Fatal(err)
	}
	message, err := c.Decode(Auto, []byte("SLIP v1 a b Ping"))
	if err != nil {
		t.Fatal(err)
	}
	if line, err := c.Encode(Auto, message); err != nil || string(line) != "SLIP v1 a b Ping" {
		t.Errorf("%s, %v", line, err)
	}
}
