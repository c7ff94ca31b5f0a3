package transport

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"testing"
)

func TestCapsHoldAtTheLimitAndRefuseOneMore(t *testing.T) {
	key := ed25519.PublicKey(make([]byte, ed25519.PublicKeySize))
	chain := func(n, size int) []*x509.Certificate {
		var out []*x509.Certificate
		for range n {
			out = append(out, &x509.Certificate{Raw: make([]byte, size/n), PublicKey: key})
		}
		return out
	}
	one := func(edit func(*x509.Certificate)) []*x509.Certificate {
		c := chain(1, 100)
		edit(c[0])
		return c
	}
	bits := func(n int) []*x509.Certificate {
		return one(func(c *x509.Certificate) {
			c.PublicKey = &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), n-1, 1), E: 65537}
		})
	}
	names := func(dns, ips int) []*x509.Certificate {
		return one(func(c *x509.Certificate) {
			c.DNSNames = make([]string, dns)
			c.IPAddresses = make([]net.IP, ips)
		})
	}
	constraints := func(n int) []*x509.Certificate {
		return append(chain(1, 100), one(func(c *x509.Certificate) { c.ExcludedDNSDomains = make([]string, n) })...)
	}
	curve := func(c elliptic.Curve) []*x509.Certificate {
		return one(func(x *x509.Certificate) { x.PublicKey = &ecdsa.PublicKey{Curve: c} })
	}
	for _, c := range []struct {
		name  string
		chain []*x509.Certificate
		ok    bool
	}{
		{"5 certificates", chain(5, 500), true},
		{"6 certificates", chain(6, 600), false},
		{"32768 octets", chain(1, 32768), true},
		{"32769 octets", chain(1, 32769), false},
		{"64 names", names(60, 4), true},
		{"65 names", names(60, 5), false},
		{"64 constraints", constraints(64), true},
		{"65 constraints", constraints(65), false},
		{"RSA 2047", bits(2047), false},
		{"RSA 2048", bits(2048), true},
		{"RSA 4096", bits(4096), true},
		{"RSA 4097", bits(4097), false},
		{"P-224", curve(elliptic.P224()), false},
		{"P-256", curve(elliptic.P256()), true},
		{"P-521", curve(elliptic.P521()), true},
		{"no known key", one(func(c *x509.Certificate) { c.PublicKey = nil }), false},
	} {
		if err := checkCaps(c.chain); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestPolicyWithoutTrustAnchorsTrustsNobody(t *testing.T) {
	for name, creds := range map[string]*Credentials{"none": nil, "no roots": {}} {
		p := &Policy{Credentials: func() *Credentials { return creds }}
		if _, err := p.roots(""); !errors.Is(err, errNoRoots) {
			t.Errorf("%s: roots: %v", name, err)
		}
		if _, err := p.certificate(); !errors.Is(err, errNoOwn) {
			t.Errorf("%s: certificate: %v", name, err)
		}
	}
}

// There is nothing to set that could lower the floor; this holds what is
// handed to crypto/tls and quic-go.
func TestTL02ConfigurationCannotLowerTheFloor(t *testing.T) {
	p := &Policy{Credentials: func() *Credentials { return nil }, Expect: "spiffe://h/a"}
	for name, c := range map[string]*tls.Config{"server": p.Server(), "client": p.Client("h")} {
		if c.MinVersion != tls.VersionTLS13 || len(c.NextProtos) != 1 || c.NextProtos[0] != ALPN ||
			!c.SessionTicketsDisabled || c.ClientSessionCache != nil || c.VerifyConnection == nil || c.KeyLogWriter != nil {
			t.Errorf("%s: %+v", name, c)
		}
		err := c.VerifyConnection(tls.ConnectionState{Version: tls.VersionTLS12, NegotiatedProtocol: ALPN})
		if ReasonOf(err) != ReasonDowngrade {
			t.Errorf("%s: TLS 1.2: %v", name, err)
		}
		for _, proto := range []string{"", "h2", "swp/2"} {
			err := c.VerifyConnection(tls.ConnectionState{Version: tls.VersionTLS13, NegotiatedProtocol: proto})
			if ReasonOf(err) != ReasonDowngrade {
				t.Errorf("%s: application protocol %q: %v", name, proto, err)
			}
		}
		err = c.VerifyConnection(tls.ConnectionState{Version: tls.VersionTLS13, NegotiatedProtocol: ALPN})
		if ReasonOf(err) != ReasonNoCertificate {
			t.Errorf("%s: no certificate: %v", name, err)
		}
	}
	if p.Server().ClientAuth != tls.RequireAnyClientCert {
		t.Error("the server does not demand a certificate")
	}
}
