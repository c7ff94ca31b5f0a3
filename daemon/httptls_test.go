package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/tlsconn"
	"github.com/slimwire/swp/transport/transporttest"
)

// tlsFront is a daemon whose front asks for certificates of ca: alice has one or the
// token "secret-a", bob has one, and guest is who shows nothing.
func tlsFront(t *testing.T) (d *running, ca *transporttest.CA, roots *x509.CertPool) {
	t.Helper()
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	server, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(server)
	ca = transporttest.NewCA(t)
	if err := os.WriteFile(filepath.Join(dir, "callers.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return startIn(t, dir, "http: {address: '127.0.0.1:0', anonymous: guest, "+
		"tls: {cert: pki/server.crt, key: pki/server.key, ca: [callers.crt]}, "+
		"callers: {alice: {tokens: [8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1], certificates: ['spiffe://callers.example/alice']}, "+
		"bob: {certificates: [bob.callers.example]}}}\n"+modernYAML(t)+
		"access: {rules: [{identity: ['http:alice', 'http:bob'], profile: mcp}]}\n"), ca, roots
}

// call makes a call of MCP with a certificate, or without one, and a token or none.
func call(t *testing.T, url string, roots *x509.CertPool, cert *tls.Certificate, token string) (status int, body string, err error) {
	t.Helper()
	req := request(t, http.MethodPost, url+"/mcp", modernCall, slices.Concat(jsonHeaders, modernHeaders)...)
	return overTLS(req, roots, cert, token)
}

func TestCallersByClientCertificate(t *testing.T) {
	d, ca, roots := tlsFront(t)
	const alice = "spiffe://callers.example/alice"
	between := ca.Intermediate(t)
	for _, row := range []struct {
		what   string
		cert   *tls.Certificate
		token  string
		status int    // 0: the handshake fails
		want   string // in the body
	}{
		{"alice", ca.Issue(t, transporttest.Leaf{URIs: []string{alice}}), "", 200, sayTool},
		{"alice, of an authority between", between.Issue(t, transporttest.Leaf{URIs: []string{alice}, DNS: []string{"x.example", "y.example"}}), "", 200, sayTool},
		{"alice, both", ca.Issue(t, transporttest.Leaf{URIs: []string{alice}}), "secret-a", 200, sayTool},
		{"alice, token", nil, "secret-a", 200, sayTool},
		{"bob", ca.Issue(t, transporttest.Leaf{DNS: []string{"Bob.callers.example"}}), "", 200, sayTool},
		{"guest has no rule", nil, "", 200, "ERR_SECURITY_POLICY"},
		{"bob with the token of alice", ca.Issue(t, transporttest.Leaf{DNS: []string{"bob.callers.example"}}), "secret-a", 403, "two callers"},
		{"nobody", ca.Issue(t, transporttest.Named("spiffe://callers.example/carol")), "", 403, "of no caller"},
		{"nobody with the token of alice", ca.Issue(t, transporttest.Named("spiffe://callers.example/carol")), "secret-a", 403, "of no caller"},
		{"the identity that a caller has", ca.Issue(t, transporttest.Named("http:alice")), "", 403, "of no caller"},
		{"two URIs", ca.Issue(t, transporttest.Leaf{URIs: []string{alice, "spiffe://callers.example/x"}}), "", 403, "of no caller"},
		{"two DNS names", ca.Issue(t, transporttest.Leaf{DNS: []string{"bob.callers.example", "x.example"}}), "", 403, "of no caller"},
		{"common name", ca.Issue(t, transporttest.Leaf{CN: "bob.callers.example"}), "", 403, "of no caller"},
		{"wrong authority", transporttest.NewCA(t).Issue(t, transporttest.Leaf{URIs: []string{alice}}), "", 0, ""},
		{"wrong authority with a token", transporttest.NewCA(t).Issue(t, transporttest.Leaf{URIs: []string{alice}}), "secret-a", 0, ""},
		{"expired", ca.Issue(t, transporttest.Leaf{URIs: []string{alice}, NotAfter: time.Now().Add(-time.Minute)}), "", 0, ""},
		{"not yet valid", ca.Issue(t, transporttest.Leaf{URIs: []string{alice}, NotBefore: time.Now().Add(time.Minute)}), "", 0, ""},
		{"more names than are looked at", ca.Issue(t, transporttest.Leaf{URIs: []string{alice}, DNS: slices.Repeat([]string{"x.example"}, 64)}), "", 0, ""},
		{"for servers", ca.Issue(t, transporttest.Leaf{URIs: []string{alice}, EKU: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}), "", 0, ""},
	} {
		status, body, err := call(t, d.front(), roots, row.cert, row.token)
		if (row.status == 0) != (err != nil) || status != row.status || !strings.Contains(body, row.want) {
			t.Errorf("%s: %d %s, %v; want %d %q", row.what, status, body, err, row.status, row.want)
		}
	}
	d.await(`"peer":"http:guest"`)
}

// Who may speak SlimWire is no caller by that, and the other way round.
func TestAuthoritiesOfCallersAreNotThoseOfPeers(t *testing.T) {
	d, ca, roots := tlsFront(t)
	client := devpki.Client(filepath.Join(d.dir, "pki"))
	peer, err := tls.LoadX509KeyPair(client.Cert, client.Key)
	if err != nil {
		t.Fatal(err)
	}
	if status, body, err := call(t, d.front(), roots, &peer, ""); err == nil {
		t.Errorf("a peer is taken for a caller: %d %s", status, body)
	}
	a, err := transport.ParseAddr(d.addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	caller := ca.Issue(t, transporttest.Named("spiffe://callers.example/alice"))
	conn, err := tlsconn.Dial(t.Context(), a.HostPort(), transporttest.PolicyOf(caller, roots), tlsconn.Options{})
	if err == nil { // the other end refuses after its own side of the handshake
		_ = transporttest.NewRaw(t, conn).ExpectEnd()
		_ = conn.Close(uint64(profiles.OK))
	}
	d.await(`"reason":"untrusted"`)
}

// The policy for TLS is that of docs/tls.md.
func TestTL26NoSessionOfAnHTTPFrontIsResumed(t *testing.T) {
	d, _, roots := tlsFront(t)
	cache := tls.NewLRUClientSessionCache(8)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for range 2 {
			conf := &tls.Config{RootCAs: roots, MinVersion: version, MaxVersion: version, ClientSessionCache: cache}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}, Timeout: patience}
			resp, err := client.Get(d.front() + "/mcp") //nolint:noctx // has a timeout
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body) // its tickets come before the answer
			_ = resp.Body.Close()
			if resp.TLS.DidResume || resp.TLS.Version != version {
				t.Errorf("%s: resumed: %v, %s", tls.VersionName(version), resp.TLS.DidResume, tls.VersionName(resp.TLS.Version))
			}
			if want := tls.X25519MLKEM768; version == tls.VersionTLS13 && resp.TLS.CurveID != want {
				t.Errorf("key exchange %v, want %v", resp.TLS.CurveID, want)
			}
		}
	}
}
