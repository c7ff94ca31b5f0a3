package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// httpYAML turns the fronts on for alice, whose token is "secret-a", and for guest,
// who has none.
const httpYAML = "http: {address: '127.0.0.1:0', anonymous: guest, " +
	"callers: {alice: {tokens: [8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1]}}}\n"

// front is the URL of a daemon's fronts.
func (r *running) front() string {
	r.t.Helper()
	_, body := r.get("/status")
	var s Status
	if err := json.Unmarshal([]byte(body), &s); err != nil || s.HTTP == "" {
		r.t.Fatalf("no front: %v\n%s", err, body)
	}
	return s.HTTP
}

// post sends one message to a front, with header lines "name: value".
func post(t *testing.T, url, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	octets, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(octets)
}

var modernHeaders = []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: exact"}

func TestAModernRequestOverHTTPReachesAServerOctetForOctet(t *testing.T) {
	d := open(t, "a", httpYAML+modernYAML(t))
	for _, path := range []string{"/mcp", "/mcp/modern"} {
		status, header, got := post(t, d.front()+path, modernCall, modernHeaders...)
		quoted, err := json.Marshal(modernCall)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`{"jsonrpc":"2.0","id":9007199254740993.0,"result":{"tool":%s,"request":%s}}`, sayTool, quoted)
		if status != 200 || header.Get("Content-Type") != "application/json" || got != want {
			t.Errorf("%s: %d %v\n%s\nwant %s", path, status, header, got, want)
		}
	}
}
