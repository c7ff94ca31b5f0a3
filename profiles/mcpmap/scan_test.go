package mcpmap

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
)

func scan(t *testing.T, text string) (Message, error) {
	t.Helper()
	var m Message
	err := m.Scan([]byte(text))
	if err != nil {
		var e *profiles.Error
		if !errors.As(err, &e) || e.Code != profiles.InvalidMCPPayload {
			t.Fatalf("Scan(%.60q) = %v, want an *Error of InvalidMCPPayload", text, err)
		}
	}
	return m, err
}

func detail(err error) string {
	if e, ok := errors.AsType[*profiles.Error](err); ok {
		return e.Detail
	}
	return ""
}

func TestScanFindsTheOutline(t *testing.T) {
	m, err := scan(t, ` {"params" : {"_meta":{"progressToken":"p\u0031","x":[{"progressToken":9}],
		"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"a":[1,{"id":3}],"requestId": 9007199254740993 },
		"id":	1.0 ,"m\u0065thod":"tools\/call","jsonrpc":"2.0","extra":{"id":7}} `)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		got, want string
	}{
		{"id", string(m.ID()), "1.0"},
		{"method", string(m.Method()), "tools/call"},
		{"progressToken", string(m.ProgressToken()), `"p\u0031"`},
		{"requestId", string(m.RequestID()), "9007199254740993"},
		{"version", m.Version(), "2026-07-28"},
		{"result", string(m.Result()), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s = %q, want %q", c.name, c.got, c.want)
		}
	}
	if !bytes.HasPrefix(m.Params(), []byte(`{"_meta"`)) || !bytes.HasSuffix(m.Params(), []byte(`993 }`)) {
		t.Errorf("params = %q", m.Params())
	}
	if m, err := scan(t, `{"p\u0061rams":{"n\u0061me":"x"},"r\u0065sult":{"t\u0061sk":{"t\u0061skId":"t"}}}`); err != nil || m.Params() == nil || m.Result() == nil || string(m.Task()) != "t" {
		t.Errorf("escaped names inside escaped names: params %q, result %q, task %q, %v", m.Params(), m.Result(), m.Task(), err)
	}
	if !m.Modern() || m.Kind() != Request || m.Check(Request) != nil {
		t.Errorf("Modern %v, Kind %v, Check %v", m.Modern(), m.Kind(), m.Check(Request))
	}
}

func TestScanLastMemberInsideParamsCounts(t *testing.T) {
	m, err := scan(t, `{"params":{"_meta":{"progressToken":1},"requestId":1,"requestId":2,"_meta":{"x":1}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(m.RequestID()); got != "2" {
		t.Errorf("requestId = %s, want 2", got)
	}
	if got := m.ProgressToken(); got != nil {
		t.Errorf("progressToken = %s of the replaced _meta, want none", got)
	}
}

func TestScanRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, detail string }{
		{"empty", "", detailJSON},
		{"bad UTF-8", "\xff\xfe\xfd", detailUTF8},
		{"bad UTF-8 in a string", "{\"a\":\"\xc3\x28\"}", detailUTF8},
		{"a surrogate written as UTF-8", "{\"a\":\"\xed\xa0\x80\"}", detailUTF8},
		{"BOM", "\ufeff{}", detailJSON},
		{"cut", `{"jsonrpc":`, detailJSON},
		{"text after the object", `{} x`, detailJSON},
		{"two objects", `{}{}`, detailJSON},
		{"NUL after the object", "{}\x00", detailJSON},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"a"}]`, detailShape},
		{"string", `"a"`, detailShape},
		{"number", `1`, detailShape},
		{"raw line feed in a string", "{\"a\":\"\n\"}", detailJSON},
		{"leading zero", `{"a":01}`, detailJSON},
		{"lone minus", `{"a":-}`, detailJSON},
		{"trailing comma", `{"a":1,}`, detailJSON},
		{"trailing comma in an array", `{"a":[1,]}`, detailJSON},
		{"mismatched bracket", `{"a":[1}}`, detailJSON},
		{"bad escape", `{"a":"\x"}`, detailJSON},
		{"short unicode escape", `{"a":"\u12"}`, detailJSON},
		{"repeated id", `{"id":1,"id":1}`, detailShape},
		{"repeated id, escaped", `{"id":1,"\u0069d":2}`, detailShape},
		{"repeated method", `{"method":"a","met\u0068od":"b"}`, detailShape},
		{"repeated params", `{"params":{},"params":1}`, detailShape},
		{"repeated jsonrpc", `{"jsonrpc":"2.0","jsonrpc":"2.0"}`, detailShape},
		{"repeated result", `{"result":1,"result":2}`, detailShape},
		{"repeated error", `{"error":1,"error":2}`, detailShape},
		{"id object", `{"id":{}}`, detailShape},
		{"id true", `{"id":true}`, detailShape},
		{"method number", `{"method":1}`, detailShape},
	} {
		if _, err := scan(t, c.text); detail(err) != c.detail {
			t.Errorf("%s: %v, want detail %s", c.name, err, c.detail)
		}
	}
}

