package transport_test

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/transporttest"
)

var secure = []string{"tls", "quic"}

// gate is a listener with a peer that wants in.
type gate struct {
	ca     *transporttest.CA
	kind   string
	ln     transport.Listener
	events chan transport.SecurityEvent
}

func newGate(t *testing.T, kind string) *gate {
	transporttest.NoLeaks(t)
	g := &gate{ca: transporttest.NewCA(t), kind: kind, events: make(chan transport.SecurityEvent, 64)}
	g.ln = transporttest.Listen(t, kind, g.ca.Policy(t, transporttest.Server), func(e transport.SecurityEvent) { g.events <- e })
	return g
}

// refuses dials with the policy, sends a frame in the flight of Finished, and
// checks that the listener reports the peer and lets nobody in but a good one
// that comes after it.
func (g *gate) refuses(t *testing.T, policy *transport.Policy, reasons ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	if c, err := transporttest.Dial(ctx, g.kind, g.ln.Addr().String(), policy); err == nil {
		if s, err := c.Open(ctx); err == nil {
			_, _ = s.Write([]byte{0, 0, 0, 1, 0})
			if err := transporttest.RawOn(t, c, s).ExpectEnd(); err == io.EOF {
				t.Errorf("the end was announced as orderly")
			}
		}
		<-c.Context().Done()
		_ = c.Close(0)
	}
	var ev transport.SecurityEvent
	select {
	case ev = <-g.events:
	case <-ctx.Done():
		t.Fatal("no security event")
	}
	if !slices.Contains(reasons, ev.Reason) || ev.Transport != g.kind || ev.Addr == "" || ev.Err == nil {
		t.Errorf("event %+v, want reason %v", ev, reasons)
	}
	good := g.ca.Policy(t, "spiffe://test.invalid/good")
	server, _ := transporttest.Connect(t, g.ln, good)
	if id := server.Peer().Identity; id != "spiffe://test.invalid/good" {
		t.Errorf("accepted %q", id)
	}
}

func TestTL01CertificateMatrix(t *testing.T) {
	other := transporttest.NewCA(t)
	leaf := transporttest.Named(transporttest.Client)
	with := func(edit func(*transporttest.Leaf)) transporttest.Leaf {
		l := leaf
		edit(&l)
		return l
	}
	for _, c := range []struct {
		name   string
		policy func(*testing.T, *transporttest.CA) *transport.Policy
		reason string
	}{
		{"no certificate", func(_ *testing.T, ca *transporttest.CA) *transport.Policy {
			return transporttest.PolicyOf(&tls.Certificate{}, ca.Pool())
		}, transport.ReasonNoCertificate},
		{"wrong CA", func(t *testing.T, ca *transporttest.CA) *transport.Policy {
			return transporttest.PolicyOf(other.Issue(t, leaf), ca.Pool())
		}, transport.ReasonUntrusted},
		{"wrong CA of the same name, right one shown", func(t *testing.T, ca *transporttest.CA) *transport.Policy {
			cert := other.Issue(t, leaf)
			cert.Certificate = append(cert.Certificate, ca.Cert.Raw)
			return transporttest.PolicyOf(cert, ca.Pool())
		}, transport.ReasonUntrusted},
		{"expired", func(t *testing.T, ca *transporttest.CA) *transport.Policy {
			return ca.PolicyWith(t, with(func(l *transporttest.Leaf) { l.NotAfter = time.Now().Add(-time.Minute) }))
		}, transport.ReasonUntrusted},
		{"not yet valid", func(t *testing.T, ca *transporttest.CA) *transport.Policy {
			return ca.PolicyWith(t, with(func(l *transporttest.Leaf) { l.NotBefore = time.Now().Add(time.Minute) }))
		}, transport.ReasonUntrusted},
		{"server-only usage", func(t *testing.T, ca *transporttest.CA) *transport.Policy {
			return ca.PolicyWith(t, with(func(l *transporttest.Leaf) { l.EKU = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }))
		}, transport.ReasonUntrusted},
		{"intermediate not shown", func(t *testing.T, ca *transporttest.CA) *transport.Policy {
			cert := ca.Intermediate(t).Issue(t, leaf)
			cert.Certificate = cert.Certificate[:1]
			return transporttest.PolicyOf(cert, ca.Pool())
		}, transport.ReasonUntrusted},
		{"key of another certificate", func(t *testing.T, ca *transporttest.CA) *transport.Policy {
			cert := ca.Issue(t, leaf)
			cert.PrivateKey = transporttest.NewKey(t)
			return transporttest.PolicyOf(cert, ca.Pool())
		}, transport.ReasonUntrusted},
	} {
		for _, kind := range secure {
			t.Run(c.name+"/"+kind, func(t *testing.T) {
				g := newGate(t, kind)
				g.refuses(t, c.policy(t, g.ca), c.reason)
			})
		}
	}
}

