package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/tlsconn"
	"github.com/slimwire/swp/transport/transporttest"
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
	return exchanged(t, http.MethodPost, url, body, append(slices.Clone(jsonHeaders), headers...)...)
}

// jsonHeaders are those of a message of MCP.
var jsonHeaders = []string{"Content-Type: application/json", "Accept: application/json, text/event-stream"}

// exchanged sends a request with header lines "name: value", follows no redirect, and returns the answer.
func exchanged(t *testing.T, method, url, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(request(t, method, url, body, headers...))
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

// request makes a request with header lines "name: value".
func request(t *testing.T, method, url, body string, headers ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	return req
}

// overTLS sends a request over a connection of its own, with a certificate and a token unless they are
// nil and empty. The certificate is shown whether or not the server says that it takes it.
func overTLS(req *http.Request, roots *x509.CertPool, cert *tls.Certificate, token string) (status int, body string, err error) {
	conf := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if cert != nil {
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	octets, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(octets), err
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

// What a path could be written for in another way is not looked for there.
func TestPathsAreTakenAsTheyAre(t *testing.T) {
	d := open(t, "a", httpYAML+modernYAML(t))
	for _, path := range []string{
		"//mcp", "/mcp//modern", "/mcp/", "/mcp/../mcp", "/mcp/./modern", "/mcp/modern/..", "/x/../mcp/modern", "/mcp/%2e%2e/mcp", "/mcpx",
		"/", "/x", "//a2a/agent", "/a2a/../mcp", "/a2a/./agent", "/a2a/agent/../agent", "/a2a/%2e%2e/mcp", "/a2a//agent",
	} {
		status, header, _ := post(t, d.front()+path, modernCall, modernHeaders...)
		if status != 404 || header.Get("Content-Type") != "application/json" || header.Get("Location") != "" {
			t.Errorf("%s: %d %v", path, status, header)
		}
	}
}

func TestCallersOverHTTPReachServersOfPartners(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		b := open(t, "b", modernYAML(t))
		a := open(t, "a", httpYAML)
		b.trusting("a", a)
		a.trusting("b", b, b.addrs[transport])
		a.connected("b")
		status, _, got := post(t, a.front()+"/mcp/b/modern", modernCall, modernHeaders...)
		if status != 200 || !strings.Contains(got, sayTool) {
			t.Errorf("%d %s", status, got)
		}
	})
}

func TestCallersOverHTTPNeedARule(t *testing.T) {
	d := open(t, "a", httpYAML+modernYAML(t)+"access: {rules: [{identity: 'http:alice', profile: mcp, operation: tools/call, name: [modern/exact]}]}\n")
	alice := append([]string{"Authorization: Bearer secret-a"}, modernHeaders...)
	if status, _, got := post(t, d.front()+"/mcp", modernCall, alice...); status != 200 || !strings.Contains(got, sayTool) {
		t.Errorf("alice: %d %s", status, got)
	}
	if status, _, got := post(t, d.front()+"/mcp", modernCall, modernHeaders...); status != 200 || !strings.Contains(got, `"code":"ERR_SECURITY_POLICY"`) {
		t.Errorf("guest: %d %s", status, got)
	}
	d.await(`"msg":"denied","err_code":"ERR_SECURITY_POLICY","peer":"http:guest","profile":"mcp","operation":"tools/call","name":"modern/exact"`)
	if status, _, _ := post(t, d.front()+"/mcp", modernCall, append(modernHeaders, "Authorization: Bearer secret-b")...); status != 401 {
		t.Errorf("an unknown token: %d", status)
	}
	if strings.Contains(d.log.String(), "secret-") {
		t.Error("a token is in the log")
	}
}

func TestCallersThatAreDeniedAreLetInNoMore(t *testing.T) {
	d := open(t, "a", httpYAML+modernYAML(t)+"access: {deny: ['spiffe://nobody.example/**'], rules: [{identity: '**'}]}\n")
	if status, _, got := post(t, d.front()+"/mcp", modernCall, modernHeaders...); status != 200 || !strings.Contains(got, sayTool) {
		t.Fatalf("%d %s", status, got)
	}
	d.rewrite("spiffe://nobody.example/**", "http:guest")
	d.reloaded()
	if _, _, got := post(t, d.front()+"/mcp", modernCall, modernHeaders...); !strings.Contains(got, `"code":"ERR_SECURITY_POLICY"`) {
		t.Errorf("denied: %s", got)
	}
	if _, _, got := post(t, d.front()+"/mcp", modernCall, append(modernHeaders, "Authorization: Bearer secret-a")...); !strings.Contains(got, sayTool) {
		t.Errorf("alice: %s", got)
	}
}

// The identity of an HTTP caller is given by the front, and by no certificate.
func TestTL11NoCertificateIsAnHTTPCaller(t *testing.T) {
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	ca := transporttest.NewCA(t)
	if err := os.WriteFile(filepath.Join(dir, "pki", "ca.crt"), append(own, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Cert.Raw})...), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startIn(t, dir, httpYAML+modernYAML(t)+"access: {rules: [{identity: '**'}]}\n")
	a, err := transport.ParseAddr(d.addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := ca.Pool()
	roots.AppendCertsFromPEM(own)
	conn, err := tlsconn.Dial(t.Context(), a.HostPort(), transporttest.PolicyOf(ca.Issue(t, transporttest.Named("http:alice")), roots), tlsconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(uint64(profiles.OK)) }()
	_ = transporttest.NewRaw(t, conn).ExpectEnd() // fails the test if there is none
	d.await(`"reason":"denied"`)
	d.await(`"http:alice"`)
}

func TestAStopLetsCallsOverHTTPEndAndEndsStreams(t *testing.T) {
	d := open(t, "a", httpYAML+childYAML(t))
	url := d.front() + "/mcp"
	status, header, got := post(t, url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	if status != 200 || header.Get("Mcp-Session-Id") == "" {
		t.Fatalf("initialize: %d %s", status, got)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Accept": {"text/event-stream"}, "Mcp-Session-Id": header["Mcp-Session-Id"]}
	stream, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatalf("GET: %v %v", stream, err)
	}
	defer func() { _ = stream.Body.Close() }()
	d.counts("swpd_http_mcp_sessions", "1")

	socket := filepath.Join(t.TempDir(), "s")
	reached := listenUnix(t, socket)
	answer := make(chan string, 1)
	go func() {
		_, _, got := post(t, url, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{"socket":%q}}}`, socket),
			"Mcp-Session-Id: "+header.Get("Mcp-Session-Id"))
		answer <- got
	}()
	waiting := <-reached
	d.stop()
	if _, err := io.ReadAll(stream.Body); err != nil {
		t.Errorf("the stream did not end in order: %v", err)
	}
	_ = waiting.Close()
	if got, want := <-answer, `{"jsonrpc":"2.0","id":1,"result":"waited"}`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
	if err := d.end(); err != nil {
		t.Error(err)
	}
	d.await(`"msg":"stopped"`)
}

// listenUnix returns the first connection to a socket.
func listenUnix(t *testing.T, socket string) <-chan net.Conn {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	ch := make(chan net.Conn, 1)
	go func() {
		if conn, err := ln.Accept(); err == nil {
			ch <- conn
		}
	}()
	return ch
}
