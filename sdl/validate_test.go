package sdl_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

var (
	planner  = sdl.Identity{AgentID: "did:key:z6MkExamplePlanner", Name: "planner", Instance: "a1", Role: "planner"}
	executor = sdl.Identity{AgentID: "did:key:z6MkExampleExecutor", Name: "executor", Instance: "b7", Role: "executor"}

	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func now() time.Time { return noon }

func parse(t testing.TB, text string) canonical.Value {
	t.Helper()
	v, err := canonical.ParseJSON([]byte(text))
	if err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	return v
}

// state returns a request that is valid, with a payload of state.v1.
func state(t testing.TB) canonical.Value {
	return sdl.New(sdl.TypeReq, sdl.CTState, planner, executor, parse(t, `{"base":"b","patch":[]}`), sdl.Writing{Now: now})
}

// set returns v with the member at a path of names replaced by a JSON text, or
// removed if that is "".
func set(t testing.TB, v canonical.Value, path, text string) canonical.Value {
	name, rest, deeper := strings.Cut(path, ".")
	switch {
	case deeper:
		return v.With(name, set(t, v.Get(name), rest, text))
	case text == "":
		return v.Without(name)
	}
	return v.With(name, parse(t, text))
}

// validate returns what an envelope is refused with, as "CODE retryable details",
// or "accepted".
func validate(v canonical.Value, o sdl.Options) string {
	o.Now = now
	_, refused := sdl.Validate(v, o)
	return verdict(refused)
}

func verdict(refused *sdl.Error) string {
	if refused == nil {
		return "accepted"
	}
	text := string(refused.Code)
	if refused.Retryable {
		text += " retryable"
	}
	if !refused.Details.IsNull() {
		text += " " + refused.Details.String()
	}
	return text
}

const (
	bad         = "BAD_REQUEST"
	badSchema   = "SCHEMA_INVALID retryable"
	supported   = `{"supported":{"enc":["x25519-chacha20poly1305"],"modes":["enc","enc+sig","none","sig"],"sig":["ed25519"]}}`
	unsupported = "SECURITY_UNSUPPORTED retryable " + supported
	untrusted   = "SECURITY_UNSUPPORTED " + supported
	unknownCT   = `UNSUPPORTED_CT retryable {"supported_ct":["artifact.v1","error.v1","negotiation.v1","session.v1","state.v1","task.v1","toolcall.v1","toolresult.v1","trustsync.v1"]}`

	accepted = "accepted"

	// weak is a schema that holds for every object; so is the same elsewhere.
	weak    = `{"kind":"embedded","id":"sha256:a2c799262a3ce3c19ef5cdd983bf3d12b43ab3c426227091b909dcb7054738c0","embedded":{"type":"object"}}`
	fetched = `{"kind":"uri","id":"sha256:a2c799262a3ce3c19ef5cdd983bf3d12b43ab3c426227091b909dcb7054738c0","uri":"https://example.org/schema.json"}`

	sealed = `{"mode":"enc","enc":{"alg":"x25519-chacha20poly1305","recipients":[],"nonce":"","ciphertext":""}}`
)

func TestMembers(t *testing.T) {
	for _, test := range []struct{ path, text, want string }{
		{"x", "1", accepted},
		{"from.x", "[1]", accepted},
		{"v", "", bad}, {"v", "2", bad}, {"v", "1.0", bad}, {"v", "true", bad}, {"v", `"1"`, bad},
		{"id", "", bad}, {"id", `""`, bad}, {"id", "7", bad},
		{"ts", "", bad}, {"ts", `"2026-03-01"`, bad}, {"ts", "7", bad},
		{"type", "", bad}, {"type", `"REQ"`, bad}, {"type", "null", bad}, {"type", `"evt"`, accepted},
		{"from", "", bad}, {"from", `"x"`, bad}, {"from", "null", bad}, {"from.agent_id", "", bad}, {"from.role", `""`, bad},
		{"to", "", bad}, {"to.name", "1", bad}, {"to.instance", "null", bad},
		{"cap", "", bad}, {"cap", "null", bad}, {"cap", "[]", bad}, {"cap", "{}", accepted},
		{"cap.a2a_sdl", "", accepted}, {"cap.a2a_sdl", "7", accepted}, {"cap.a2a_sdl.v", "", accepted},
		{"cap.a2a_sdl.v", "2", bad}, {"cap.a2a_sdl.v", "1.0", bad}, {"cap.a2a_sdl.v", "true", bad}, {"cap.a2a_sdl.v", "999", bad},
		{"ct", "", bad}, {"ct", "1", bad}, {"ct", `"State.v1"`, unknownCT}, {"ct", `"state.v2"`, unknownCT}, {"ct", `""`, unknownCT},
		{"schema", "", bad}, {"schema", "null", badSchema}, {"schema", weak, accepted}, {"schema", fetched, badSchema},
		{"payload", "", bad}, {"payload", "null", badSchema},
		{"sec", "null", accepted}, {"sec", "[]", bad},
		{"trace", "null", accepted}, {"trace", "[]", bad},
	} {
		if got := validate(set(t, state(t), test.path, test.text), sdl.Options{}); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.path, test.text, got, test.want)
		}
	}
}

