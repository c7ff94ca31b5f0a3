package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/internal/spiffe/spiffetest"
	"github.com/slimwire/swp/transport/transporttest"
)

// bundleEndpoint serves the bundle of a trust domain.
type bundleEndpoint struct {
	t   *testing.T
	url string

	mu       sync.Mutex
	document []byte
	cert     *tls.Certificate
}

// newBundleEndpoint serves the authorities of b.example with a certificate.
func newBundleEndpoint(t *testing.T, cert *tls.Certificate, sequence uint64, authorities ...*x509.Certificate) *bundleEndpoint {
	t.Helper()
	e := &bundleEndpoint{t: t, cert: cert}
	e.publish(sequence, authorities...)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.cert, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		_, _ = w.Write(e.document)
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

func (e *bundleEndpoint) publish(sequence uint64, authorities ...*x509.Certificate) {
	e.t.Helper()
	b := spiffebundle.FromX509Authorities(spiffeid.RequireTrustDomainFromString("b.example"), authorities)
	b.SetSequenceNumber(sequence)
	text, err := b.Marshal()
	if err != nil {
		e.t.Fatal(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.document = text
}

// certOf reads the first certificate of a PEM file.
func certOf(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// rootFile writes the root of an authority as a PEM file.
func rootFile(t *testing.T, ca *transporttest.CA) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// bundle returns the state of the trust bundle of a partner.
func (o *organisation) bundle(name string) (of identity.BundleStatus) {
	o.t.Helper()
	if b := o.link(name).Bundle; b != nil {
		of = *b
	}
	return of
}

// The link of a partner stands and falls with the bundle that its endpoint publishes, of either
// profile; the kept bundle serves a start without the endpoint.
func TestALinkFollowsTheTrustBundleOfThePartner(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, over int) {
		a, b, c := open(t, "a", ""), open(t, "b", ""), open(t, "c", "")
		web := transporttest.NewCA(t)
		own, foreign := certOf(t, b.ca()), certOf(t, c.ca())
		e := newBundleEndpoint(t, web.Issue(t, transporttest.Leaf{IPs: []string{"127.0.0.1"}}), 1, own)
		b.trusting("a", a)
		a.configure(func(text string) string {
			return text + fmt.Sprintf("partners:\n  b: {identity: %q, addresses: [%s], bundle: {source: https_web, url: %q, ca: [%q]}}\n", b.identity, b.addrs[over], e.url, rootFile(t, web))
		})
		a.reloaded()
		a.connected("b")
		if s := a.bundle("b"); s.Sequence != 1 || s.Anchors != 1 || s.Bootstrap || s.Old || s.Failure != "" {
			t.Errorf("%+v", s)
		}
		if got := a.metric(`swpd_partner_bundle_fetched_timestamp_seconds{partner="b"}`); got == "" {
			t.Error("no metric of the bundle")
		}
		e.publish(2, foreign)
		a.until("the end of the link", func() bool { a.reloads(); return !a.up("b") })
		e.publish(1, own)
		a.until("the refusal of an older bundle", func() bool {
			a.reloads()
			return strings.Contains(a.bundle("b").Failure, "sequence number 1, lower than 2")
		})
		e.publish(3, own, foreign)
		a.until("the link", func() bool { a.reloads(); return a.up("b") })

		if err := a.end(); err != nil {
			t.Fatal(err)
		}
		kept := filepath.Join(a.dir, "data", "bundles", "b.json")
		text, err := os.ReadFile(kept)
		if err != nil {
			t.Fatal(err)
		}
		e.publish(0) // without an authority, as an endpoint that cannot be used
		a.again()
		a.connected("b")
		if s := a.bundle("b"); s.Sequence != 3 || s.Fetched.IsZero() || time.Since(s.Fetched) > patience {
			t.Errorf("%+v, kept %s", s, text)
		}
		a.configure(func(text string) string { return text[:strings.Index(text, "partners:\n")] })
		a.reloaded()
		a.until("the end of the kept bundle", func() bool { _, err := os.Stat(kept); return os.IsNotExist(err) })
	})
}

func TestAnEndpointOfSPIFFEGivesTheTrustOfAPartner(t *testing.T) {
	t.Parallel()
	a, b := open(t, "a", ""), open(t, "b", "")
	domain := transporttest.NewCA(t)
	e := newBundleEndpoint(t, domain.Issue(t, transporttest.Leaf{URIs: []string{"spiffe://b.example/spire/server"}}), 1, certOf(t, b.ca()), domain.Cert)
	b.trusting("a", a)
	a.configure(func(text string) string {
		return text + fmt.Sprintf("partners:\n  b: {identity: %q, addresses: [%s], trust: [%q], bundle: {source: https_spiffe, url: %q, endpoint_id: \"spiffe://b.example/spire/server\"}}\n",
			b.identity, b.addrs[0], rootFile(t, domain), e.url)
	})
	a.reloaded()
	a.connected("b")
	if s := a.bundle("b"); s.Anchors != 2 || s.Bootstrap {
		t.Errorf("%+v", s)
	}
}

func TestAPartnerWithoutABundleIsNotTrustedAndSaidToBe(t *testing.T) {
	t.Parallel()
	a, b := open(t, "a", ""), open(t, "b", "")
	b.trusting("a", a)
	a.configure(func(text string) string {
		return text + fmt.Sprintf("partners:\n  b: {identity: %q, addresses: [%s], bundle: {source: https_web, url: %q, ca: [%q]}}\n", b.identity, b.addrs[0], "https://127.0.0.1:1/", a.ca())
	})
	a.reloaded()
	a.await("trust bundle of a partner not refreshed")
	a.await("certificate signed by unknown authority")
	if _, body := a.get("/readyz"); !strings.Contains(body, "warning: partner b: no trust bundle is here yet, so its certificate cannot be verified: ") {
		t.Errorf("/readyz: %s", body)
	}
	if a.up("b") {
		t.Error("the partner is connected")
	}
}

// The federated bundle of the Workload API is that of a partner only if its entry says so.
func TestTheFederatedBundleOfTheWorkloadAPIGivesTheTrustOfAPartner(t *testing.T) {
	t.Parallel()
	ca, other := transporttest.NewCA(t), transporttest.NewCA(t)
	w := startWorkload(t, ca)
	partner := other.Issue(t, transporttest.Named("spiffe://b.example/swpd"))
	w.configure(func(text string) string {
		return text + "partners:\n  b: {identity: \"spiffe://b.example/swpd\", bundle: {source: workload_api}}\n"
	})
	w.reloaded()
	if _, body := w.get("/readyz"); !strings.Contains(body, "partner b: the Workload API gives no bundle of its trust domain") {
		t.Errorf("/readyz: %s", body)
	}
	joins := func() bool {
		_, _, err := w.join(w.addrs[0], partner, ca)
		return err == nil
	}
	if joins() {
		t.Error("a partner without a bundle was let in")
	}
	svid := spiffetest.SVID{ID: ownSVID, Authority: ca}
	w.agent.Give(map[string]*transporttest.CA{"spiffe://b.example": other}, svid)
	w.eventually("the partner", joins)
	if b := (&organisation{running: w.running}).bundle("b"); b.Anchors != 1 || b.Fetched.IsZero() || time.Since(b.Fetched) > patience {
		t.Errorf("%+v, want one authority with an age", b)
	}
	if _, _, err := w.join(w.addrs[0], other.Issue(t, transporttest.Named("spiffe://b.example/agent")), ca); err == nil {
		t.Error("another identity of the partner's trust domain was let in")
	}
	w.agent.Give(nil, svid)
	w.eventually("the end of the trust", func() bool { return !joins() })
}