func TestCertificatesThatAreGoodAreAccepted(t *testing.T) {
	for _, kind := range secure {
		t.Run(kind, func(t *testing.T) {
			g := newGate(t, kind)
			for name, policy := range map[string]*transport.Policy{
				"below an intermediate": g.ca.Intermediate(t).PolicyWith(t, transporttest.Named(transporttest.Client)),
				"chain of five":         g.ca.Intermediate(t).Intermediate(t).Intermediate(t).Intermediate(t).PolicyWith(t, transporttest.Named(transporttest.Client)),
				"no usage named": g.ca.PolicyWith(t, transporttest.Leaf{
					URIs: []string{transporttest.Client}, EKU: []x509.ExtKeyUsage{},
				}),
				"client only": g.ca.PolicyWith(t, transporttest.Leaf{
					URIs: []string{transporttest.Client}, EKU: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
				}),
			} {
				server, client := transporttest.Connect(t, g.ln, policy)
				p := server.Peer()
				if p.Identity != transporttest.Client || p.Transport != kind || len(p.Fingerprint) != 64 || p.Issuer == "" || p.Subject == "" || p.Addr == "" {
					t.Errorf("%s: %+v", name, p)
				}
				if id := client.Peer().Identity; id != transporttest.Server {
					t.Errorf("%s: server is %q", name, id)
				}
			}
		})
	}
}

// A certificate of six is refused although each signature in it is good.
func TestTL04ChainOfSixIsRefused(t *testing.T) {
	for _, kind := range secure {
		t.Run(kind, func(t *testing.T) {
			g := newGate(t, kind)
			ca := g.ca
			for range 5 {
				ca = ca.Intermediate(t)
			}
			g.refuses(t, ca.PolicyWith(t, transporttest.Named(transporttest.Client)), transport.ReasonUntrusted)
		})
	}
}

func TestTL03OneCanonicalIdentityOrNone(t *testing.T) {
	// rawSAN is a subject alternative name that x509 would not write.
	rawSAN := func(tag int, value string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			der, err := asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: tag, Bytes: []byte(value)}})
			if err != nil {
				t.Fatal(err)
			}
			c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: der})
		}
	}
	for _, c := range []struct {
		name   string
		leaf   transporttest.Leaf
		reason string // empty means accepted
		id     string
	}{
		{"no SAN", transporttest.Leaf{CN: "admin"}, transport.ReasonIdentity, ""},
		{"two URIs", transporttest.Leaf{URIs: []string{"spiffe://h/a", "spiffe://h/b"}}, transport.ReasonIdentity, ""},
		{"wildcard DNS", transporttest.Leaf{DNS: []string{"*.example.org"}}, transport.ReasonIdentity, ""},
		{"IP only", transporttest.Leaf{IPs: []string{"127.0.0.1"}}, transport.ReasonIdentity, ""},
		{"NUL in DNS name", transporttest.Leaf{Edit: rawSAN(2, "admin\x00.example.org")}, transport.ReasonIdentity, ""},
		{"newline in DNS name", transporttest.Leaf{Edit: rawSAN(2, "admin\n.example.org")}, transport.ReasonIdentity, ""},
		{"NUL in URI", transporttest.Leaf{Edit: rawSAN(6, "spiffe://h/a\x00b")}, transport.ReasonUntrusted, ""},
		{"newline in URI", transporttest.Leaf{Edit: rawSAN(6, "spiffe://h/a\nb")}, transport.ReasonUntrusted, ""},
		{"authority with a SPIFFE ID", transporttest.Leaf{URIs: []string{"spiffe://h/guest"}, Edit: func(c *x509.Certificate) {
			c.IsCA, c.BasicConstraintsValid = true, true
		}}, transport.ReasonIdentity, ""},
		{"SPIFFE ID that may sign certificates", transporttest.Leaf{URIs: []string{"spiffe://h/guest"}, Edit: func(c *x509.Certificate) {
			c.KeyUsage |= x509.KeyUsageCertSign
		}}, transport.ReasonIdentity, ""},
		{"SPIFFE ID that may sign CRLs", transporttest.Leaf{URIs: []string{"spiffe://h/guest"}, Edit: func(c *x509.Certificate) {
			c.KeyUsage |= x509.KeyUsageCRLSign
		}}, transport.ReasonIdentity, ""},
		{"CN admin with SAN guest", transporttest.Leaf{CN: "admin", DNS: []string{"guest.example.org"}}, "", "guest.example.org"},
		{"multi-valued RDN", transporttest.Leaf{URIs: []string{"spiffe://h/guest"}, Edit: func(c *x509.Certificate) {
			der, err := asn1.Marshal(pkix.RDNSequence{{
				{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "admin"},
				{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "O=root,CN=admin"},
			}, {{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "spiffe://h/admin"}}})
			if err != nil {
				t.Fatal(err)
			}
			c.RawSubject = der
		}}, "", "spiffe://h/guest"},
	} {
		for _, kind := range secure {
			t.Run(c.name+"/"+kind, func(t *testing.T) {
				g := newGate(t, kind)
				policy := g.ca.PolicyWith(t, c.leaf)
				if c.reason != "" {
					g.refuses(t, policy, c.reason)
					return
				}
				server, _ := transporttest.Connect(t, g.ln, policy)
				if id := server.Peer().Identity; id != c.id {
					t.Errorf("identity %q, want %q", id, c.id)
				}
			})
		}
	}
}

