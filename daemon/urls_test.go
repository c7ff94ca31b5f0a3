package daemon

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// greeter is an MCP server of the SDK at a URL, which wants a token.
func greeter(t *testing.T, token *atomic.Pointer[string], opts *mcp.StreamableHTTPOptions) (*mcp.Server, string) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "3"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil, nil
	})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, opts)
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != *token.Load() {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(at.Close)
	return server, at.URL
}

const greet = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{},"_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{}}}}`

func TestServersAtURLsAreServedInBothEras(t *testing.T) {
	t.Parallel()
	const first, second = "Bearer t0k3n-1", "Bearer t0k3n-2"
	var token atomic.Pointer[string]
	token.Store(new(first))
	_, modern := greeter(t, &token, &mcp.StreamableHTTPOptions{Stateless: true})
	legacy, sessions := greeter(t, &token, nil)
	file := filepath.Join(t.TempDir(), "token")
	write := func(value string) {
		if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	r := start(t, fmt.Sprintf("mcp:\n  servers:\n    modern: {url: '%s', headers_from: {Authorization: %s}}\n    legacy: {url: '%s', headers: {authorization: %s}}\n",
		modern, file, sessions, first))
	for _, address := range r.addrs {
		s := r.mustDial(address)
		if got := s.tools(t); !slices.Equal(got, []string{"legacy/greet", "modern/greet"}) {
			t.Errorf("%s: tools %v", address, got)
		}
		if got := s.mustAsk(t, "modern", greet); !strings.Contains(got, `"hello"`) {
			t.Errorf("%s: %s", address, got)
		}
		session := s.begin(t, "legacy")
		result, err := s.ask(t, mcpmap.Call{Target: "legacy", Session: session, Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{}}}`)})
		if err != nil || !strings.Contains(string(result.Octets), `"hello"`) {
			t.Errorf("%s: %s, %v", address, result.Octets, err)
		}
	}
	r.counts(`swpd_mcp_url_sessions{server="legacy"}`, "4") // one is that of those who read tools
	// A change is heard of.
	s := r.mustDial(r.addrs[0])
	mcp.AddTool(legacy, &mcp.Tool{Name: "new"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
	for began := time.Now(); !slices.Contains(s.tools(t), "legacy/new"); {
		if time.Since(began) > patience {
			t.Fatal("a new tool is not told")
		}
	}
	// A token that was replaced is taken without a restart; one that is wrong shows.
	token.Store(new(second))
	if got := s.mustAsk(t, "modern", greet); !strings.Contains(got, `"code":-32603`) {
		t.Errorf("with the old token: %s", got)
	}
	if _, body := r.get("/readyz"); !strings.Contains(body, "warning: mcp server modern: a request failed\n") {
		t.Errorf("readiness says %s", body)
	}
	if got := r.metric(`swpd_mcp_url_failures_total{server="modern"}`); got == "0" || got == "" {
		t.Errorf("failures %q", got)
	}
	write(second)
	if got := s.mustAsk(t, "modern", greet); !strings.Contains(got, `"hello"`) {
		t.Errorf("with the new token: %s", got)
	}
	token.Store(new(first)) // with which the sessions can be taken leave of
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if strings.Contains(r.log.String(), "t0k3n") {
		t.Error("a token is in the log")
	}
}

func TestAServerWhoseHeadersAreOfNoUseStopsTheStart(t *testing.T) {
	for name, content := range map[string]string{"a line break": "a\nb", "too long": strings.Repeat("x", 8<<10+1)} {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		d := t.TempDir()
		path := filepath.Join(d, "swpd.yaml")
		if err := os.WriteFile(path, fmt.Appendf(nil, "data: %s\nmcp: {servers: {a: {url: 'http://127.0.0.1:1/', headers_from: {Authorization: %s}}}}\n", d, file), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := check.Read(mustLoad(t, path)); err == nil || strings.Contains(err.Error(), content) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