// A refusal of the structure names the member to its sender, and says why. Of a schema
// elsewhere it names the member only, of an encrypted payload nothing.
func TestStructuralRefusalsNameTheMember(t *testing.T) {
	failing := sdl.Options{Fetch: func(string) (canonical.Value, error) { return canonical.Value{}, errors.New("dial 10.0.0.1") }}
	for _, test := range []struct {
		path, text, want string
		o                sdl.Options
	}{
		{path: "from", text: "", want: `{"member":"from","text":"from is missing"}`},
		{path: "v", text: "2", want: `{"member":"v","text":"v is not the integer 1"}`},
		{path: "ts", text: "7", want: `{"member":"ts","text":"ts is no timestamp"}`},
		{path: "to.name", text: "1", want: `{"member":"to.name","text":"to.name is no text or empty"}`},
		{path: "cap", text: "[]", want: `{"member":"cap","text":"cap is array, want an object"}`},
		{path: "cap.a2a_sdl.v", text: "2", want: `{"member":"cap.a2a_sdl.v","text":"cap.a2a_sdl.v is not a version that is spoken here"}`},
		{path: "schema.id", text: `"x"`, want: `{"member":"schema.id","text":"schema.id is not sha256: and 64 lower-case hexadecimal digits"}`},
		{path: "schema", text: fetched, want: `{"member":"schema.kind","text":"schema.kind is uri, and schemas are not fetched here"}`},
		{path: "schema", text: fetched, o: failing, want: `{"member":"schema.uri"}`},
		{path: "payload", text: `{"base":"b"}`, want: `"payload"`},
		{path: "trace", text: `{"span_id":"s","root_id":"r","hops":9}`, want: `{"member":"trace.hops","text":"trace.hops is not an integer of 0 to 8"}`},
		{path: "sec", text: `{"mode":"magic"}`, want: `"text":"sec.mode is none of [enc enc+sig none sig]"`},
	} {
		_, refused := sdl.Validate(set(t, state(t), test.path, test.text), test.o)
		if refused == nil {
			t.Errorf("%s %s: accepted", test.path, test.text)
			continue
		}
		got := refused.Payload().Get("details").String()
		if !strings.Contains(got, test.want) || strings.Contains(got, "10.0.0.1") {
			t.Errorf("%s %s: details %s, want %s", test.path, test.text, got, test.want)
		}
	}
	e, refused := sdl.Validate(state(t).With("sec", parse(t, sealed)).With("payload", canonical.Value{}), sdl.Options{Now: now})
	if refused != nil {
		t.Fatal(refused)
	}
	if got := e.CheckPayload(parse(t, `{"base":"secret"}`)).Payload().Get("details").String(); got != "{}" {
		t.Errorf("of an encrypted payload: %s", got)
	}
}