// forged has a public key of any size and signs with zeros: the caps must
// object before anybody looks at the signature.
type forged struct{ public *rsa.PublicKey }

func (f forged) Public() crypto.PublicKey { return f.public }
func (f forged) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return make([]byte, f.public.Size()), nil
}

func TestTL04OversizedCertificatesAreRefused(t *testing.T) {
	named := func(edit func(*transporttest.Leaf)) func(*testing.T, *transporttest.CA) *tls.Certificate {
		return func(t *testing.T, ca *transporttest.CA) *tls.Certificate {
			l := transporttest.Named(transporttest.Client)
			edit(&l)
			return ca.Issue(t, l)
		}
	}
	padded := func(n, size int) func(*testing.T, *transporttest.CA) *tls.Certificate {
		return func(t *testing.T, ca *transporttest.CA) *tls.Certificate {
			cert := ca.Issue(t, transporttest.Named(transporttest.Client))
			pad := ca.Issue(t, transporttest.Leaf{Edit: func(c *x509.Certificate) {
				c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: make([]byte, size)}}
			}})
			for range n {
				cert.Certificate = append(cert.Certificate, pad.Certificate[0])
			}
			return cert
		}
	}
	huge := func(bits int) func(*transporttest.Leaf) {
		return func(l *transporttest.Leaf) {
			n := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(bits)), big.NewInt(189))
			l.Key = forged{&rsa.PublicKey{N: n, E: 65537}}
		}
	}
	for _, c := range []struct {
		name   string
		cert   func(*testing.T, *transporttest.CA) *tls.Certificate
		reason string // on TLS
	}{
		{"certificate message of 250 KiB", padded(4, 62<<10), transport.ReasonHandshake},
		{"100 intermediates", padded(100, 1), transport.ReasonUntrusted},
		{"chain of 33 KiB", padded(4, 8<<10), transport.ReasonUntrusted},
		{"10,000 names", named(func(l *transporttest.Leaf) {
			for i := range 10_000 {
				l.DNS = append(l.DNS, fmt.Sprintf("n%d.example.org", i))
			}
		}), transport.ReasonHandshake},
		{"65 names", named(func(l *transporttest.Leaf) { l.DNS = strings.Split(strings.Repeat("a ", 61)+"a", " ") }), transport.ReasonUntrusted},
		{"1,000 name constraints", named(func(l *transporttest.Leaf) {
			l.Edit = func(c *x509.Certificate) {
				for i := range 1000 {
					c.ExcludedDNSDomains = append(c.ExcludedDNSDomains, fmt.Sprintf("n%d", i))
				}
			}
		}), transport.ReasonUntrusted},
		{"RSA-16384", named(huge(16384)), transport.ReasonUntrusted},
		{"RSA-8192", named(huge(8192)), transport.ReasonUntrusted},
	} {
		for _, kind := range secure {
			t.Run(c.name+"/"+kind, func(t *testing.T) {
				g := newGate(t, kind)
				reasons := []string{c.reason}
				if kind == "quic" {
					// quic-go may object first: it buffers 16 KiB of handshake.
					reasons = append(reasons, transport.ReasonHandshake)
				}
				g.refuses(t, transporttest.PolicyOf(c.cert(t, g.ca), g.ca.Pool()), reasons...)
			})
		}
	}
}

