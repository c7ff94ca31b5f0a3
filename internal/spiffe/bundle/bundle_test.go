package bundle

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/slimwire/swp/transport/transporttest"
)

const (
	domain     = "acme.example"
	endpointID = "spiffe://acme.example/spire/server"
)

// document returns a bundle of some authorities.
func document(t *testing.T, sequence uint64, refresh time.Duration, list ...*x509.Certificate) []byte {
	t.Helper()
	b := spiffebundle.FromX509Authorities(spiffeid.RequireTrustDomainFromString(domain), list)
	if sequence > 0 {
		b.SetSequenceNumber(sequence)
	}
	if refresh > 0 {
		b.SetRefreshHint(refresh)
	}
	text, err := b.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// endpoint is a bundle endpoint whose answer and certificate may change.
type endpoint struct {
	url string

	mu     sync.Mutex
	cert   *tls.Certificate
	answer http.HandlerFunc
}

func newEndpoint(t *testing.T, cert *tls.Certificate, answer http.HandlerFunc) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.set(cert, answer)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.cert, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		answer := e.answer
		e.mu.Unlock()
		answer(w, r)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	e.url = "https://" + ln.Addr().String() + "/bundle.json"
	return e
}

func (e *endpoint) set(cert *tls.Certificate, answer http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cert, e.answer = cert, answer
}

func says(text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }
}

func attempt(t *testing.T, s *Source) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	return s.attempt(ctx)
}

func TestAnEndpointOfTheWebIsVerifiedByItsRoots(t *testing.T) {
	transporttest.NoLeaks(t)
	web, ca := transporttest.NewCA(t), transporttest.NewCA(t)
	e := newEndpoint(t, web.Issue(t, transporttest.Leaf{IPs: []string{"127.0.0.1"}}), says(document(t, 7, 10*time.Minute, ca.Cert)))
	o := Options{Domain: domain, URL: e.url, Roots: web.Pool(), File: filepath.Join(t.TempDir(), "a", "acme.json")}
	s := New(o)
	if err := attempt(t, s); err != nil {
		t.Fatal(err)
	}
	now := s.State()
	if b := now.Bundle; now.Version != 1 || b.Sequence != 7 || b.Refresh != 10*time.Minute || !b.Authorities[0].Equal(ca.Cert) || time.Since(b.Fetched) > time.Minute {
		t.Errorf("%+v", now)
	}
	if err := attempt(t, s); err != nil || s.State().Version != 1 {
		t.Errorf("the same bundle counts as a change: %v", err)
	}
	for name, roots := range map[string]*x509.CertPool{"the bundle itself": ca.Pool(), "the system": nil} {
		o.Roots, o.File = roots, filepath.Join(t.TempDir(), "acme.json")
		if s := New(o); attempt(t, s) == nil || s.State().Bundle != nil {
			t.Errorf("%s was a root", name)
		}
	}
	e.set(web.Issue(t, transporttest.Leaf{DNS: []string{"other.example"}}), says(document(t, 8, 0, ca.Cert)))
	if err := attempt(t, s); err == nil || s.State().Bundle.Sequence != 7 {
		t.Errorf("an endpoint of another name was accepted: %v", err)
	}
}

// The endpoint is verified by the bundle at hand: first the configured one, then that of the last
// fetch, so that it can replace its authority.
func TestAnEndpointOfSPIFFEIsVerifiedByTheLatestBundle(t *testing.T) {
	transporttest.NoLeaks(t)
	first, next := transporttest.NewCA(t), transporttest.NewCA(t)
	id := func(ca *transporttest.CA, id string) *tls.Certificate {
		return ca.Issue(t, transporttest.Leaf{URIs: []string{id}})
	}
	e := newEndpoint(t, id(first, endpointID), says(document(t, 1, 0, first.Cert, next.Cert)))
	o := Options{
		Domain: domain, URL: e.url, EndpointID: endpointID, Bootstrap: []*x509.Certificate{first.Cert}, File: filepath.Join(t.TempDir(), "acme.json"),
	}
	s := New(o)
	e.set(id(next, endpointID), e.answer)
	if attempt(t, s) == nil {
		t.Error("an authority that is not configured was trusted")
	}
	e.set(id(first, "spiffe://acme.example/agent"), e.answer)
	if attempt(t, s) == nil {
		t.Error("another workload of the domain was taken for the endpoint")
	}
	e.set(id(first, endpointID), e.answer)
	if err := attempt(t, s); err != nil || len(s.State().Bundle.Authorities) != 2 {
		t.Fatal(err)
	}
	e.set(id(next, endpointID), says(document(t, 2, 0, next.Cert)))
	if err := attempt(t, s); err != nil || len(s.State().Bundle.Authorities) != 1 || s.State().Version != 2 {
		t.Fatal(err)
	}
	e.set(id(first, endpointID), says(document(t, 3, 0, first.Cert)))
	if attempt(t, s) == nil {
		t.Error("an authority that was removed was trusted")
	}
	if again := New(o); attempt(t, again) == nil { // the kept bundle comes before Bootstrap
		t.Error("an authority that was removed was trusted after a restart")
	}
}