// Of several faults the first in the order of §2.2 is reported: each line breaks
// one thing more, of an earlier row.
func TestTheFirstRowThatFailsDecides(t *testing.T) {
	v := state(t)
	o := sdl.Options{Limits: sdl.Limits{MaxDepth: 7}, Versions: sdl.VersionPolicy{RequirePeer: true, Allowed: map[string]sdl.VersionRange{"task": {2, 2}}}}
	for i, step := range []struct{ path, text, want, reason string }{
		{"payload.patch", `1`, badSchema, "schema of state.v1"},
		{"payload.deep", `[[[[[[[1]]]]]]]`, bad + ` {"max_depth":7}`, "depth"},
		{"trace", `{"span_id":"s","hops":0}`, bad, "root_id"},
		{"sec", `{"mode":"magic"}`, unsupported, "mode"},
		{"schema.id", `"sha256:0"`, badSchema, "schema.id"},
		{"ct", `"task.v1"`, bad, "outside the versions"},
		{"ct", `"task.v9"`, unknownCT, "content type"},
		{"ct", `7`, bad, "ct is no text"},
		{"cap.a2a_sdl.v", ``, bad, "required"},
		{"cap", `7`, bad, "cap is"},
		{"to.name", `7`, bad, "to.name"},
		{"from.role", `7`, bad, "from.role"},
		{"from.agent_id", `7`, bad, "from.agent_id"},
		{"type", `"x"`, bad, "type"},
		{"ts", `"x"`, bad, "ts"},
		{"id", `""`, bad, "id"},
		{"v", `2`, bad, "v is"},
		{"ct", ``, bad, "ct is missing"},
	} {
		v = set(t, v, step.path, step.text)
		_, refused := sdl.Validate(v, o)
		if got := verdict(refused); got != step.want || !strings.Contains(refused.Reason, step.reason) {
			t.Errorf("%d: %s (%v), want %s for %s", i, got, refused, step.want, step.reason)
		}
	}
}

func TestEnvelopeShowsWhatWasChecked(t *testing.T) {
	v := state(t).With("trace", parse(t, `{"root_id":"r","span_id":"s","parent_span_id":"p","hops":8,"audit":1}`))
	v = v.With("sec", parse(t, `{"mode":"sig","kid":"k","sig":{"alg":"ed25519","value":""},"replay":{"nonce":"n","exp":"2026-03-01T12:05:00Z"}}`))
	e, refused := sdl.Validate(v, sdl.Options{Now: now})
	if refused != nil {
		t.Fatal(refused)
	}
	if !e.TS.Equal(noon) || e.Type != sdl.TypeReq || e.From != planner || e.To != executor || e.CT != sdl.CTState || !e.Value.Equal(v) {
		t.Errorf("%+v", e)
	}
	if diff := cmp.Diff(&sdl.Trace{RootID: "r", SpanID: "s", ParentSpanID: "p", Hops: 8}, e.Trace); diff != "" {
		t.Error(diff)
	}
	want := sdl.Sec{Present: true, Mode: sdl.ModeSig, Kid: "k", Replay: &sdl.Replay{Nonce: "n", Exp: noon.Add(5 * time.Minute)}, Value: v.Get("sec")}
	if diff := cmp.Diff(want, e.Sec); diff != "" {
		t.Error(diff)
	}
}

