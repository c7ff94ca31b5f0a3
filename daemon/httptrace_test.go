package daemon

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

const (
	parentA = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	parentB = "00-1af7651916cd43dd8448eb211c80319d-b7ad6b7169203332-00"
)

// traceOf is a traceparent without the id of the span, which endpoints that take part in
// a trace replace.
func traceOf(parent string) string { return parent[:min(len(parent), 35)] }

// A program that is traced finds its trace at the server, in each request its own.
func TestTracesOverHTTPReachServers(t *testing.T) {
	seen := make(chan string, 16)
	server := mcp.NewServer(&mcp.Implementation{Name: "traced", Version: "3"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		seen <- traceOf(r.GetExtra().Header.Get("Traceparent")) + " " + r.GetExtra().Header.Get("Tracestate")
		return &mcp.CallToolResult{}, nil, nil
	})
	serve := func(opts *mcp.StreamableHTTPOptions) string {
		at := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, opts))
		t.Cleanup(at.Close)
		return at.URL
	}
	d := open(t, "a", httpYAML+fmt.Sprintf("mcp:\n  servers:\n    modern: {url: '%s'}\n    legacy: {url: '%s'}\n", serve(&mcp.StreamableHTTPOptions{Stateless: true}), serve(nil))+
		"access: {rules: [{identity: ['http:guest', 'http:alice'], profile: mcp}, {identity: 'http:guest', profile: obs, operation: set}]}\n")
	expect := func(what, want string) {
		t.Helper()
		if got := <-seen; got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	modern := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: greet"}
	call := func(path, body string, headers ...string) {
		t.Helper()
		if status, _, got := post(t, d.front()+path, body, headers...); status != 200 || strings.Contains(got, `"error"`) {
			t.Fatalf("%d %s", status, got)
		}
	}
	call("/mcp/modern", greet, append(modern, "Traceparent: "+parentA, "Tracestate: a=1")...)
	expect("modern", traceOf(parentA)+" a=1")
	call("/mcp/modern", greet, append(modern, "Traceparent: "+parentB)...)
	expect("modern, another", traceOf(parentB)+" ")
	call("/mcp/modern", greet, modern...)
	expect("modern, none", " ")
	call("/mcp/modern", greet, append(modern, "Traceparent: nonsense")...)
	expect("modern, none that is one", " ")
	call("/mcp/modern", greet, append(modern, "Traceparent: "+parentA, "Authorization: Bearer secret-a")...)
	expect("modern, without a rule", " ")

	_, header, _ := post(t, d.front()+"/mcp/legacy", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	session := "Mcp-Session-Id: " + header.Get("Mcp-Session-Id")
	const ask = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{}}}`
	call("/mcp/legacy", ask, session, "Traceparent: "+parentA)
	expect("legacy", traceOf(parentA)+" ")
	call("/mcp/legacy", ask, session)
	expect("legacy, none", " ")
	if log := d.log.String(); strings.Contains(log, `"profile":"obs"`) {
		t.Errorf("somebody is denied: %s", log)
	}
}

func TestTracesOverHTTPReachAgents(t *testing.T) {
	a := open(t, "a", httpYAML)
	seen := make(chan string, 16)
	a.agent("near", func(ctx context.Context, task *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		seen <- traceOf(profiles.TraceOf(ctx).Parent)
		return task.Input, nil
	}, a2abinding.Kinds()...)
	url := a.front() + "/a2a/near"
	for _, row := range []struct{ what, url, body, header, want string }{
		{"REST", url + "/message:send", `{}`, "Traceparent: " + parentA, traceOf(parentA)},
		{"JSON-RPC", url, `{"method":"SendMessage","params":{},"id":1,"jsonrpc":"2.0"}`, "Traceparent: " + parentB, traceOf(parentB)},
		{"none", url + "/message:send", `{}`, "Traceparent: x", ""},
	} {
		if status, _, got := post(t, row.url, row.body, version, row.header); status != 200 {
			t.Fatalf("%s: %d %s", row.what, status, got)
		}
		if got := <-seen; got != row.want {
			t.Errorf("%s: %q, want %q", row.what, got, row.want)
		}
	}
	if status, _, _ := post(t, url+"/nonsense:x", `{}`, version); status != 404 {
		t.Errorf("no operation: %d", status)
	}
	for name, want := range map[string]string{"rest_total": "2", "rpc_total": "1", "open": "0", "streams": "0", "refused_total": "1", "resumed_total": "0"} {
		a.counts("swpd_http_a2a_"+name, want)
	}
}
