package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/transport/transporttest"
)

func TestCallersOverHTTPAreReadAgain(t *testing.T) {
	d, _, roots := tlsFront(t)
	const hash = "8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1" // of secret-a
	if status, _, err := call(t, d.front(), roots, nil, "secret-a"); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	d.rewrite("alice: {tokens: ["+hash+"]", "alice: {tokens: ["+strings.Repeat("ab", 32)+"]")
	d.rewrite("bob: {certificates", "carol: {tokens: ["+hash+"]}, bob: {certificates")
	d.rewrite("'http:alice', 'http:bob'", "'http:carol'")
	d.reloaded()
	if status, body, err := call(t, d.front(), roots, nil, "secret-a"); err != nil || status != 200 || !strings.Contains(body, sayTool) {
		t.Errorf("the token of another: %d %s, %v", status, body, err)
	}
	d.rewrite("carol: {tokens: ["+hash+"]}, ", "")
	d.rewrite("anonymous: guest, ", "calls: 7, ")
	d.reloaded()
	for _, token := range []string{"secret-a", ""} {
		if status, body, err := call(t, d.front(), roots, nil, token); err != nil || status != 401 {
			t.Errorf("%q: %d %s, %v, want 401", token, status, body, err)
		}
	}
	d.await(`a caller that http does not let in any more`) // carol had a session
}

// What is right for one address may not be for another.
func TestANewAddressOfTheFrontWaitsWithAllThatBelongsToIt(t *testing.T) {
	old := &config.HTTP{Address: "0.0.0.0:1", Callers: map[string]config.HTTPCaller{"a": {}}, TLS: config.HTTPTLS{Cert: "x"}}
	started := config.Default()
	started.HTTP = *old
	for want, now := range map[string]config.HTTP{
		"":                             {Address: "0.0.0.0:1", Anonymous: "me", Calls: 1, URL: "https://x.example", TLS: config.HTTPTLS{Cert: "y"}},
		"http.callers.a http.tls.cert": {Address: "0.0.0.0:1"},
		"http.address http.anonymous":  {Address: "127.0.0.1:1", Anonymous: "me", Callers: old.Callers, TLS: old.TLS},
		"http.address http.hosts":      {Address: "off", Hosts: []string{"x"}, Callers: old.Callers, TLS: old.TLS},
		"http.a2a.default http.address http.calls": {Address: "off", Calls: 1, A2A: config.HTTPA2A{Default: "x"}, Callers: old.Callers, TLS: old.TLS},
	} {
		r := newReloader(started, nil, new(daemon).sections(), zap.NewNop())
		r.latest = config.Default()
		r.latest.HTTP = now
		if got := strings.Join(r.wait(), " "); got != want {
			t.Errorf("%+v: %q, want %q", now, got, want)
		}
	}
}

func TestTL10CertificatesOfTheFrontAreReadAgain(t *testing.T) {
	d, ca, _ := tlsFront(t)
	other := foreign(t)
	copyFile(t, filepath.Join(other, "server.key"), filepath.Join(d.dir, "pki", "front.key"))
	copyFile(t, filepath.Join(other, "server.crt"), filepath.Join(d.dir, "pki", "front.crt"))
	d.rewrite("cert: pki/server.crt, key: pki/server.key, ca", "cert: pki/front.crt, key: pki/front.key, ca")
	d.reloaded()
	anchors, err := os.ReadFile(filepath.Join(other, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(anchors)
	alice := ca.Issue(t, transporttest.Named("spiffe://callers.example/alice"))
	if status, body, err := call(t, d.front(), roots, alice, ""); err != nil || status != 200 || !strings.Contains(body, sayTool) {
		t.Errorf("the new certificate: %d %s, %v", status, body, err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "pki", "front.crt"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.reloaded()
	if ready := d.warned(); !strings.Contains(ready, "http not reloaded, what was there stays in force: http.tls") {
		t.Errorf("/readyz: %s", ready)
	}
	if status, _, err := call(t, d.front(), roots, alice, ""); err != nil || status != 200 {
		t.Errorf("a broken file: %d, %v", status, err)
	}
	copyFile(t, filepath.Join(other, "server.crt"), filepath.Join(d.dir, "pki", "front.crt"))
	d.reloaded()
	if _, ready := d.get("/readyz"); ready != "ready\n" {
		t.Errorf("/readyz: %s", ready)
	}
}

// A caller that is connected is not let in by an authority that does not count any more.
func TestTL10AuthoritiesOfCallersAreReadAgain(t *testing.T) {
	d, ca, roots := tlsFront(t)
	pair := ca.Issue(t, transporttest.Named("spiffe://callers.example/alice"))
	lasting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{*pair}, MinVersion: tls.VersionTLS13}}, Timeout: patience}
	defer lasting.CloseIdleConnections()
	ask := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, d.front()+"/mcp", http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("Mcp-Session-Id", "nobody's")
		resp, err := lasting.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusNotFound {
			return errors.New(resp.Status)
		}
		return nil
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	other := transporttest.NewCA(t)
	if err := os.WriteFile(filepath.Join(d.dir, "callers.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	d.reloaded()
	if err := ask(); err == nil {
		t.Error("a connection outlives the authority of its certificate")
	}
	if status, _, err := call(t, d.front(), roots, other.Issue(t, transporttest.Named("spiffe://callers.example/alice")), ""); err != nil || status != 200 {
		t.Errorf("the new authority: %d, %v", status, err)
	}
}
