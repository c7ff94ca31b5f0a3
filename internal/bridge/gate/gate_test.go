package gate_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/gate"
)

func hash(token string) []string {
	sum := sha256.Sum256([]byte(token))
	return []string{hex.EncodeToString(sum[:])}
}

// whoever says who was let in.
var whoever = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, gate.Caller(r)) })

func TestGW09ForeignHostOrOriginComesToNothing(t *testing.T) {
	g, err := gate.New(gate.Options{Anonymous: "me", Hosts: []string{"gateway.example.org"}, Origins: []string{"https://app.example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		host, origin string
		status       int
	}{
		{"127.0.0.1:7790", "", 200},
		{"127.8.9.10", "", 200},
		{"[::1]:7790", "", 200},
		{"[::1]", "", 200},
		{"LocalHost:1", "", 200},
		{"Gateway.Example.org:443", "", 200},
		{"localhost:7790", "http://localhost:7790", 200},
		{"gateway.example.org", "https://app.example.org", 200},
		{"evil.example", "", 403},
		{"localhost.evil.example", "", 403},
		{"127.0.0.1.evil.example:80", "", 403},
		{"10.0.0.1", "", 403},
		{"", "", 403},
		{"localhost:7790", "http://localhost:3000", 403},
		{"localhost:7790", "https://localhost:7790", 403},
		{"localhost:7790", "null", 403},
		{"localhost:7790", "https://app.example.org.evil.example", 403},
		{"localhost:7790", "https://evil.example", 403},
	} {
		called := false
		h := g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Host = row.host
		if row.origin != "" {
			r.Header.Set("Origin", row.origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != row.status || called != (row.status == 200) {
			t.Errorf("host %q, origin %q: status %d, served %t; want %d", row.host, row.origin, w.Code, called, row.status)
		}
	}
}

func TestTokensSayWhoCalls(t *testing.T) {
	callers := map[string][]string{"alice": hash("secret-a"), "bob": append(hash("secret-b"), hash("new-b")...)}
	for _, row := range []struct {
		anonymous     string
		authorization []string
		want          string
	}{
		{"", []string{"Bearer secret-a"}, "http:alice"},
		{"", []string{"bearer secret-b"}, "http:bob"},
		{"", []string{"Bearer new-b"}, "http:bob"},
		{"guest", []string{"Bearer secret-a"}, "http:alice"},
		{"guest", nil, "http:guest"},
		{"", nil, ""},
		{"guest", []string{"Bearer wrong"}, ""},
		{"guest", []string{""}, ""},
		{"guest", []string{"Basic secret-a"}, ""},
		{"guest", []string{"Bearer"}, ""},
		{"", []string{"Bearer " + hash("secret-a")[0]}, ""},
		{"", []string{"Bearer secret-a", "Bearer secret-b"}, ""},
	} {
		g, err := gate.New(gate.Options{Callers: callers, Anonymous: row.anonymous})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody)
		r.Header["Authorization"] = row.authorization
		if row.authorization == nil {
			delete(r.Header, "Authorization")
		}
		w := httptest.NewRecorder()
		g.Handler(whoever).ServeHTTP(w, r)
		switch {
		case row.want == "" && (w.Code != 401 || w.Header().Get("WWW-Authenticate") == ""):
			t.Errorf("%q: status %d", row.authorization, w.Code)
		case row.want != "" && w.Body.String() != row.want:
			t.Errorf("%q: %d %q, want %q", row.authorization, w.Code, w.Body, row.want)
		}
	}
}

// certificate is one whose identity is its common name.
func certificate(name string, ends time.Time) *tls.ConnectionState {
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: name}, NotAfter: ends}}}
}

