package identity

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/claims"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/transporttest"
)

// At the handshake no authority of a partner vouches for a name that is claimed here, also if the
// entry of the partner was taken up before the name was.
func TestTL11AnAuthorityOfAPartnerVouchesOnlyForItsOwnNames(t *testing.T) {
	transporttest.NoLeaks(t)
	ours, theirs := transporttest.NewCA(t), transporttest.NewCA(t)
	const self, claimed, free = "spiffe://south.example/swpd", "spiffe://south.example/swp-client", "spiffe://west.example/swpd"
	cert := ours.Issue(t, transporttest.Named(self))
	l := &loaded{identity: self}
	l.Credentials = transport.Credentials{Certificate: cert, Roots: ours.Pool()}
	l = l.with(bundles{
		pools:    map[string]*x509.CertPool{claimed: theirs.Pool(), free: theirs.Pool()},
		partners: []claims.Partner{{Name: "liar", Identity: claimed}, {Name: "west", Identity: free}},
	}, nil)
	for _, kind := range []string{"tls", "quic"} {
		refused := make(chan transport.SecurityEvent, 1)
		ln := transporttest.Listen(t, kind, &transport.Policy{Credentials: func() *transport.Credentials { return &l.Credentials }}, func(e transport.SecurityEvent) { refused <- e })
		dial := func(cert *tls.Certificate) transport.Conn {
			policy := transporttest.PolicyOf(cert, ours.Pool())
			policy.Expect = self
			conn, _ := transporttest.Dial(t.Context(), kind, ln.Addr().String(), policy) // TLS tells a refusal later
			return conn
		}
		for _, name := range []string{claimed, "spiffe://west.example/other"} {
			conn := dial(theirs.Issue(t, transporttest.Named(name)))
			if e := <-refused; e.Identity != name || e.Reason != transport.ReasonUntrusted {
				t.Errorf("%s: %s: %+v", kind, name, e)
			}
			if conn != nil {
				_ = conn.Close(0)
			}
		}
		for name, ca := range map[string]*transporttest.CA{claimed: ours, free: theirs} {
			conn := dial(ca.Issue(t, transporttest.Named(name)))
			if conn == nil {
				t.Fatalf("%s: %s was refused", kind, name)
			}
			accepted, err := ln.Accept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := accepted.Peer().Identity; got != name {
				t.Errorf("%s: the peer is %s, want %s", kind, got, name)
			}
			_, _ = conn.Close(0), accepted.Close(0)
		}
	}
}

func TestAnEntryThatClaimsANameOfThisEndpointIsNotReloaded(t *testing.T) {
	dir := t.TempDir()
	if err := devpki.Create(dir, devpki.Options{Name: "spiffe://west.example/swpd"}); err != nil {
		t.Fatal(err)
	}
	entry := config.Partner{Identity: "spiffe://south.example/swp-client", Trust: []string{devpki.Server(dir).CA}}
	c := &Credentials{kept: t.TempDir()}
	c.current.Store(&loaded{identity: "spiffe://south.example/swpd"})
	if _, err := c.PrepareBundles(config.Partners{"liar": entry}); err == nil || !strings.Contains(err.Error(), "partners.liar.identity: spiffe://south.example/swp-client is in the trust domain of this endpoint") {
		t.Errorf("%v", err)
	}
	entry.Identity = "spiffe://west.example/swpd"
	commit, err := c.PrepareBundles(config.Partners{"west": entry})
	if err != nil {
		t.Fatal(err)
	}
	commit()
	inForce := func(want bool) {
		t.Helper()
		if got := c.Current().Bundles[entry.Identity] != nil; got != want {
			t.Errorf("the authority of the partner is in force: %v, want %v", got, want)
		}
	}
	inForce(false) // nobody has said whose data there is
	c.Withhold(nil)
	inForce(true)
	if fewer := c.Withhold([]string{entry.Identity}); !fewer {
		t.Error("a name less, and no connection is checked")
	}
	inForce(false)
	if commit, err = c.PrepareBundles(config.Partners{"west": entry}); err != nil {
		t.Fatal(err)
	}
	commit() // the same authorities
	inForce(false)
	c.Withhold(nil)
	commit()
	inForce(true)

	// A certificate of this endpoint with a name in the domain of a partner is not taken up either.
	own := t.TempDir()
	if err := devpki.Create(own, devpki.Options{Name: "spiffe://west.example/mine"}); err != nil {
		t.Fatal(err)
	}
	f := devpki.Server(own)
	conf := &config.Config{Identity: config.Identity{Cert: f.Cert, Key: f.Key}, Trust: config.Trust{CA: []string{f.CA}}}
	c.now = time.Now
	if _, err := c.Prepare(conf); err == nil || !strings.Contains(err.Error(), "partners.west.identity: spiffe://west.example/swpd is in the trust domain of this endpoint") {
		t.Errorf("%v", err)
	}
}
