package proxyecho_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/mcpecho"
	"github.com/slimwire/swp/test/bench/proxyecho"
)

func TestCallsPassBothProxies(t *testing.T) {
	dir := t.TempDir()
	if err := cert.Make(dir); err != nil {
		t.Fatal(err)
	}
	server, err := mcpecho.Listen(t.Context(), cert.Files{})
	if err != nil {
		t.Fatal(err)
	}
	far, err := proxyecho.Far(t.Context(), server, cert.Server(dir))
	if err != nil {
		t.Fatal(err)
	}
	near, err := proxyecho.Near(t.Context(), far, cert.Client(dir))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := mcpecho.DialHTTP(t.Context(), near, cert.Files{})
	if err != nil {
		t.Fatal(err)
	}
	caller := conn.Caller()
	for _, payload := range [][]byte{{0}, bytes.Repeat([]byte{7}, 1<<20)} {
		err := caller.Echo(payload, func(answer []byte) error {
			if !bytes.Equal(answer, payload) {
				return fmt.Errorf("%d octets came back as %d others", len(payload), len(answer))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestProxiesSpeakHTTP2OverMutualTLS(t *testing.T) {
	dir := t.TempDir()
	if err := cert.Make(dir); err != nil {
		t.Fatal(err)
	}
	// In the place of the far proxy: a server that says how it was asked.
	config, err := cert.Server(dir).ServerTLS("h2")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan *http.Request, 2)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r }))
	s.TLS, s.EnableHTTP2 = config, true
	s.StartTLS()
	defer s.Close()
	near, err := proxyecho.Near(t.Context(), s.URL, cert.Client(dir))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := new(http.Transport).RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, near, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d", resp.StatusCode)
	}
	if r := <-asked; r.ProtoMajor != 2 || len(r.TLS.PeerCertificates) == 0 {
		t.Errorf("asked by %s with %d certificates", r.Proto, len(r.TLS.PeerCertificates))
	}

	far, err := proxyecho.Far(t.Context(), near, cert.Server(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name   string
		strip  func(*tls.Config)
		served bool
	}{
		{"with a certificate", func(*tls.Config) {}, true},
		{"without one", func(c *tls.Config) { c.Certificates = nil }, false},
	} {
		config, err := cert.Client(dir).ClientTLS()
		if err != nil {
			t.Fatal(err)
		}
		row.strip(config)
		resp, err := (&http.Transport{TLSClientConfig: config}).RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, far, nil))
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != row.served {
			t.Errorf("a client %s is served: %v, want %v: %v", row.name, err == nil, row.served, err)
		}
	}
}
