package mcphttp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/slimwire/swp/internal/bridge/mcphttp"
)

// request is a request of JSON-RPC.
type request struct {
	ID     json.RawMessage
	Method string
}

func TestAProbeAsksAsClientsDoAndCallsNoTool(t *testing.T) {
	for name, row := range map[string]struct {
		answer  func(w http.ResponseWriter, m *request)
		fails   string
		methods string
	}{
		"stateless": {func(w http.ResponseWriter, m *request) {
			respond(w, m.ID, `{"supportedVersions":["2026-07-28"]}`)
		}, "", "server/discover"},
		"sessions": {func(w http.ResponseWriter, m *request) {
			if m.Method == "server/discover" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			respond(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{}}`)
		}, "", "server/discover initialize"},
		"unauthorized": {func(w http.ResponseWriter, _ *request) { w.WriteHeader(http.StatusUnauthorized) }, "401", "server/discover initialize"},
		"no JSON-RPC":  {func(w http.ResponseWriter, _ *request) { _, _ = w.Write([]byte("hello")) }, "no JSON-RPC response", "server/discover initialize"},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var methods []string
			s := behind(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var m request
				if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
					t.Error(err)
				}
				mu.Lock()
				methods = append(methods, m.Method)
				mu.Unlock()
				row.answer(w, &m)
			}), mcphttp.BackendOptions{})
			err := s.server.Probe(t.Context())
			switch {
			case row.fails == "" && (err != nil || s.answers.Load() != 1 || len(s.told()) > 0):
				t.Errorf("%v, %d answers, %v", err, s.answers.Load(), s.told())
			case row.fails != "" && (err == nil || !strings.Contains(err.Error(), row.fails) || s.answers.Load() > 0 || len(s.told()) != 1):
				t.Errorf("%v, %d answers, %v, want %s", err, s.answers.Load(), s.told(), row.fails)
			}
			if got := strings.Join(methods, " "); got != row.methods {
				t.Errorf("asked %s, want %s", got, row.methods)
			}
		})
	}
}

func TestAProbeOfAClosedServerOrWithoutTimeIsNoNews(t *testing.T) {
	waits := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-waits:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	s := behind(t, nil, mcphttp.BackendOptions{URL: server.URL})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.server.Probe(ctx); err != nil {
		t.Error(err)
	}
	close(waits)
	if err := s.server.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.server.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	if n := s.answers.Load(); n > 0 {
		t.Errorf("%d answers", n)
	}
}