func TestPR18SecurityBlocksOfAnotherShapeAreRefused(t *testing.T) {
	const (
		sig    = `"sig":{"alg":"ed25519","value":""}`
		enc    = `"enc":{"alg":"x25519-chacha20poly1305","recipients":[],"nonce":"","ciphertext":""}`
		replay = `"replay":{"nonce":"n","exp":"2026-03-01T12:05:00Z"}`
	)
	for _, test := range []struct{ sec, want string }{
		{`{"mode":"none"}`, accepted}, {`{"mode":"none","sig":7,"enc":7}`, accepted}, {`{"mode":"none",` + replay + `}`, accepted},
		{`{}`, unsupported}, {`{"mode":null}`, unsupported}, {`{"mode":"SIG"}`, unsupported}, {`{"mode":["sig"]}`, unsupported},
		{`{"mode":"sig",` + sig + `}`, accepted}, {`{"mode":"sig",` + sig + `,"enc":7}`, accepted},
		{`{"mode":"sig"}`, unsupported}, {`{"mode":"sig","sig":"x"}`, unsupported}, {`{"mode":"sig","sig":{"alg":"ed25519"}}`, unsupported},
		{`{"mode":"sig","sig":{"alg":"none","value":""}}`, unsupported}, {`{"mode":"sig","sig":{"alg":"Ed25519","value":""}}`, unsupported},
		{`{"mode":"sig","sig":{"alg":"ed25519","value":7}}`, unsupported},
		{`{"mode":"enc+sig",` + sig + `}`, unsupported}, {`{"mode":"enc+sig",` + enc + `}`, unsupported}, {`{"mode":"enc+sig",` + enc + `,` + sig + `}`, accepted},
		{`{"mode":"enc",` + enc + `}`, accepted}, {`{"mode":"enc",` + enc + `,"sig":7}`, accepted},
		{`{"mode":"enc","enc":{"alg":"aes","recipients":[],"nonce":"","ciphertext":""}}`, unsupported},
		{`{"mode":"enc","enc":{"alg":"x25519-chacha20poly1305","recipients":{},"nonce":"","ciphertext":""}}`, unsupported},
		{`{"mode":"enc","enc":{"alg":"x25519-chacha20poly1305","recipients":[],"nonce":1,"ciphertext":""}}`, unsupported},
		{`{"mode":"enc","enc":{"alg":"x25519-chacha20poly1305","recipients":[],"nonce":""}}`, unsupported},
		{`{"mode":"none","replay":7}`, bad}, {`{"mode":"none","replay":null}`, bad}, {`{"mode":"none","replay":{}}`, bad},
		{`{"mode":"none","replay":{"nonce":"","exp":"2026-03-01T12:05:00Z"}}`, bad}, {`{"mode":"none","replay":{"nonce":1,"exp":"2026-03-01T12:05:00Z"}}`, bad},
		{`{"mode":"none","replay":{"nonce":"n"}}`, bad}, {`{"mode":"none","replay":{"nonce":"n","exp":1}}`, bad}, {`{"mode":"none","replay":{"nonce":"n","exp":"2026-03-01T12:05:00+01:00"}}`, bad},
	} {
		v := state(t).With("sec", parse(t, test.sec))
		if strings.Contains(test.sec, `"mode":"enc`) {
			v = set(t, v, "payload", "null")
		}
		if got := validate(v, sdl.Options{}); got != test.want {
			t.Errorf("%s: %s, want %s", test.sec, got, test.want)
		}
	}
	if got := validate(state(t).With("sec", parse(t, sealed)), sdl.Options{}); got != untrusted {
		t.Errorf("a payload beside its ciphertext: %s", got)
	}
	// Of two faults the first of §6.2 is told.
	for changes, want := range map[string]string{
		`"replay":7`:              bad, // before the payload beside its ciphertext
		`"replay":7,"mode":"sig"`: unsupported,
		`"replay":7,"enc":7`:      unsupported,
	} {
		v := state(t).With("sec", parse(t, sealed))
		for name, m := range parse(t, "{"+changes+"}").Members() {
			v = v.With("sec", v.Get("sec").With(name, m))
		}
		if got := validate(v, sdl.Options{}); got != want {
			t.Errorf("%s: %s, want %s", changes, got, want)
		}
	}
}

func TestTraces(t *testing.T) {
	for trace, want := range map[string]string{
		`{"root_id":"r","span_id":"s","hops":0}`:                          accepted,
		`{"root_id":"r","span_id":"s","hops":8,"audit":{}}`:               accepted,
		`{"root_id":"r","span_id":"s","hops":0,"parent_span_id":null}`:    accepted,
		`{"root_id":"r","span_id":"s","hops":0,"parent_span_id":"p"}`:     accepted,
		`{"root_id":"r","span_id":"s","hops":0,"parent_span_id":""}`:      bad,
		`{"root_id":"r","span_id":"s","hops":0,"parent_span_id":1}`:       bad,
		`{"root_id":"r","span_id":"s","hops":9}`:                          bad,
		`{"root_id":"r","span_id":"s","hops":-1}`:                         bad,
		`{"root_id":"r","span_id":"s","hops":1.0}`:                        bad,
		`{"root_id":"r","span_id":"s","hops":true}`:                       bad,
		`{"root_id":"r","span_id":"s","hops":99999999999999999999999999}`: bad,
		`{"root_id":"r","span_id":"s"}`:                                   bad,
		`{"root_id":"r","hops":0}`:                                        bad,
		`{"root_id":"","span_id":"s","hops":0}`:                           bad,
		`"r"`:                                                             bad,
	} {
		if got := validate(state(t).With("trace", parse(t, trace)), sdl.Options{}); got != want {
			t.Errorf("%s: %s, want %s", trace, got, want)
		}
	}
}

