package conformance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"
)

// authority signs the certificates of one play. They are made on the spot and
// live for an hour.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate("conformance authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageCertSign, nil
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key}, err
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue signs a leaf that is good for this machine under an identity, once edit
// has had its way with it.
func (a *authority) issue(identity string, edit func(*x509.Certificate)) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(identity)
	if err != nil {
		return nil, err
	}
	leaf := certificate("conformance")
	leaf.URIs, leaf.IPAddresses = []*url.URL{u}, []net.IP{net.IPv4(127, 0, 0, 1)}
	if edit != nil {
		edit(leaf)
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func certificate(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
}

// peerCertificate makes what the other side of a channel shows: a kind of
// vectors.Channel.PeerCertificate. It is nil for none.
func (a *authority) peerCertificate(kind string, peerDials bool) (*tls.Certificate, error) {
	const identity = "spiffe://peer.invalid/a"
	switch kind {
	case "", "valid":
		return a.issue(identity, nil)
	case "none":
		return nil, nil
	case "untrusted":
		other, err := newAuthority()
		if err != nil {
			return nil, err
		}
		return other.issue(identity, nil)
	case "expired":
		return a.issue(identity, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	case "wrong_name":
		return a.issue(identity, func(c *x509.Certificate) {
			c.IPAddresses = nil
			if peerDials {
				c.URIs = nil // nothing left but the common name, which counts for nothing
			} else {
				c.DNSNames = []string{"elsewhere.invalid"}
			}
		})
	}
	return nil, fmt.Errorf("peer_certificate is %q", kind)
}
