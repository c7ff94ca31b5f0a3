package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/transport/transporttest"
)

// Metrics and reasons leave the machine over TLS only, for callers with a known token or
// certificate, and nothing else does.
func TestOP29MetricsAreForKnownCallersOverTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	bundle, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	ca, other := transporttest.NewCA(t), transporttest.NewCA(t)
	if err := os.WriteFile(filepath.Join(dir, "monitoring.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	// The token is "secret-a".
	const section = "metrics: {address: '127.0.0.1:0', tls: {cert: pki/server.crt, key: pki/server.key, ca: [monitoring.crt]}, " +
		"tokens: [8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1], certificates: ['spiffe://monitoring.example/prometheus']}\n"
	r := startIn(t, dir, section)
	at := r.status().Metrics
	get := func(path, token string, cert *tls.Certificate) (status int, body string, err error) {
		req := request(t, http.MethodGet, "https://"+at+path, "")
		req.Host = "10.1.2.3:7782" // as of a pod
		return overTLS(req, roots, cert, token)
	}
	prometheus := transporttest.Named("spiffe://monitoring.example/prometheus")
	for _, row := range []struct {
		what, path, token string
		cert              *tls.Certificate
		status            int // 0: no handshake
		want              string
	}{
		{"a token", "/metrics", "secret-a", nil, 200, "swpd_sessions"},
		{"a token", "/readyz", "secret-a", nil, 200, "ready"},
		{"a token", "/livez", "secret-a", nil, 200, "alive"},
		{"a token", "/status", "secret-a", nil, 404, ""},
		{"a certificate", "/metrics", "", ca.Issue(t, prometheus), 200, "swpd_sessions"},
		{"nothing", "/metrics", "", nil, 401, "required"},
		{"nothing", "/readyz", "", nil, 401, "required"},
		{"another token", "/metrics", "secret-b", nil, 401, "required"},
		{"the certificate of another", "/metrics", "", ca.Issue(t, transporttest.Named("spiffe://monitoring.example/x")), 403, "of no caller"},
		{"another authority", "/metrics", "", other.Issue(t, prometheus), 0, ""},
	} {
		status, body, err := get(row.path, row.token, row.cert)
		if (row.status == 0) != (err != nil) || status != row.status || !strings.Contains(body, row.want) {
			t.Errorf("%s, %s: %d %.80q, %v; want %d %q", row.what, row.path, status, body, err, row.status, row.want)
		}
	}
	if resp, err := http.Get("http://" + at + "/metrics"); err == nil { //nolint:noctx // it has no answer but an error
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK || strings.Contains(string(body), "swpd_") {
			t.Errorf("without TLS: %d %.80q", resp.StatusCode, body)
		}
	}

	// A token that is taken away is refused after a reload.
	r.configure(func(text string) string { return strings.Replace(text, "8766b9cb08e6", "0000b9cb08e6", 1) })
	r.reload <- struct{}{}
	r.eventually("the token is refused", func() bool {
		status, _, err := get("/metrics", "secret-a", nil)
		return err == nil && status == http.StatusUnauthorized
	})
}