func TestDescriptors(t *testing.T) {
	hash := func(v canonical.Value) string { return `"` + canonical.Hash(v) + `"` }
	loose := `{"type":["object"]}`
	for descriptor, want := range map[string]string{
		weak: accepted,
		fmt.Sprintf(`{"kind":"embedded","embedded":%s,"id":%s,"uri":7}`, loose, hash(parse(t, loose))):          accepted,
		fmt.Sprintf(`{"kind":"embedded","embedded":%s,"id":%s}`, loose, strings.ToUpper(hash(parse(t, loose)))): badSchema,
		fmt.Sprintf(`{"kind":"embedded","embedded":true,"id":%s}`, hash(parse(t, "true"))):                      badSchema,
		fmt.Sprintf(`{"kind":"embedded","id":%s}`, hash(parse(t, "null"))):                                      badSchema,
		fmt.Sprintf(`{"kind":"other","embedded":%s,"id":%s}`, loose, hash(parse(t, loose))):                     badSchema,
		fmt.Sprintf(`{"embedded":%s,"id":%s}`, loose, hash(parse(t, loose))):                                    badSchema,
		fmt.Sprintf(`{"kind":"embedded","embedded":{"type":"object","x":1},"id":%s}`, hash(parse(t, loose))):    badSchema,
		fmt.Sprintf(`{"kind":"embedded","embedded":%s}`, loose):                                                 badSchema,
		`{"kind":"uri","uri":"https://example.org/","id":"sha256:0"}`:                                           badSchema,
		`[]`: badSchema,
	} {
		if got := validate(state(t).With("schema", parse(t, descriptor)), sdl.Options{}); got != want {
			t.Errorf("%s: %s, want %s", descriptor, got, want)
		}
	}
}

func TestLimitsAndOneMore(t *testing.T) {
	v := state(t).With("payload", parse(t, `{"base":"","patch":[{},{},{},{},{},{},{}],"deep":{"a":{"b":{"c":{"d":{"e":1}}}}}}`))
	v = v.With("trace", parse(t, `{"root_id":"r","span_id":"s","hops":3}`))
	exact := sdl.Limits{MaxBytes: v.JSONSize(), MaxDepth: v.Depth(), MaxArray: 7, MaxHops: 3}
	if got := validate(v, sdl.Options{Limits: exact}); got != accepted {
		t.Error(got)
	}
	for limits, want := range map[sdl.Limits]string{
		{MaxBytes: exact.MaxBytes - 1}: fmt.Sprintf(`{"max_bytes":%d}`, exact.MaxBytes-1),
		{MaxDepth: exact.MaxDepth - 1}: fmt.Sprintf(`{"max_depth":%d}`, exact.MaxDepth-1),
		{MaxArray: exact.MaxArray - 1}: `{"max_array_len":6}`,
	} {
		if got := validate(v, sdl.Options{Limits: limits}); got != bad+" "+want {
			t.Errorf("%+v: %s, want %s", limits, got, want)
		}
	}
	if got := validate(v, sdl.Options{Limits: sdl.Limits{MaxHops: exact.MaxHops - 1}}); got != bad {
		t.Errorf("one hop more: %s", got)
	}
}

func TestPR18PayloadsThatWereEncryptedHaveTheSameLimits(t *testing.T) {
	o := sdl.Options{Limits: sdl.Limits{MaxBytes: 2000, MaxDepth: 10, MaxArray: 7}, Now: now}
	v := state(t).With("sec", parse(t, sealed)).With("payload", canonical.Value{})
	e, refused := sdl.Validate(v, o)
	if refused != nil {
		t.Fatal(refused)
	}
	letters := strings.Repeat("x", 2000-len(`{"base":"","patch":[]}`))
	for payload, want := range map[string]string{
		`{"base":"b","patch":[]}`:                       accepted,
		`{"base":"` + letters + `","patch":[]}`:         accepted,
		`{"base":"x` + letters + `","patch":[]}`:        bad + ` {"max_bytes":2000}`,
		`{"base":"","patch":[],"d":[[[[[[[1]]]]]]]}`:    accepted,
		`{"base":"","patch":[],"d":[[[[[[[[1]]]]]]]]}`:  bad + ` {"max_depth":10}`,
		`{"base":"","patch":[{},{},{},{},{},{},{}]}`:    accepted,
		`{"base":"","patch":[{},{},{},{},{},{},{},{}]}`: bad + ` {"max_array_len":7}`,
		`{"base":"b"}`: badSchema,
		`null`:         badSchema,
	} {
		if got := verdict(e.CheckPayload(parse(t, payload))); got != want {
			t.Errorf("%.100s: %s, want %s", payload, got, want)
		}
	}
}