func TestScanDepthLimit(t *testing.T) {
	nest := func(n int) string {
		return `{"params":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`
	}
	if _, err := scan(t, nest(maxDepth)); err != nil {
		t.Errorf("depth %d: %v", maxDepth, err)
	}
	if _, err := scan(t, nest(maxDepth+1)); detail(err) != detailDepth {
		t.Errorf("depth %d: %v, want %s", maxDepth+1, err, detailDepth)
	}
	inMeta := `{"params":{"_meta":{"a":` + strings.Repeat("[", maxDepth-3) + strings.Repeat("]", maxDepth-3) + `}}}`
	if _, err := scan(t, inMeta); err != nil {
		t.Errorf("depth %d inside _meta: %v", maxDepth, err)
	}
}

func TestScanEveryPrefixIsRefused(t *testing.T) {
	text := `{"jsonrpc":"2.0","id":-1.5e+3,"method":"a\u00e9","params":{"_meta":{"progressToken":null},"b":[true,false,{}]}}`
	for i := range text {
		if _, err := scan(t, text[:i]); err == nil {
			t.Errorf("prefix of %d octets accepted", i)
		}
	}
}

func TestScanDoesNotAllocate(t *testing.T) {
	payload := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":1},"name":"echo"}}`)
	var m Message
	if n := testing.AllocsPerRun(100, func() {
		if m.Scan(payload) != nil || m.Check(Request) != nil || !m.Is("tools/call") {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// bombs are the rows of RS-07, each about a MiB, and whether MCP refuses them:
// payloads are opaque to this mapping, so only what no JSON parser may accept
// or what nests too deep is refused; the rest must just be cheap.
var bombs = []struct {
	name, text string
	ok         bool
}{
	{"a million brackets", `{"params":` + strings.Repeat("[", 1<<20), false},
	{"a million brackets, closed", `{"params":` + strings.Repeat("[", 1<<19) + strings.Repeat("]", 1<<19) + `}`, false},
	{"a million braces", strings.Repeat(`{"a":`, 1<<18), false},
	{"an array of many elements", `{"params":[` + strings.Repeat("0,", 1<<19) + `0]}`, true},
	{"a million keys", `{"params":{` + strings.Repeat(`"k":1,`, 1<<18) + `"k":1}}`, true},
	{"a million keys of the message", `{` + strings.Repeat(`"k":1,`, 1<<18) + `"k":1}`, true},
	{"a number of a MiB", `{"id":` + strings.Repeat("7", 1<<20) + `}`, true},
	{"a large exponent", `{"id":1e999999999}`, true},
	{"escapes", `{"method":"` + strings.Repeat(`\u0041`, 1<<17) + `"}`, true},
	{"half a surrogate pair", `{"params":"\ud800"}`, true},
	{"a half pair in raw UTF-8", "{\"params\":\"\xed\xa0\x80\"}", false},
	{"NUL after the document", "{}\x00", false},
	{"a MiB of white space", `{` + strings.Repeat(" ", 1<<20) + `}`, true},
}

func TestRS07JSONBombsAreCheapToRefuse(t *testing.T) {
	effort.Unwatched(t)
	for _, b := range bombs {
		payload := []byte(b.text)
		var m Message
		err := m.Scan(payload)
		if (err == nil) != b.ok {
			t.Errorf("%s: %v, want ok %v", b.name, err, b.ok)
		}
		if n := testing.AllocsPerRun(1, func() { _ = m.Scan(payload) }); n > 1 {
			t.Errorf("%s: %v allocations", b.name, n)
		}
		TokenKey(m.ID())
	}
}

func TestRS07HalfASurrogatePairIsNoMethod(t *testing.T) {
	m, err := scan(t, `{"jsonrpc":"2.0","id":1,"method":"a\ud800"}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Check(Request); detail(err) != detailShape {
		t.Errorf("%v, want %s", err, detailShape)
	}
}

func TestGW06MalformedMessagesAreRefused(t *testing.T) {
	const (
		req  = Request
		resp = Response
		note = Notification
	)
	for _, c := range []struct {
		name string
		kind Kind
		text string
		ok   bool
	}{
		{"request", req, `{"jsonrpc":"2.0","id":1,"method":"a"}`, true},
		{"array batch", req, `[{"jsonrpc":"2.0","id":1,"method":"a"}]`, false},
		{"repeated jsonrpc", req, `{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"a"}`, false},
		{"repeated id", req, `{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`, false},
		{"repeated id, escaped", req, `{"jsonrpc":"2.0","id":1,"i\u0064":2,"method":"a"}`, false},
		{"repeated method", req, `{"jsonrpc":"2.0","id":1,"method":"a","method":"a"}`, false},
		{"repeated params", req, `{"jsonrpc":"2.0","id":1,"method":"a","params":{},"param\u0073":{}}`, false},
		{"BOM", req, "\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":1,"method":"a"}`, false},
		{"text after the object", req, `{"jsonrpc":"2.0","id":1,"method":"a"}}`, false},
		{"request without id", req, `{"jsonrpc":"2.0","method":"a"}`, false},
		{"request with id null", req, `{"jsonrpc":"2.0","id":null,"method":"a"}`, false},
		{"request without method", req, `{"jsonrpc":"2.0","id":1}`, false},
		{"request with a result", req, `{"jsonrpc":"2.0","id":1,"method":"a","result":1}`, false},
		{"no version", req, `{"id":1,"method":"a"}`, false},
		{"wrong version", req, `{"jsonrpc":"1.0","id":1,"method":"a"}`, false},
		{"version as a number", req, `{"jsonrpc":2.0,"id":1,"method":"a"}`, false},
		{"invalid UTF-8", req, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\xff\"}", false},
		{"Method", req, `{"jsonrpc":"2.0","id":1,"Method":"a"}`, false},
		{"METHOD beside method", req, `{"jsonrpc":"2.0","id":1,"method":"a","METHOD":"b"}`, false},
		{"Method beside method, escaped", req, `{"jsonrpc":"2.0","id":1,"method":"a","\u004dethod":"b"}`, false},
		{"param\u017f beside params", req, `{"jsonrpc":"2.0","id":1,"method":"a","params":{},"paramſ":{}}`, false},
		{"another member", req, `{"jsonrpc":"2.0","id":1,"method":"a","methods":"b"}`, true},
		{"method with NUL", req, `{"jsonrpc":"2.0","id":1,"method\u0000":"a"}`, false},
		{"result", resp, `{"jsonrpc":"2.0","id":1,"result":null}`, true},
		{"repeated result", resp, `{"jsonrpc":"2.0","id":1,"result":1,"result":1}`, false},
		{"repeated error", resp, `{"jsonrpc":"2.0","id":1,"error":1,"err\u006fr":1}`, false},
		{"both", resp, `{"jsonrpc":"2.0","id":1,"result":1,"error":{}}`, false},
		{"neither", resp, `{"jsonrpc":"2.0","id":1}`, false},
		{"result without id", resp, `{"jsonrpc":"2.0","result":1}`, false},
		{"error without id", resp, `{"jsonrpc":"2.0","error":{"code":1,"message":""}}`, true},
		{"error with id null", resp, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}`, true},
		{"response with a method", resp, `{"jsonrpc":"2.0","id":1,"method":"a","result":1}`, false},
		{"notification", note, `{"jsonrpc":"2.0","method":"a"}`, true},
		{"notification with id", note, `{"jsonrpc":"2.0","id":1,"method":"a"}`, false},
		{"notification with id null", note, `{"jsonrpc":"2.0","id":null,"method":"a"}`, false},
		{"notification without method", note, `{"jsonrpc":"2.0"}`, false},
	} {
		m, err := scan(t, c.text)
		if err == nil {
			err = m.Check(c.kind)
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v, want ok %v", c.name, err, c.ok)
		}
	}
}

func TestTokenKeyJoinsWhatServersConfuse(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"1", "1.0", true},
		{"1e2", "100", true},
		{"9007199254740993", "9007199254740992", true},
		{"9007199254740993", "9007199254740994", false},
		{"0", "-0", true},
		{"1", `"1"`, false},
		{`"a"`, `"\u0061"`, true},
		{`"a"`, `"b"`, false},
		{"1e999", "1e9999", true},
	} {
		if got := TokenKey([]byte(c.a)) == TokenKey([]byte(c.b)); got != c.same {
			t.Errorf("%s and %s: same %v, want %v", c.a, c.b, got, c.same)
		}
	}
	if TokenKey(nil) != "" || TokenKey([]byte("null")) != "" {
		t.Error("null and an absent token name something")
	}
}

func FuzzScanAgreesWithEncodingJSON(f *testing.F) {
	for _, b := range bombs {
		if len(b.text) < 1<<10 {
			f.Add([]byte(b.text))
		}
	}
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":1}}}`,
		`{"jsonrpc":"2.0","id":"\ud83d\ude00","result":[1.5e-3,true,null,{"a":[]}]}`,
		`{"p\u0061rams":{"\u005fmeta":{"\u0061":1}},"r\u0065sult":{"t\u0061sk":{"\u0061":1}}}`,
		`[1,2]`, `{"a":1,"a":2}`, ` {} `, `{"method":"\u0000"}`, `-0`, `{"id":1E+2}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var m Message
		err := m.Scan(payload)
		valid := utf8.Valid(payload) && json.Valid(payload)
		switch detail(err) {
		case detailUTF8:
			if utf8.Valid(payload) {
				t.Fatal("refused as UTF-8")
			}
		case detailJSON:
			if valid {
				t.Fatal("refused as JSON")
			}
		case detailDepth:
		default:
			if !valid {
				t.Fatalf("accepted (%v)", err)
			}
			fields(t, payload, &m, err)
		}
	})
}

// fields compares what Scan found with what encoding/json finds.
func fields(t *testing.T, payload []byte, m *Message, err error) {
	var want map[string]json.RawMessage
	if json.Unmarshal(payload, &want) != nil || want == nil {
		if err == nil {
			t.Fatal("accepted what is no object")
		}
		return
	}
	if err != nil {
		return
	}
	for name, got := range map[string][]byte{
		"id": m.ID(), "params": m.Params(), "result": m.Result(), "error": m.Error(),
	} {
		if !bytes.Equal(got, want[name]) {
			t.Fatalf("%s = %q, want %q", name, got, want[name])
		}
	}
	var method string
	if raw, ok := want["method"]; ok {
		if err := json.Unmarshal(raw, &method); err != nil {
			t.Fatal(err)
		}
	}
	if string(m.Method()) != method {
		t.Fatalf("method = %q, want %q", m.Method(), method)
	}
}

func BenchmarkScan(b *testing.B) {
	for _, c := range []struct {
		name    string
		payload []byte
	}{
		{"call", []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":1},"name":"echo"}}`)},
		{"1MiB-string", []byte(`{"jsonrpc":"2.0","id":7,"result":"` + strings.Repeat("a", 1<<20) + `"}`)},
		{"1MiB-keys", []byte(`{"params":{` + strings.Repeat(`"k":1,`, 1<<20/6) + `"k":1}}`)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.payload)))
			b.ReportAllocs()
			var m Message
			for b.Loop() {
				if err := m.Scan(c.payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