func TestCertificatesSayWhoCalls(t *testing.T) {
	g, err := gate.New(gate.Options{
		Callers:      map[string][]string{"alice": hash("secret-a"), "bob": hash("secret-b")},
		Certificates: map[string][]string{"alice": {"a.example", "old-a.example"}, "carol": {"c.example"}},
		Anonymous:    "guest",
		Identity: func(cert *x509.Certificate) (string, error) {
			if cert.Subject.CommonName == "none" {
				return "c.example", errors.New("two names")
			}
			return cert.Subject.CommonName, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	for _, row := range []struct {
		what, authorization string
		tls                 *tls.ConnectionState
		status              int
		caller              string
	}{
		{"certificate", "", certificate("a.example", later), 200, "http:alice"},
		{"another of hers", "", certificate("old-a.example", later), 200, "http:alice"},
		{"no token", "", certificate("c.example", later), 200, "http:carol"},
		{"both", "Bearer secret-a", certificate("a.example", later), 200, "http:alice"},
		{"none of both", "", &tls.ConnectionState{}, 200, "http:guest"},
		{"token over TLS", "Bearer secret-b", &tls.ConnectionState{}, 200, "http:bob"},
		{"two callers", "Bearer secret-b", certificate("a.example", later), 403, ""},
		{"unknown certificate", "", certificate("d.example", later), 403, ""},
		{"unknown certificate and a token", "Bearer secret-a", certificate("d.example", later), 403, ""},
		{"unknown token", "Bearer wrong", certificate("a.example", later), 401, ""},
		{"no identity", "", certificate("none", later), 403, ""},
		{"ended since", "", certificate("a.example", before), 403, ""},
	} {
		called := false
		h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			called = true
			whoever(w, r)
		}))
		r := httptest.NewRequest(http.MethodPost, "http://localhost/", http.NoBody)
		r.TLS = row.tls
		if row.authorization != "" {
			r.Header.Set("Authorization", row.authorization)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != row.status || called != (row.status == 200) || called && w.Body.String() != row.caller {
			t.Errorf("%s: %d %q, served %t; want %d %q", row.what, w.Code, w.Body, called, row.status, row.caller)
		}
	}
}

func TestCallersAreBoundedEachForItself(t *testing.T) {
	g, err := gate.New(gate.Options{Callers: map[string][]string{"alice": hash("a"), "bob": hash("b")}, Calls: 2})
	if err != nil {
		t.Fatal(err)
	}
	let := make(chan struct{})
	inside := make(chan struct{})
	h := g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside <- struct{}{}; <-let }))
	call := func(token string) int {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	done := make(chan int)
	for range 2 {
		go func() { done <- call("a") }()
		<-inside
	}
	if status := call("a"); status != 429 {
		t.Errorf("the third is answered with %d", status)
	}
	go func() { done <- call("b") }()
	<-inside // nobody else is held up
	close(let)
	for range 3 {
		if status := <-done; status != 200 {
			t.Errorf("status %d", status)
		}
	}
	go func() { done <- call("a") }()
	<-inside
	<-done
}

func TestPagesThatMayCallAreTold(t *testing.T) {
	g, err := gate.New(gate.Options{Callers: map[string][]string{"alice": hash("a")}, Origins: []string{"https://app.example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodOptions, "http://localhost/", http.NoBody)
	r.Header.Set("Origin", "https://app.example.org")
	r.Header.Set("Access-Control-Request-Method", "POST")
	r.Header.Set("Access-Control-Request-Headers", "authorization,a2a-version")
	w := httptest.NewRecorder()
	g.Handler(whoever).ServeHTTP(w, r)
	h := w.Header()
	if w.Code != 204 || h.Get("Access-Control-Allow-Origin") != "https://app.example.org" || h.Get("Access-Control-Allow-Headers") != "authorization,a2a-version" {
		t.Errorf("%d %v", w.Code, h)
	}
}

func TestNewRefusesWhatCanNotBeMeant(t *testing.T) {
	for what, o := range map[string]gate.Options{
		"name":      {Callers: map[string][]string{"a/b": hash("a")}},
		"anonymous": {Anonymous: "a b"},
		"both":      {Anonymous: "a", Callers: map[string][]string{"a": hash("a")}},
		"short":     {Callers: map[string][]string{"a": {"abcd"}}},
		"digits":    {Callers: map[string][]string{"a": {strings.Repeat("x", 64)}}},
		"same cert": {Certificates: map[string][]string{"a": {"x.example"}, "b": {"x.example"}}},
		"no name":   {Certificates: map[string][]string{"a/b": {"x.example"}}},
		"twice":     {Callers: map[string][]string{"a": hash("t"), "b": hash("t")}},
	} {
		if _, err := gate.New(o); err == nil {
			t.Errorf("%s: taken", what)
		} else if strings.Contains(err.Error(), "abcd") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestSetHoldsFromTheNextRequestOn(t *testing.T) {
	g, err := gate.New(gate.Options{Callers: map[string][]string{"a": hash("one")}, Anonymous: "me"})
	if err != nil {
		t.Fatal(err)
	}
	served := ""
	h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { served = gate.Caller(r) }))
	ask := func(token string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", http.NoBody)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		served = ""
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, served
	}
	expect := func(token, caller string) {
		t.Helper()
		if status, got := ask(token); got != caller || (caller == "") != (status == http.StatusUnauthorized) {
			t.Errorf("%q: %d %q, want %q", token, status, got, caller)
		}
	}
	expect("one", "http:a")
	expect("", "http:me")
	if err := g.Set(gate.Options{Callers: map[string][]string{"a": {"no hash"}}}); err == nil {
		t.Error("a hash that is none was taken")
	}
	expect("one", "http:a")
	if err := g.Set(gate.Options{Callers: map[string][]string{"b": hash("one")}, Certificates: map[string][]string{"c": {"x.example"}}}); err != nil {
		t.Fatal(err)
	}
	expect("one", "http:b")
	expect("", "")
}