func TestPR18TheBuiltInSchemaHoldsWhateverTheSenderEmbeds(t *testing.T) {
	v := set(t, state(t), "schema", weak)
	if got := validate(set(t, v, "payload", `{"base":1,"patch":[]}`), sdl.Options{}); got != badSchema {
		t.Errorf("a payload that is no state: %s", got)
	}
	strict := `{"required":["extra"]}`
	v = set(t, v, "schema", fmt.Sprintf(`{"kind":"embedded","embedded":%s,"id":%q}`, strict, canonical.Hash(parse(t, strict))))
	if got := validate(v, sdl.Options{}); got != badSchema {
		t.Errorf("a payload without what its own schema asks for: %s", got)
	}
	if got := validate(set(t, v, "payload.extra", "1"), sdl.Options{}); got != accepted {
		t.Error(got)
	}
}

func TestPR18AnEmbeddedSchemaFetchesNothing(t *testing.T) {
	for _, document := range []string{`{"$ref":"http://127.0.0.1:1/x"}`, `{"$ref":"file:///etc/passwd"}`, `{"properties":{"x":{"$ref":"other.json"}}}`} {
		v := set(t, state(t), "schema", fmt.Sprintf(`{"kind":"embedded","embedded":%s,"id":%q}`, document, canonical.Hash(parse(t, document))))
		if got := validate(v, sdl.Options{Fetch: func(string) (canonical.Value, error) {
			t.Error("fetched")
			return canonical.Object(), nil
		}}); got != badSchema {
			t.Errorf("%s: %s", document, got)
		}
	}
}

func TestPR18SchemasElsewhereAreRefusedOrHeldToTheirHash(t *testing.T) {
	v := set(t, state(t), "schema", fetched)
	hidden := set(t, v.With("sec", parse(t, sealed)), "payload", "null")
	for name, v := range map[string]canonical.Value{"in clear": v, "beside a ciphertext": hidden} {
		if got := validate(v, sdl.Options{}); got != badSchema {
			t.Errorf("%s, without a fetcher: %s", name, got)
		}
	}
	for _, test := range []struct {
		document canonical.Value
		err      error
		want     string
	}{
		{parse(t, `{"type":"object"}`), nil, accepted},
		{parse(t, `{"type":"array"}`), nil, badSchema + ` {"member":"schema.uri"}`},
		{parse(t, `true`), nil, badSchema + ` {"member":"schema.uri"}`},
		{canonical.Value{}, errors.New("nobody there"), badSchema + ` {"member":"schema.uri"}`},
	} {
		asked := ""
		got := validate(v, sdl.Options{Fetch: func(uri string) (canonical.Value, error) {
			asked = uri
			return test.document, test.err
		}})
		if got != test.want || asked != "https://example.org/schema.json" {
			t.Errorf("%v at %q: %s, want %s", test.document, asked, got, test.want)
		}
	}
}

// A sender may send a content type that only the receiver knows; its payload has the schema of the
// envelope. A receiver refuses it.
func TestOtherTypesAreForSendersAlone(t *testing.T) {
	schema := `{"kind":"embedded","id":"sha256:a2c799262a3ce3c19ef5cdd983bf3d12b43ab3c426227091b909dcb7054738c0","embedded":{"type":"object"}}`
	for _, test := range []struct{ ct, payload, want string }{
		{"task.v9", `{"kind":"task.v9"}`, "accepted"},
		{"another.v1", `{}`, "accepted"},
		{"task.v9", `[]`, badSchema},
		{"task", `{}`, unknownCT},
		{"task.vx", `{}`, unknownCT},
		{sdl.CTTask, `{}`, badSchema},
	} {
		v := set(t, set(t, state(t).With("ct", canonical.String(test.ct)), "schema", schema), "payload", test.payload)
		if got := validate(v, sdl.Options{OtherTypes: true}); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.ct, test.payload, got, test.want)
		}
		if got := validate(v, sdl.Options{}); test.ct != sdl.CTTask && got != unknownCT {
			t.Errorf("%s %s: %s of a receiver, want %s", test.ct, test.payload, got, unknownCT)
		}
	}
}
