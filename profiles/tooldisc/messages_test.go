package tooldisc_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/profiles/tooldisc"
	"github.com/slimwire/swp/proto/prototest"
)

// message is what all messages have.
type message interface {
	Decode([]byte) error
	Append([]byte) []byte
	Size() int
}

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	full := tooldisc.Descriptor{
		ToolID: []byte("é/x"), Name: []byte("x"), Version: []byte("1.0"), SchemaRef: []byte("swp://schemas/x"), DescriptorPayload: []byte{0, 0xff, '\n'},
	}
	bare := tooldisc.Descriptor{ToolID: []byte("b"), Name: []byte("b"), Version: []byte("1"), SchemaRef: []byte("x:y")}
	const (
		fullText = `{tool_id: "é/x" name: "x" version: "1.0" schema_ref: "swp://schemas/x" descriptor_payload: "\000\377\n"}`
		bareText = `{tool_id: "b" name: "b" version: "1" schema_ref: "x:y"}`
	)
	prototest.Agree(t, "tooldisc", map[string]prototest.Message{
		`list_req {}`: &tooldisc.ListReq{},
		`list_req {page_size: 4294967295 page_token: "t" filter: "é"}`: &tooldisc.ListReq{PageSize: 1<<32 - 1, PageToken: []byte("t"), Filter: []byte("é")},
		`list_resp {}`: &tooldisc.ListResp{},
		`list_resp {tools [` + fullText + `, ` + bareText + `] next_page_token: "n"}`: &tooldisc.ListResp{Tools: []tooldisc.Descriptor{full, bare}, NextPageToken: []byte("n")},
		`get_req {tool_id: "é" version: "2"}`:                                         &tooldisc.GetReq{ToolID: []byte("é"), Version: []byte("2")},
		`get_resp {tool ` + fullText + `}`:                                            &tooldisc.GetResp{Tool: full},
		`err {code: "NOT_FOUND" message: "é"}`:                                        &tooldisc.Err{Code: []byte("NOT_FOUND"), Message: []byte("é")},
	})
}

func TestWhatIsRequiredAndWhatIsBounded(t *testing.T) {
	text := func(n int) []byte { return []byte(strings.Repeat("x", n)) }
	good := tooldisc.Descriptor{ToolID: []byte("a"), Name: []byte("a"), Version: []byte("1"), SchemaRef: []byte("x:y")}
	with := func(change func(*tooldisc.Descriptor)) tooldisc.Descriptor { d := good; change(&d); return d }
	for _, test := range []struct {
		name   string
		tool   tooldisc.Descriptor
		detail string // "" is accepted, "*" refused without one
	}{
		{"good", good, ""},
		{"no tool_id", with(func(d *tooldisc.Descriptor) { d.ToolID = nil }), p1.DetailRequired},
		{"no name", with(func(d *tooldisc.Descriptor) { d.Name = nil }), p1.DetailRequired},
		{"no version", with(func(d *tooldisc.Descriptor) { d.Version = nil }), p1.DetailRequired},
		{"no schema_ref", with(func(d *tooldisc.Descriptor) { d.SchemaRef = nil }), p1.DetailRequired},
		{"a bad schema_ref", with(func(d *tooldisc.Descriptor) { d.SchemaRef = []byte("sha256:00") }), tooldisc.DetailSchemaRef},
		{"a name that is not UTF-8", with(func(d *tooldisc.Descriptor) { d.Name = []byte("\xff") }), p1.DetailUTF8},
		{"the longest tool_id", with(func(d *tooldisc.Descriptor) { d.ToolID = text(tooldisc.MaxText) }), ""},
		{"a longer tool_id", with(func(d *tooldisc.Descriptor) { d.ToolID = text(tooldisc.MaxText + 1) }), "*"},
		{"a long version", with(func(d *tooldisc.Descriptor) { d.Version = text(tooldisc.MaxText + 1) }), "*"},
		{"the largest descriptor", with(func(d *tooldisc.Descriptor) { d.DescriptorPayload = text(tooldisc.MaxDescriptor) }), ""},
		{"PR-17 a larger descriptor", with(func(d *tooldisc.Descriptor) { d.DescriptorPayload = text(tooldisc.MaxDescriptor + 1) }), "*"},
	} {
		for _, m := range []message{&tooldisc.GetResp{Tool: test.tool}, &tooldisc.ListResp{Tools: []tooldisc.Descriptor{good, test.tool}}} {
			if got := detail(t, m.Decode(m.Append(nil))); got != test.detail {
				t.Errorf("%s in %T: detail %q, want %q", test.name, m, got, test.detail)
			}
		}
	}
	for _, test := range []struct {
		name   string
		m      message
		detail string
	}{
		{"get without tool_id", &tooldisc.GetReq{Version: []byte("1")}, p1.DetailRequired},
		{"get of the longest tool_id", &tooldisc.GetReq{ToolID: text(tooldisc.MaxText)}, ""},
		{"get of a longer one", &tooldisc.GetReq{ToolID: text(tooldisc.MaxText + 1)}, "*"},
		{"get of a long version", &tooldisc.GetReq{ToolID: text(1), Version: text(tooldisc.MaxText + 1)}, "*"},
		{"the longest filter", &tooldisc.ListReq{Filter: text(tooldisc.MaxFilter)}, ""},
		{"a longer filter", &tooldisc.ListReq{Filter: text(tooldisc.MaxFilter + 1)}, "*"},
		{"the longest token", &tooldisc.ListReq{PageToken: text(tooldisc.MaxToken)}, ""},
		{"a longer token", &tooldisc.ListReq{PageToken: text(tooldisc.MaxToken + 1)}, "*"},
		{"a long next token", &tooldisc.ListResp{NextPageToken: text(tooldisc.MaxToken + 1)}, "*"},
		{"err without code", &tooldisc.Err{Message: []byte("m")}, p1.DetailRequired},
	} {
		if got := detail(t, test.m.Decode(test.m.Append(nil))); got != test.detail {
			t.Errorf("%s: detail %q, want %q", test.name, got, test.detail)
		}
	}
	if got := detail(t, new(tooldisc.GetResp).Decode([]byte("\x22\x00"))); got != p1.DetailRequired {
		t.Errorf("get_resp without a tool: detail %q", got)
	}
}