func TestABundleIsKeptForTheNextStart(t *testing.T) {
	transporttest.NoLeaks(t)
	ca := transporttest.NewCA(t)
	o := Options{Domain: domain, URL: "https://acme.example/bundle.json", File: filepath.Join(t.TempDir(), "acme.json")}
	s := New(o)
	s.get = func(context.Context) ([]byte, error) { return document(t, 5, 0, ca.Cert), nil }
	if err := attempt(t, s); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(o.File); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	again := New(o)
	if now := again.State(); now.Failure != nil || now.Version != 0 || now.Bundle.Sequence != 5 || !now.Bundle.Fetched.Equal(s.State().Bundle.Fetched) {
		t.Errorf("%+v", now)
	}
	again.get = func(context.Context) ([]byte, error) { return document(t, 4, 0, ca.Cert), nil }
	if err := attempt(t, again); err == nil || !strings.Contains(err.Error(), "sequence number 4, lower than 5") {
		t.Errorf("after a restart: %v", err)
	}
	if err := os.Remove(o.File); err != nil {
		t.Fatal(err)
	}
	if err := attempt(t, again); err != nil || again.State().Bundle.Sequence != 4 {
		t.Errorf("after the file was removed: %v", err)
	}
	for name, other := range map[string]Options{
		"domain": {Domain: "b.example", URL: o.URL, File: o.File}, "URL": {Domain: domain, URL: "https://b.example/", File: o.File},
	} {
		if now := New(other).State(); now.Bundle != nil || now.Failure != nil {
			t.Errorf("the bundle of another %s was taken: %+v", name, now)
		}
	}
	for name, text := range map[string]string{"damaged": "{", "empty": "", "huge": strings.Repeat(" ", 2*maxDocument+1)} {
		if err := os.WriteFile(o.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if now := New(o).State(); now.Bundle != nil || now.Failure == nil || !strings.Contains(now.Failure.Error(), o.File) {
			t.Errorf("%s: %+v", name, now)
		}
	}
	if err := again.Forget(); err != nil {
		t.Fatal(err)
	}
	if err := again.Forget(); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

func TestABundleThatCannotBeKeptIsInForce(t *testing.T) {
	ca := transporttest.NewCA(t)
	s := New(Options{Domain: domain, URL: "https://acme.example/", File: "/dev/null/acme.json"})
	s.get = func(context.Context) ([]byte, error) { return document(t, 1, 0, ca.Cert), nil }
	if err := attempt(t, s); err == nil || !strings.Contains(err.Error(), "not kept") || s.State().Bundle == nil {
		t.Errorf("%v, %+v", err, s.State())
	}
}

// unlike returns a JWKS document as an object, to be changed.
func unlike(t *testing.T, text []byte, change func(map[string]any)) []byte {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	change(object)
	changed, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestTL29AHostileBundleEndpointChangesNothing(t *testing.T) {
	transporttest.NoLeaks(t)
	web, ca := transporttest.NewCA(t), transporttest.NewCA(t)
	cert := web.Issue(t, transporttest.Leaf{IPs: []string{"127.0.0.1"}})
	good := document(t, 7, 0, ca.Cert)
	e := newEndpoint(t, cert, says(good))
	s := New(Options{Domain: domain, URL: e.url, Roots: web.Pool(), File: filepath.Join(t.TempDir(), "acme.json")})
	if err := attempt(t, s); err != nil {
		t.Fatal(err)
	}
	before := s.State().Bundle
	kept, err := os.ReadFile(s.o.File)
	if err != nil {
		t.Fatal(err)
	}
	stranger := newEndpoint(t, ca.Issue(t, transporttest.Leaf{IPs: []string{"127.0.0.1"}}), says(good))
	plain := httptest.NewServer(says(good))
	t.Cleanup(plain.Close)
	foreign := authorityOf(t, ca, "spiffe://other.example")
	var many []*x509.Certificate
	for range maxAuthorities + 1 {
		many = append(many, transporttest.NewCA(t).Cert)
	}
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"garbage":       {says([]byte("<html>")), "not a SPIFFE bundle"},
		"nothing":       {says(nil), "not a SPIFFE bundle"},
		"no keys":       {says([]byte(`{"spiffe_sequence": 9}`)), "no authorities found"},
		"no X.509 keys": {says([]byte(`{"keys": [], "spiffe_sequence": 9}`)), "no key for x509-svid"},
		"huge":          {says(append(good, make([]byte, maxDocument)...)), "more than 1048576 octets"},
		"error":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "answers 502"},
		"older":         {says(document(t, 6, 0, ca.Cert)), "sequence number 6, lower than 7"},
		"other domain":  {says(document(t, 8, 0, foreign)), `trust domain "other.example"`},
		"no authority":  {says(document(t, 8, 0, cert.Leaf)), "is not that of an authority"},
		"too many":      {says(document(t, 8, 0, many...)), "65 X.509 authorities, at most 64"},
		"two in one key": {says(unlike(t, good, func(o map[string]any) {
			k := o["keys"].([]any)[0].(map[string]any)
			k["x5c"] = append(k["x5c"].([]any), k["x5c"].([]any)[0])
		})), "not a SPIFFE bundle"},
		"loop":          {redirect(e.url), "more than 3 redirects"},
		"away from TLS": {redirect(plain.URL), "is not the URL of a bundle endpoint"},
		"to a stranger": {redirect(stranger.url), "unknown authority"},
		"with a user":   {redirect(strings.Replace(e.url, "https://", "https://user@", 1)), "is not the URL of a bundle endpoint"},
		"head of 128 KiB": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 128<<10))
			w.WriteHeader(200)
		}, "header"},
		"cut in the middle": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(good[:20])
		}, "unexpected EOF"},
	} {
		e.set(cert, row.answer)
		if err := attempt(t, s); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
		if s.State().Bundle != before || s.State().Failure == nil {
			t.Errorf("%s has replaced the bundle", name)
		}
		if now, err := os.ReadFile(s.o.File); err != nil || string(now) != string(kept) {
			t.Errorf("%s has replaced the kept bundle: %v", name, err)
		}
	}
	e.set(cert, redirect(newEndpoint(t, cert, says(document(t, 8, 0, ca.Cert))).url))
	if err := attempt(t, s); err != nil || s.State().Bundle.Sequence != 8 {
		t.Errorf("a redirect to an endpoint that is verified: %v", err)
	}
}

