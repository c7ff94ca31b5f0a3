package mcpheader

import (
	"testing"

	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/profiles/mcpmap"
)

func FuzzDecodeUndoesEncode(f *testing.F) {
	for _, seed := range []string{"", "add", " a", "Zürich", "a\r\nb", "=?base64?YQ==?=", "=?base64?", "=?base64?=", "?=", "\x00\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value := Encode(text)
		if !upstream.IsHeaderValue(value) {
			t.Errorf("%q is no value of a header", value)
		}
		if got, ok := Decode(value); !ok || got != text {
			t.Errorf("%q as %q: %q, %v", text, value, got, ok)
		}
	})
}

func TestDecodeRefusesWhatIsNoBase64(t *testing.T) {
	for value, want := range map[string]bool{"=?base64?YQ==?=": true, "=?base64?Y?=": false, "=?base64?YQ==": true} {
		if _, ok := Decode(value); ok != want {
			t.Errorf("%q: %v, want %v", value, ok, want)
		}
	}
}

func TestNameOfReadsTheMemberThatTheMethodHas(t *testing.T) {
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}`:            "add",
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}`:             "p",
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:a"}}`:      "file:a",
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"URI":"file:a"}}`:      "",
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":7}}`:               "",
		`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t\u0031"}}`:       "t1",
		`{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{"taskId":"t"}}`:          "t",
		`{"jsonrpc":"2.0","id":1,"method":"tasks/cancel","params":{"taskId":"t"}}`:          "t",
		`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"name":"t"}}`:               "",
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"add"}}`:            "",
		`{"jsonrpc":"2.0","id":1,"method":"resources/templates/list","params":{"uri":"a"}}`: "",
	} {
		var m mcpmap.Message
		if err := m.Scan([]byte(body)); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got, ok := NameOf(&m); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v, want %q", body, got, ok, want)
		}
	}
}
