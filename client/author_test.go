package client

import (
	"encoding/json"
	"testing"
)

func TestAnErrorSaysWhoHasRefused(t *testing.T) {
	for _, row := range []struct{ data, target, want, json string }{
		{`{"code":"ERR_SECURITY_POLICY","endpoint":"spiffe://a/swpd"}`, "b/files", "no (JSON-RPC error -32603); refused by spiffe://a/swpd", `"endpoint":"spiffe://a/swpd"`},
		{`{"code":"ERR_SECURITY_POLICY","endpoint":"spiffe://b/swpd"}`, "b/files", "no (JSON-RPC error -32603); refused by partner b (spiffe://b/swpd)", `"endpoint":"spiffe://b/swpd","partner":"b"`},
		{`{"code":"ERR_SECURITY_POLICY","endpoint":"spiffe://c/swpd"}`, "b/c/files", "no (JSON-RPC error -32603); refused by spiffe://c/swpd, reached through partner b", `"endpoint":"spiffe://c/swpd","partner":"b"`},
		{`{"code":"ERR_NOT_FOUND","endpoint":"spiffe://b/swpd"}`, "b/files", "no (JSON-RPC error -32603); said by partner b (spiffe://b/swpd)", `"endpoint":"spiffe://b/swpd","partner":"b"`},
		{`{"code":"ERR_SECURITY_POLICY"}`, "b/files", "no (JSON-RPC error -32603)", ""},
		{`{"code":7,"endpoint":"spiffe://b/swpd"}`, "b/files", "no (JSON-RPC error -32603)", ""},
		{`"its own"`, "b/files", "no (JSON-RPC error -32603)", ""},
	} {
		e := &MCPError{Code: -32603, Message: "no", Data: json.RawMessage(row.data)}
		_, endpoint := e.endpoint()
		e.Author = authorOf("spiffe://a/swpd", endpoint, row.target)
		if got := e.Error(); got != row.want {
			t.Errorf("%s: %q, want %q", row.data, got, row.want)
		}
		octets, err := json.Marshal(e)
		want := `{"code":-32603,"message":"no","data":` + row.data
		if row.json != "" {
			want += "," + row.json
		}
		if want += "}"; err != nil || string(octets) != want {
			t.Errorf("%s: %s, %v, want %s", row.data, octets, err, want)
		}
	}
}
