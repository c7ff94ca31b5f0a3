package gate_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/bridge/gate"
)

// opened makes a request that stays open, and returns the cause of its end.
func opened(t *testing.T, g *gate.Gate, prepare func(*http.Request)) (ended <-chan error) {
	t.Helper()
	inside, why := make(chan struct{}), make(chan error, 1)
	h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(inside)
		<-r.Context().Done()
		why <- context.Cause(r.Context())
	}))
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody).WithContext(ctx)
	prepare(r)
	done := make(chan any)
	go func() {
		defer func() { done <- recover() }()
		h.ServeHTTP(httptest.NewRecorder(), r)
	}()
	<-inside
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return why
}

func bearing(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// byName are the options with a caller that has two tokens and a certificate.
func byName() gate.Options {
	return gate.Options{
		Callers: map[string][]string{"alice": {hash("one")[0], hash("two")[0]}}, Certificates: map[string][]string{"alice": {"a.example"}},
		Anonymous: "guest", Identity: func(cert *x509.Certificate) (string, error) { return cert.Subject.CommonName, nil },
	}
}

func isOpen(ended <-chan error) bool {
	synctest.Wait()
	return len(ended) == 0
}

func TestTL16RequestsEndWithWhatTheirCallerHasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const life = time.Hour
		until := " until " + time.Now().Add(life).Format(time.RFC3339)
		g, err := gate.New(gate.Options{Callers: map[string][]string{"alice": {hash("short")[0] + until, hash("long")[0]}}, Anonymous: "guest"})
		if err != nil {
			t.Fatal(err)
		}
		short, long := opened(t, g, bearing("short")), opened(t, g, bearing("long"))
		anonymous := opened(t, g, func(*http.Request) {})
		time.Sleep(life - time.Second)
		if !isOpen(short) {
			t.Error("ended before the token")
		}
		time.Sleep(time.Second)
		if err := <-short; !errors.Is(err, gate.ErrEnded) {
			t.Error(err)
		}
		if !isOpen(long) || !isOpen(anonymous) {
			t.Error("others have ended")
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody)
		bearing("short")(r)
		g.Handler(whoever).ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("a token that has expired: %d", w.Code)
		}
	})
}

func TestTL16RequestsEndWithTheCertificateOfTheirCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := gate.New(byName())
		if err != nil {
			t.Fatal(err)
		}
		ended := opened(t, g, func(r *http.Request) { r.TLS = certificate("a.example", time.Now().Add(time.Minute)) })
		time.Sleep(59 * time.Second)
		if !isOpen(ended) {
			t.Error("ended before the certificate")
		}
		time.Sleep(time.Second)
		if err := <-ended; !errors.Is(err, gate.ErrEnded) {
			t.Error(err)
		}
	})
}

func TestTL16ReviewEndsTheRequestsThatWouldNotBeLetIn(t *testing.T) {
	for what, row := range map[string]struct {
		next   func(o *gate.Options)
		refuse func(string) error
		ends   int // of the requests below
	}{
		"nothing":             {func(*gate.Options) {}, nil, 0},
		"token removed":       {func(o *gate.Options) { o.Callers["alice"] = hash("two") }, nil, 1},
		"token of another":    {func(o *gate.Options) { o.Callers = map[string][]string{"alice": hash("two"), "bob": hash("one")} }, nil, 1},
		"certificate removed": {func(o *gate.Options) { o.Certificates["alice"] = nil }, nil, 1},
		"anonymous removed":   {func(o *gate.Options) { o.Anonymous = "" }, nil, 1},
		"caller removed":      {func(o *gate.Options) { o.Callers, o.Certificates = nil, nil }, nil, 3},
		"caller denied": {func(*gate.Options) {}, func(who string) error {
			if who == "http:alice" {
				return errors.New("denied")
			}
			return nil
		}, 3},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := gate.New(byName())
				if err != nil {
					t.Fatal(err)
				}
				all := []<-chan error{
					opened(t, g, bearing("one")), opened(t, g, bearing("two")), opened(t, g, func(*http.Request) {}),
					opened(t, g, func(r *http.Request) { r.TLS = certificate("a.example", time.Now().Add(time.Hour)) }),
				}
				o := byName()
				row.next(&o)
				if err := g.Set(o); err != nil {
					t.Fatal(err)
				}
				if n := g.Review(row.refuse); n != row.ends {
					t.Errorf("%d have ended, want %d", n, row.ends)
				}
				synctest.Wait()
				n := 0
				for _, ended := range all {
					n += len(ended)
				}
				if n != row.ends {
					t.Errorf("%d contexts have ended, want %d", n, row.ends)
				}
			})
		})
	}
}
