package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcptest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// dialled returns a Dialer for an endpoint with one MCP server, and a function that
// ends the connection that was dialled last.
func dialled(t *testing.T, server mcpmap.Server) (Dialer, func()) {
	t.Helper()
	table, err := mcpmap.NewTable(map[string]mcpmap.Server{"server": server}, "")
	if err != nil {
		t.Fatal(err)
	}
	set, err := all.New(all.Options{MCP: mcpmap.Options{Backend: table}})
	if err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ep.Close()
		set.Close()
	})
	var mu sync.Mutex
	var last *Client
	connect := func(context.Context) (*Client, error) {
		mu.Lock()
		defer mu.Unlock()
		here, there := transport.NewPipe(transport.PipeOptions{A: "spiffe://test/client"})
		ep.Attach(there)
		last = &Client{address: "pipe"}
		return last, last.attach(here)
	}
	return connect, func() {
		mu.Lock()
		defer mu.Unlock()
		last.peer.Close(profiles.OK)
		<-last.Context().Done()
	}
}

func TestHTTPIsTheRemoteServerAndOutlivesItsConnection(t *testing.T) {
	server := &scripted{do: func(_ mcpmap.Counterpart, x *mcpmap.Exchange) {
		if x.Initialize() {
			x.Finish([]byte(`{"jsonrpc":"2.0","id":"init","result":{"protocolVersion":"2025-11-25"}}`))
			return
		}
		x.Finish([]byte(answer(string(x.Message.ID()))))
	}}
	connect, cut := dialled(t, server)
	var away atomic.Bool
	unlessAway := func(ctx context.Context) (*Client, error) {
		if away.Load() {
			return nil, errors.New("connection refused")
		}
		return connect(ctx)
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	peer := Keep(KeepOptions{Dial: unlessAway, Patience: time.Second})
	defer peer.Close()
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- ServeHTTP(ctx, HTTPOptions{Peer: peer, Target: "server", Listener: ln, Ready: func() { close(ready) }})
	}()
	<-ready
	session := ""
	post := func(body string, headers ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+ln.Addr().String()+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}, "Mcp-Session-Id": {session}}
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		octets, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, mcptest.Answer(string(octets))
	}
	if status, _ := post(initialize, "Origin: http://evil.example"); status != http.StatusForbidden {
		t.Errorf("a web page of elsewhere: %d", status)
	}
	if status, body := post(initialize); status != http.StatusOK || session == "" {
		t.Fatalf("initialize: %d %s", status, body)
	}
	for i, octets := range corpus {
		if i == len(corpus)/2 {
			cut()
		}
		if _, body := post(octets); body != answer(idOf(t, octets)) {
			t.Errorf("answer to %.80q: %.200s", octets, body)
		}
	}
	away.Store(true)
	cut()
	want := `{"code":-32603,"message":"the endpoint cannot be reached now","data":{"code":"ERR_INTERNAL_ERROR","retryable":true}}`
	if _, body := post(corpus[0]); !strings.Contains(body, want) {
		t.Errorf("with the endpoint away: %s", body)
	}
	away.Store(false)
	for i, octets := range server.came()[1:] {
		if octets != corpus[i] {
			t.Errorf("the server got %.80q, want %.80q", octets, corpus[i])
		}
	}
	for _, path := range []string{"/mcp/server", "/", "//mcp", "/x/../mcp"} {
		status, contentType, _ := get(t, "http://"+ln.Addr().String()+path)
		if status != http.StatusNotFound || contentType != "application/json" {
			t.Errorf("%s: %d %s", path, status, contentType)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("ServeHTTP: %v", err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// get asks for a URL as it is written, and follows no redirect.
func get(t *testing.T, url string) (status int, contentType, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
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
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(octets)
}
