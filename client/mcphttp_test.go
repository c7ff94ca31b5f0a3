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

// front is an HTTP client of a Kept. The address is that of the listener.
type front struct {
	t                *testing.T
	address, session string
}

func serveHTTP(t *testing.T, peer *Kept) *front {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- ServeHTTP(ctx, HTTPOptions{Peer: peer, Target: "server", Listener: ln, Ready: func() { close(ready) }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ServeHTTP: %v", err)
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		peer.Close()
	})
	<-ready
	return &front{t: t, address: "http://" + ln.Addr().String()}
}

func (f *front) post(body string, headers ...string) (int, string) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.address+"/mcp", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header = http.Header{"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}, "Mcp-Session-Id": {f.session}}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		f.session = id
	}
	octets, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp.StatusCode, mcptest.Answer(string(octets))
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
	f := serveHTTP(t, Keep(KeepOptions{Dial: connect, Patience: patience}))
	if status, _ := f.post(initialize, "Origin: http://evil.example"); status != http.StatusForbidden {
		t.Errorf("a web page of elsewhere: %d", status)
	}
	if status, body := f.post(initialize); status != http.StatusOK || f.session == "" {
		t.Fatalf("initialize: %d %s", status, body)
	}
	for i, octets := range corpus {
		if i == len(corpus)/2 {
			cut()
		}
		if _, body := f.post(octets); body != answer(idOf(t, octets)) {
			t.Errorf("answer to %.80q: %.200s", octets, body)
		}
	}
	for i, octets := range server.came()[1:] {
		if octets != corpus[i] {
			t.Errorf("the server got %.80q, want %.80q", octets, corpus[i])
		}
	}
	for _, path := range []string{"/mcp/server", "/", "//mcp", "/x/../mcp"} {
		status, contentType, _ := get(t, f.address+path)
		if status != http.StatusNotFound || contentType != "application/json" {
			t.Errorf("%s: %d %s", path, status, contentType)
		}
	}
}

func TestHTTPSaysThatTheEndpointIsAway(t *testing.T) {
	connect, cut := dialled(t, &scripted{})
	var away atomic.Bool
	f := serveHTTP(t, Keep(KeepOptions{Patience: time.Second, Dial: func(ctx context.Context) (*Client, error) {
		if away.Load() {
			return nil, errors.New("connection refused")
		}
		return connect(ctx)
	}}))
	away.Store(true)
	cut()
	want := `{"code":-32603,"message":"the endpoint cannot be reached now","data":{"code":"ERR_INTERNAL_ERROR","retryable":true}}`
	if _, body := f.post(initialize); !strings.Contains(body, want) {
		t.Errorf("answer %s", body)
	}
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
