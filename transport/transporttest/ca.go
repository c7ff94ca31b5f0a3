// Package transporttest has what tests of connections need: certificates made
// on the spot, connected pairs over every transport, a peer that sends raw
// octets, and a proxy that damages records.
package transporttest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/slimwire/swp/transport"
)

// CA is a certificate authority, a root or an intermediate.
type CA struct {
	Cert *x509.Certificate
	key  crypto.Signer
	root *CA
	path [][]byte // what leaves have to show beside themselves
}

// NewCA makes a root.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{key: NewKey(t)}
	ca.root = ca
	ca.Cert = sign(t, authority("root"), nil, ca.key.Public(), ca.key)
	return ca
}

// Intermediate makes an authority below ca.
func (ca *CA) Intermediate(t testing.TB) *CA {
	t.Helper()
	sub := &CA{key: NewKey(t), root: ca.root}
	sub.Cert = sign(t, authority("intermediate"), ca.Cert, sub.key.Public(), ca.key)
	sub.path = append([][]byte{sub.Cert.Raw}, ca.path...)
	return sub
}

// Pool has the root of ca as its only trust anchor.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.root.Cert)
	return pool
}

// CRL makes a revocation list, in PEM, that ends after some time and has some certificates.
func (ca *CA) CRL(t testing.TB, life time.Duration, revoked ...*x509.Certificate) []byte {
	t.Helper()
	return ca.CRLAt(t, time.Now().UnixNano(), time.Now().Add(-time.Hour), time.Now().Add(life), revoked...)
}

// CRLAt is CRL with a number, the time at which the list is issued, and its end. Of lists that CRL makes,
// the later one has the higher number.
func (ca *CA) CRLAt(t testing.TB, number int64, at, end time.Time, revoked ...*x509.Certificate) []byte {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(number), ThisUpdate: at, NextUpdate: end}
	for _, cert := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: cert.SerialNumber, RevocationTime: list.ThisUpdate})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, ca.Cert, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

// Leaf describes a certificate. The zero value has no name at all and is valid
// for an hour around now, for clients and servers.
type Leaf struct {
	URIs      []string
	DNS       []string
	IPs       []string
	CN        string
	NotBefore time.Time
	NotAfter  time.Time
	EKU       []x509.ExtKeyUsage // nil means clients and servers
	Key       crypto.Signer      // nil means a new P-256 key
	Edit      func(*x509.Certificate)
}

// Named is a leaf with the given identity that is valid for this machine.
func Named(identity string) Leaf {
	return Leaf{URIs: []string{identity}, DNS: []string{"localhost"}, IPs: []string{"127.0.0.1", "::1"}}
}

// Issue makes a certificate, chain included. Its Leaf is nil if crypto/x509
// would not read it.
func (ca *CA) Issue(t testing.TB, l Leaf) *tls.Certificate {
	t.Helper()
	if l.Key == nil {
		l.Key = NewKey(t)
	}
	der, err := x509.CreateCertificate(rand.Reader, l.template(t), ca.Cert, l.Key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		leaf = nil
	}
	return &tls.Certificate{
		Certificate: append([][]byte{der}, ca.path...),
		PrivateKey:  l.Key,
		Leaf:        leaf,
	}
}

// Policy shows a certificate of the given identity and trusts the root of ca.
func (ca *CA) Policy(t testing.TB, identity string) *transport.Policy {
	t.Helper()
	return ca.PolicyWith(t, Named(identity))
}

// PolicyWith shows the certificate described and trusts the root of ca.
func (ca *CA) PolicyWith(t testing.TB, l Leaf) *transport.Policy {
	t.Helper()
	return PolicyOf(ca.Issue(t, l), ca.Pool())
}

// PolicyOf shows cert and trusts roots.
func PolicyOf(cert *tls.Certificate, roots *x509.CertPool) *transport.Policy {
	c := &transport.Credentials{Certificate: cert, Roots: roots}
	return &transport.Policy{Credentials: func() *transport.Credentials { return c }}
}

// NewKey makes a P-256 key.
func NewKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (l Leaf) template(t testing.TB) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: serial(t),
		Subject:      pkix.Name{CommonName: l.CN, Organization: []string{"SlimWire test"}},
		NotBefore:    l.NotBefore,
		NotAfter:     l.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  l.EKU,
		DNSNames:     l.DNS,
	}
	if c.NotBefore.IsZero() {
		c.NotBefore = time.Now().Add(-time.Hour)
	}
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	if c.ExtKeyUsage == nil {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	}
	for _, s := range l.URIs {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		c.URIs = append(c.URIs, u)
	}
	for _, s := range l.IPs {
		c.IPAddresses = append(c.IPAddresses, net.ParseIP(s))
	}
	if l.Edit != nil {
		l.Edit(c)
	}
	return c
}

func authority(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: name, Organization: []string{"SlimWire test"}},
		NotBefore:             time.Now().Add(-24 * time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
}

// sign makes a certificate; without a parent it signs itself.
func sign(t testing.TB, template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	t.Helper()
	if template.SerialNumber == nil {
		template.SerialNumber = serial(t)
	}
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