// detail returns that of a refusal, "*" if it has none, "" for no error.
func detail(t *testing.T, err error) string {
	t.Helper()
	var fault *profiles.Error
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &fault) || fault.Code != profiles.InvalidProfilePayload:
		t.Errorf("error %v, want ERR_INVALID_PROFILE_PAYLOAD", err)
	case fault.Detail != "":
		return fault.Detail
	}
	return "*"
}

func TestRS06ToolsAreCountedBeforeTheyAreDecoded(t *testing.T) {
	bomb := func(n int) []byte {
		body := bytes.Repeat([]byte("\x0a\x00"), n)
		return append(p1.AppendHeader(nil, tooldisc.TypeListResp, len(body)), body...)
	}
	var m tooldisc.ListResp
	if got := detail(t, m.Decode(bomb(tooldisc.MaxTools))); got != p1.DetailRequired { // each lacks everything
		t.Errorf("as many as there may be: detail %q", got)
	}
	if n := testing.AllocsPerRun(1, func() {
		if got := detail(t, m.Decode(bomb(tooldisc.MaxTools+1))); got != p1.DetailCount {
			t.Errorf("one more: detail %q, want %q", got, p1.DetailCount)
		}
	}); n > 20 {
		t.Errorf("%v allocations", n)
	}
	if got := detail(t, m.Decode(bomb(4<<20))); got != p1.DetailCount {
		t.Errorf("4 million: detail %q, want %q", got, p1.DetailCount)
	}
}

func TestSchemaRefs(t *testing.T) {
	hex := func(n int) string { return strings.Repeat("0a", n) }
	for ref, good := range map[string]bool{
		"swp://schemas/tools/echo/v1": true, "https://example.org/s?x=1#/y": true, "urn:example:schema": true,
		"tag:example.org,2026:x": true, "file:///schema.json": true, "sha256:" + hex(32): true, "sha384:" + hex(48): true,
		"sha512:" + hex(64): true, "SHA256:" + strings.ToUpper(hex(32)): true, tooldisc.RefOf(nil): true,

		"": false, "schema": false, "/schemas/x": false, "//example.org/x": false, "?x": false, ":x": false, "1x:y": false,
		"http://": false, "x:": false, "http://a b/": false, "http://[::1": false, "https://example.org/%zz": false, "x:y\n": false,
		"urn:ex<ample>": false,
		"sha256:":       false, "sha256:" + hex(31): false, "sha256:" + hex(33): false, "sha256:" + hex(31) + "0": false,
		"sha256:" + hex(31) + "zz": false, "sha384:" + hex(32): false, "sha512:" + hex(48): false,
		"sha1:" + hex(20): false, "md5:" + hex(16): false, "sha224:" + hex(28): false,
	} {
		if got := detail(t, tooldisc.CheckRef(ref)); (got == "") != good {
			t.Errorf("%q: detail %q, want good %v", ref, got, good)
		}
	}
}

func TestVersionsAreOrdered(t *testing.T) {
	order := []string{
		"0", "0.0.1", "0.9", "0.10.0", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
		"1.0.0-rc.1", "1.0.0", "1.0.1", "1.2", "1.10", "2", "2026-07-28", "2026", "99999999999999999999999", "100000000000000000000000", "latest",
	}
	for i, a := range order {
		for j, b := range order {
			got, want := tooldisc.CompareVersions(a, b), 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got != want {
				t.Errorf("%q and %q: %d, want %d", a, b, got, want)
			}
		}
	}
	for _, same := range [][2]string{{"1", "1.0.0"}, {"v1.2", "1.2"}, {"1.0+build", "1.0"}, {"01.1", "1.01"}, {"", "0"}} {
		if tooldisc.CompareVersions(same[0], same[1]) != 0 || tooldisc.CompareVersions(same[1], same[0]) != 0 {
			t.Errorf("%q and %q are not the same", same[0], same[1])
		}
	}
}