// Every octet of a certificate damaged in turn: parsed or refused, no panic.
func TestTL04OddASN1(t *testing.T) {
	ca := transporttest.NewCA(t)
	der := ca.Issue(t, transporttest.Named(transporttest.Client)).Certificate[0]
	config := ca.Policy(t, transporttest.Server).Server()
	accepted := 0
	try := func(der []byte) {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return
		}
		err = config.VerifyConnection(tls.ConnectionState{
			Version: tls.VersionTLS13, NegotiatedProtocol: transport.ALPN, PeerCertificates: []*x509.Certificate{cert},
		})
		if err == nil {
			accepted++
		}
	}
	try(der)
	if accepted != 1 {
		t.Fatal("the certificate itself is not accepted")
	}
	for i := range der {
		for _, x := range []byte{0x01, 0x80, 0xff} {
			bad := append([]byte(nil), der...)
			bad[i] ^= x
			try(bad)
		}
		try(der[:i])
	}
	if accepted != 1 {
		t.Errorf("%d damaged certificates accepted", accepted-1)
	}

	deep := asn1.RawValue{Tag: asn1.TagNull, FullBytes: []byte{5, 0}}
	for range 1000 {
		inner, err := asn1.Marshal(deep)
		if err != nil {
			t.Fatal(err)
		}
		deep = asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: inner}
	}
	nested, err := asn1.Marshal(deep)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range secure {
		t.Run("deep/"+kind, func(t *testing.T) {
			g := newGate(t, kind)
			for _, der := range [][]byte{nested, {0x30, 0x80}, {0x30, 0x84, 0xff, 0xff, 0xff, 0xff}, nil} {
				cert := g.ca.Issue(t, transporttest.Named(transporttest.Client))
				cert.Certificate = append(cert.Certificate, der)
				ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
				c, err := transporttest.Dial(ctx, kind, g.ln.Addr().String(), transporttest.PolicyOf(cert, g.ca.Pool()))
				if err == nil {
					s, err := c.Open(ctx)
					if err == nil {
						_, _ = s.Write([]byte{0})
						_ = transporttest.RawOn(t, c, s).ExpectEnd()
					}
					_ = c.Close(0)
				}
				select {
				case ev := <-g.events:
					if ev.Reason != transport.ReasonUntrusted && ev.Reason != transport.ReasonHandshake {
						t.Errorf("%x: %+v", der[:min(len(der), 8)], ev)
					}
				case <-ctx.Done():
					t.Fatal("no security event")
				}
				cancel()
			}
		})
	}
}

