package daemon

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slimwire/swp/profiles/mcpmap"
)

// sessionsYAML configures a server of sessions at a URL.
func sessionsYAML(t *testing.T) string {
	t.Helper()
	var opened atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m mcpmap.Message
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.Scan(body) != nil || m.Kind() != mcpmap.Request:
			w.WriteHeader(http.StatusAccepted)
		default:
			w.Header().Set("Content-Type", "application/json")
			result := `{"tools":[]}`
			if m.Is(mcpmap.MethodInitialize) {
				w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", opened.Add(1)))
				result = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`
			}
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID(), result)
		}
	}))
	t.Cleanup(server.Close)
	return fmt.Sprintf("mcp: {servers: {tools: {url: %q}}}\n", server.URL)
}

// A program connects, lists the tools, and ends without DELETE, again and again, as that of the official
// SDK does.
func TestRS31SessionsThatAreLeftOpenStopNeitherTheirCallerNorTheLink(t *testing.T) {
	t.Parallel()
	const sessions = 90 // of 64 that a caller may have
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, _ := pairOf(t, transport, httpYAML, sessionsYAML(t))
		url := a.front() + "/mcp/b/tools"
		for i := range sessions {
			status, header, got := post(t, url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
			if status != http.StatusOK || header.Get("Mcp-Session-Id") == "" {
				t.Fatalf("session %d: %d %s", i+1, status, got)
			}
			id := "Mcp-Session-Id: " + header.Get("Mcp-Session-Id")
			post(t, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, id)
			if _, _, got := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, id); !strings.Contains(got, `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`) { // a late answer is an event
				t.Fatalf("session %d: %s", i+1, got)
			}
		}
	})
}
