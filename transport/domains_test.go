package transport_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/transporttest"
)

// The dialler has trust anchors of three kinds. Each kind vouches for its own identities only,
// so an authority of one organisation cannot make a certificate that another one is known by.
func TestTL28EachAuthorityVouchesForItsOwnIdentitiesOnly(t *testing.T) {
	common, own, acme := transporttest.NewCA(t), transporttest.NewCA(t), transporttest.NewCA(t)
	trust := func(cert *tls.Certificate) *transport.Policy {
		c := &transport.Credentials{
			Certificate: cert, Roots: common.Pool(),
			Domains: map[string]*x509.CertPool{"example.org": own.Pool(), "empty.example": nil},
			Bundles: map[string]*x509.CertPool{"spiffe://acme.example/swpd": acme.Pool(), "spiffe://example.org/guest": acme.Pool()},
		}
		return &transport.Policy{Credentials: func() *transport.Credentials { return c }}
	}
	for _, row := range []struct {
		identity string
		by       *transporttest.CA // the only one that vouches for it; nil: none does
	}{
		{"spiffe://example.org/agent", own},
		{"spiffe://example.org/guest", acme},
		{"spiffe://acme.example/swpd", acme},
		{"spiffe://acme.example/swpd2", common},
		{"spiffe://example.org.evil/agent", common},
		{"spiffe://beta.example/swpd", common},
		{"https://example.org/agent", common},
		{"spiffe://empty.example/swpd", nil},
	} {
		for name, ca := range map[string]*transporttest.CA{"common": common, "own": own, "acme": acme} {
			for _, kind := range secure {
				shown := ca.Issue(t, transporttest.Named(row.identity))
				me := trust(common.Issue(t, transporttest.Named("spiffe://verifier.example/me")))
				me.Expect = row.identity
				ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
				ln := transporttest.Listen(t, kind, transporttest.PolicyOf(shown, common.Pool()), nil)
				conn, err := transporttest.Dial(ctx, kind, ln.Addr().String(), me)
				if good := ca == row.by; good != (err == nil) {
					t.Errorf("%s: %s by %s: %v, want trusted: %v", kind, row.identity, name, err, good)
				}
				if err == nil {
					_ = conn.Close(0)
				} else if transport.ReasonOf(err) != transport.ReasonUntrusted {
					t.Errorf("%s: %s by %s: reason %s", kind, row.identity, name, transport.ReasonOf(err))
				}
				cancel()
			}
		}
	}
}

func TestTrustDomainIsThatOfASPIFFEID(t *testing.T) {
	for identity, want := range map[string]string{
		"spiffe://example.org/swpd": "example.org", "spiffe://example.org": "example.org", "spiffe:///swpd": "",
		"https://example.org/swpd": "", "example.org": "", "": "", "xspiffe://example.org/": "",
	} {
		if got := transport.TrustDomain(identity); got != want {
			t.Errorf("%q: %q, want %q", identity, got, want)
		}
	}
}