// authorityOf makes an authority with a SPIFFE ID.
func authorityOf(t *testing.T, ca *transporttest.CA, id string) *x509.Certificate {
	t.Helper()
	u, err := url.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	return ca.Issue(t, transporttest.Leaf{Edit: func(c *x509.Certificate) {
		c.URIs, c.IsCA, c.BasicConstraintsValid, c.KeyUsage = []*url.URL{u}, true, true, x509.KeyUsageCertSign
	}}).Leaf
}

func TestTL29AnEndpointThatDoesNotAnswerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Domain: domain, URL: "https://acme.example/", File: filepath.Join(t.TempDir(), "acme.json")})
		s.get = func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		began := time.Now()
		if err := s.attempt(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != fetchFor {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestABundleIsFetchedAsOftenAsItSays(t *testing.T) {
	ca := transporttest.NewCA(t)
	for _, row := range []struct{ hint, least time.Duration }{
		{0, 5 * time.Minute}, {10 * time.Minute, 10 * time.Minute}, {time.Second, time.Minute}, {1000 * time.Hour, 24 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			var at []time.Duration
			began, fails := time.Now(), true
			s := New(Options{Domain: domain, URL: "https://acme.example/", File: filepath.Join(t.TempDir(), "acme.json")})
			s.get = func(context.Context) ([]byte, error) {
				at = append(at, time.Since(began))
				if fails = !fails; fails {
					return nil, errors.New("away")
				}
				return document(t, 0, row.hint, ca.Cert), nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*row.least)
			defer cancel()
			s.Run(ctx)
			if len(at) < 9 || len(at) > 10 || at[0] != 0 {
				t.Fatalf("hint %v: at %v", row.hint, at)
			}
			for i := 1; i < len(at); i++ {
				if pause := at[i] - at[i-1]; pause < row.least || pause > row.least*11/10 {
					t.Errorf("hint %v: a pause of %v", row.hint, pause)
				}
			}
		})
	}
}

func TestWithoutABundlePausesGrowAndARequestShortensThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int64
		s := New(Options{Domain: domain, URL: "https://acme.example/", File: filepath.Join(t.TempDir(), "acme.json")})
		s.get = func(context.Context) ([]byte, error) {
			attempts.Add(1)
			return nil, errors.New("away")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go s.Run(ctx)
		time.Sleep(5*time.Minute + time.Second)
		n := attempts.Load()
		if n < 6 || n > 7 { // after 0, 5, 15, 35, 75, 155 and 315 s, and up to a tenth more
			t.Errorf("%d attempts in five minutes", n)
		}
		for range 10 {
			s.Refresh()
		}
		time.Sleep(pokeGap)
		synctest.Wait()
		if got := attempts.Load() - n; got != 1 {
			t.Errorf("%d attempts for requests at one time", got)
		}
		<-ctx.Done()
		if got := attempts.Load() - n; got < 11 || got > 13 {
			t.Errorf("%d attempts in an hour", got)
		}
	})
}
