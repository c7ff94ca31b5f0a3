package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestServersAtURLsAreRead(t *testing.T) {
	d := dir(t)
	if err := os.WriteFile(filepath.Join(d, "token"), []byte("Bearer x"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, d, `
mcp:
  servers:
    crm:
      url: https://crm.example.org/mcp?tenant=7
      headers: {X-Tenant: 7}
      headers_from: {Authorization: token}
      timeout: 5s
      session_idle: 1h
      default: true
`, "SWPD_MCP_SERVERS_CRM_HEADERS_X-Key=secret")
	if err != nil {
		t.Fatal(err)
	}
	want := defaultServer
	want.URL, want.Timeout, want.SessionIdle, want.Default = "https://crm.example.org/mcp?tenant=7", 5*time.Second, time.Hour, true
	want.Headers, want.HeadersFrom = map[string]string{"X-Tenant": "7", "X-Key": "secret"}, map[string]string{"Authorization": filepath.Join(d, "token")}
	if diff := cmp.Diff(want, c.MCP.Servers["crm"]); diff != "" {
		t.Error(diff)
	}
}

func TestOP05BadServersAtURLsAreRefused(t *testing.T) {
	const url = "mcp: {servers: {a: {url: 'http://127.0.0.1/mcp'"
	for name, tt := range map[string]struct{ text, want string }{
		"both":              {url + ", command: sh}}}\n", `mcp.servers.a: has command and url; keep one`},
		"no URL":            {"mcp: {servers: {a: {url: mcp}}}\n", `mcp.servers.a.url: "mcp" is not an absolute`},
		"a file":            {"mcp: {servers: {a: {url: 'file:///x'}}}\n", `is not an absolute http:// or https:// URL`},
		"a password":        {"mcp: {servers: {a: {url: 'http://u:p@h/'}}}\n", `contains a user or password`},
		"of a command":      {url + ", max_children: 3}}}\n", `mcp.servers.a.max_children: is for a command; remove it`},
		"a probe of a URL":  {url + ", probe: true}}}\n", `mcp.servers.a.probe: is for a command; remove it`},
		"environment":       {url + ", env: {A: b}}}}\n", `mcp.servers.a.env: is for a command; remove it`},
		"of a URL":          {"mcp: {servers: {a: {command: sh, headers: {A: b}}}}\n", `mcp.servers.a.headers: is for a url; remove it`},
		"no time":           {url + ", timeout: 0s}}}\n", `mcp.servers.a.timeout: is 0s, want a duration above 0 and at most 168h0m0s`},
		"too much time":     {url + ", timeout: 168h1s}}}\n", `mcp.servers.a.timeout: is 168h0m1s, want a duration above 0 and at most 168h0m0s`},
		"no time of a tool": {url + ", timeouts: {build: 0s}}}}\n", `mcp.servers.a.timeouts.build: is 0s, want a duration above 0`},
		"tools":             {url + ", timeouts: {'b*': 1h}}}}\n", `mcp.servers.a.timeouts: "b*" is a pattern, want the name of a tool in full`},
		"no idle time":      {url + ", session_idle: 0s}}}\n", `idle and session_idle are durations above 0`},
		"a silent command":  {"a2a: {workers: {a: {kinds: [k], command: sh, timeout: 1h}}}\n", `a2a.workers.a.timeout: is for a url; a command may be silent until the deadline of its task`},
		"a silent worker":   {"a2a: {workers: {a: {kinds: [k], url: 'http://127.0.0.1/', timeout: 200h}}}\n", `a2a.workers.a.timeout: is 200h0m0s, want a duration above 0 and at most 168h0m0s`},
		"a header":          {url + ", headers: {'a b': x}}}}\n", `"a b" is no name of a header`},
		"a header of HTTP":  {url + ", headers: {Host: x}}}}\n", `mcp.servers.a.headers.Host: cannot be set`},
		"a header of MCP":   {url + ", headers_from: {mcp-session-id: x}}}}\n", `mcp.servers.a.headers_from.mcp-session-id: cannot be set`},
		"a header twice":    {url + ", headers: {X-A: x}, headers_from: {x-a: y}}}}\n", `mcp.servers.a.headers_from.x-a: is set twice`},
		"a line break":      {url + ", headers: {A: \"b\\r\\nc: d\"}}}}\n", `mcp.servers.a.headers.A: contains a character`},
		"no file":           {url + ", headers_from: {A: ''}}}}\n", `mcp.servers.a.headers_from.A: missing`},
		"a file not there":  {url + ", headers_from: {A: nowhere}}}}\n", `mcp.servers.a.headers_from.A: /`},
		"a file for anyone": {url + ", headers_from: {A: public}}}}\n", "so every user can reach the secret in it; run: chmod 600"},
	} {
		d := dir(t)
		if err := os.WriteFile(filepath.Join(d, "public"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(d, "public"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := load(t, d, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// Whoever owns a server says how long its calls may take, whether it is a command or at a URL.
func TestTheOwnerOfAServerSaysHowLongItsCallsMayTake(t *testing.T) {
	c, err := load(t, dir(t), `mcp:
  servers:
    a: {command: sh, timeout: 168h, timeouts: {build: 4h}, default: true}
    b: {url: "http://127.0.0.1/mcp", timeout: 5m, timeouts: {build: 1s}}
    c: {command: sh}
a2a: {workers: {w: {kinds: [k], url: "http://127.0.0.1/"}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Duration{"a": 168 * time.Hour, "b": 5 * time.Minute, "c": 10 * time.Minute} {
		if got := c.MCP.Servers[name].Timeout; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if a, b := c.MCP.Servers["a"].Timeouts["build"], c.MCP.Servers["b"].Timeouts["build"]; a != 4*time.Hour || b != time.Second {
		t.Errorf("of a tool: %v and %v", a, b)
	}
	if got := c.A2A.Workers["w"].Timeout; got != 10*time.Minute {
		t.Errorf("of a worker: %v", got)
	}
}