func TestDiallerRefusesServersThatAreNotWhomItDialled(t *testing.T) {
	for _, kind := range secure {
		t.Run(kind, func(t *testing.T) {
			transporttest.NoLeaks(t)
			ca := transporttest.NewCA(t)
			for _, c := range []struct {
				name   string
				leaf   transporttest.Leaf
				expect string
				reason string // empty means accepted
			}{
				{"right address", transporttest.Leaf{URIs: []string{"spiffe://h/s"}, IPs: []string{"127.0.0.1"}}, "", ""},
				{"wrong address", transporttest.Leaf{URIs: []string{"spiffe://h/s"}, IPs: []string{"127.0.0.2"}}, "", transport.ReasonUntrusted},
				{"no address", transporttest.Leaf{URIs: []string{"spiffe://h/s"}}, "", transport.ReasonUntrusted},
				{"address only as CN", transporttest.Leaf{CN: "127.0.0.1", URIs: []string{"spiffe://h/s"}}, "", transport.ReasonUntrusted},
				{"expected identity at another address", transporttest.Leaf{URIs: []string{"spiffe://h/s"}}, "spiffe://h/s", ""},
				{"another identity at the right address", transporttest.Named("spiffe://h/t"), "spiffe://h/s", transport.ReasonUntrusted},
				{"prefix of the identity", transporttest.Named("spiffe://h/s"), "spiffe://h/s2", transport.ReasonUntrusted},
				{"client-only usage", transporttest.Leaf{URIs: []string{"spiffe://h/s"}, IPs: []string{"127.0.0.1"}, EKU: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, "", transport.ReasonUntrusted},
				{"two identities", transporttest.Leaf{URIs: []string{"spiffe://h/s", "spiffe://h/t"}, IPs: []string{"127.0.0.1"}}, "", transport.ReasonIdentity},
				{"expired", transporttest.Leaf{URIs: []string{"spiffe://h/s"}, IPs: []string{"127.0.0.1"}, NotAfter: time.Now().Add(-time.Minute)}, "", transport.ReasonUntrusted},
			} {
				t.Run(c.name, func(t *testing.T) {
					ln := transporttest.Listen(t, kind, ca.PolicyWith(t, c.leaf), nil)
					policy := ca.Policy(t, transporttest.Client)
					policy.Expect = c.expect
					ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
					defer cancel()
					conn, err := transporttest.Dial(ctx, kind, ln.Addr().String(), policy)
					if c.reason == "" {
						if err != nil {
							t.Fatal(err)
						}
						_ = conn.Close(0)
						return
					}
					if err == nil {
						t.Fatalf("connected to %+v", conn.Peer())
					}
					if r := transport.ReasonOf(err); r != c.reason {
						t.Errorf("reason %s, want %s: %v", r, c.reason, err)
					}
				})
			}
			t.Run("wrong CA", func(t *testing.T) {
				other := transporttest.NewCA(t)
				ln := transporttest.Listen(t, kind, other.Policy(t, transporttest.Server), nil)
				_, err := transporttest.Dial(t.Context(), kind, ln.Addr().String(), ca.Policy(t, transporttest.Client))
				if unknown := (x509.UnknownAuthorityError{}); !errors.As(err, &unknown) || !strings.Contains(err.Error(), `issued by "CN=`) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

func TestNowIsTheTimeOfVerification(t *testing.T) {
	for _, kind := range secure {
		t.Run(kind, func(t *testing.T) {
			g := newGate(t, kind)
			policy := g.ca.Policy(t, transporttest.Client)
			policy.Now = func() time.Time { return time.Now().Add(2 * time.Hour) } // leaves live for one
			_, err := transporttest.Dial(t.Context(), kind, g.ln.Addr().String(), policy)
			if invalid := (x509.CertificateInvalidError{}); !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestReloadIsSeenByTheNextHandshake(t *testing.T) {
	for _, kind := range secure {
		t.Run(kind, func(t *testing.T) {
			transporttest.NoLeaks(t)
			before, after := transporttest.NewCA(t), transporttest.NewCA(t)
			both := before.Pool()
			both.AddCert(after.Cert)

			var current atomic.Pointer[transport.Credentials]
			current.Store(&transport.Credentials{Certificate: before.Issue(t, transporttest.Named("spiffe://h/old")), Roots: before.Pool()})
			events := make(chan transport.SecurityEvent, 8)
			ln := transporttest.Listen(t, kind, &transport.Policy{Credentials: current.Load}, func(e transport.SecurityEvent) { events <- e })

			client := func(ca *transporttest.CA) *transport.Policy {
				return transporttest.PolicyOf(ca.Issue(t, transporttest.Named(transporttest.Client)), both)
			}
			oldServer, oldClient := transporttest.Connect(t, ln, client(before))

			current.Store(&transport.Credentials{Certificate: after.Issue(t, transporttest.Named("spiffe://h/new")), Roots: after.Pool()})

			_, c := transporttest.Connect(t, ln, client(after))
			if id := c.Peer().Identity; id != "spiffe://h/new" {
				t.Errorf("server is %q after the reload", id)
			}
			c, err := transporttest.Dial(t.Context(), kind, ln.Addr().String(), client(before))
			if err == nil {
				s, _ := c.Open(t.Context())
				if s != nil {
					_ = transporttest.RawOn(t, c, s).ExpectEnd()
				}
				_ = c.Close(0)
			}
			if e := <-events; e.Reason != transport.ReasonUntrusted {
				t.Errorf("event %+v", e)
			}
			// Connections from before are not touched.
			transporttest.Streams(t, oldClient, oldServer)
		})
	}
}
