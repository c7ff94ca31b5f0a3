package devpki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/slimwire/swp/transport"
)

// Authority is an authority that Create has made, with its key.
type Authority struct{ identity *identity }

// Open reads the authority in dir. Without one the error is fs.ErrNotExist.
func Open(dir string) (*Authority, error) {
	f := files(dir, "ca")
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", f.Cert, f.Key, err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s is no authority made by swpd; remove it or set identity and trust", f.Cert)
	}
	return &Authority{&identity{pair.Leaf, key}}, nil
}

// Request is the content of a certificate.
type Request struct {
	// Name is the identity, a URI such as spiffe://example.org/agents/planner. Required.
	Name string

	// Server requests the certificate of an endpoint, which listens and dials. Without
	// it the certificate is for a client, which only dials.
	Server bool

	// Hosts are DNS names and IP addresses that the certificate of an endpoint is
	// valid for, in addition to localhost and the loopback addresses.
	Hosts []string

	// Life is how long the certificate is valid, default a year. It must end before
	// the authority.
	Life time.Duration

	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// Issue makes an identity in dir, with a copy of the authority: Server(dir) for an
// endpoint, Client(dir) for a client. It overwrites nothing: if one of the files
// exists the error is fs.ErrExist.
func (a *Authority) Issue(dir string, r Request) (Files, error) {
	f := Client(dir)
	if r.Server {
		f = Server(dir)
	}
	id, err := a.issue(r)
	if err != nil {
		return f, err
	}
	bundle, err := os.ReadFile(f.CA)
	known := err == nil && bytes.Contains(bundle, a.Bundle())
	if err == nil && !known {
		return f, fmt.Errorf("%s has another authority: %w", f.CA, fs.ErrExist)
	}
	if err := id.create(f); err != nil || known {
		return f, err
	}
	return f, replace(f.CA, "CERTIFICATE", a.identity.cert.Raw, 0o644)
}

// Bundle returns the certificate of the authority in PEM form.
func (a *Authority) Bundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.identity.cert.Raw})
}

// Renew issues the certificate in f again, with the same names and uses, and returns
// it. It is valid for life, or if life is 0 for as long as the old certificate. It keeps
// the key unless newKey is set, so that only one file changes.
func (a *Authority) Renew(f Files, newKey bool, life time.Duration, now time.Time) (*x509.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", f.Cert, f.Key, err)
	}
	old := pair.Leaf
	if err := a.issued(old, f.Cert); err != nil {
		return nil, err
	}
	if life == 0 {
		life = old.NotAfter.Sub(old.NotBefore) - backdated
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if newKey || !ok {
		key = nil
	}
	id, err := sign(&x509.Certificate{
		Subject: old.Subject, URIs: old.URIs, DNSNames: old.DNSNames, IPAddresses: old.IPAddresses,
		KeyUsage: old.KeyUsage, ExtKeyUsage: old.ExtKeyUsage,
	}, key, a.identity, now, life)
	if err != nil {
		return nil, err
	}
	if key == nil {
		return id.cert, id.write(f)
	}
	return id.cert, replace(f.Cert, "CERTIFICATE", id.cert.Raw, 0o644)
}

// Issued returns an error if the authority has not issued the certificate in f, or if
// the certificate does not match its key.
func (a *Authority) Issued(f Files) error {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", f.Cert, f.Key, err)
	}
	return a.issued(pair.Leaf, f.Cert)
}

func (a *Authority) issued(cert *x509.Certificate, file string) error {
	if err := cert.CheckSignatureFrom(a.identity.cert); err != nil {
		return fmt.Errorf("%s was issued by %q, not by this authority; renew it with its issuer", file, cert.Issuer)
	}
	return nil
}

func (a *Authority) issue(r Request) (*identity, error) {
	name, err := parseName(r.Name)
	if err != nil {
		return nil, err
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	if r.Life == 0 {
		r.Life = leafLife
	}
	if !r.Server && len(r.Hosts) > 0 {
		return nil, errors.New("hosts are for the certificate of an endpoint; a client has only a name")
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "swpd development client"},
		URIs:        []*url.URL{name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if r.Server {
		if err := r.server(template); err != nil {
			return nil, err
		}
	}
	return sign(template, nil, a.identity, r.Now(), r.Life)
}

// server completes the template of an endpoint, which listens and also dials its
// partners.
func (r *Request) server(template *x509.Certificate) error {
	template.Subject.CommonName = "swpd development server"
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, host := range r.Hosts {
		ip := net.ParseIP(host)
		switch {
		case host == "" || strings.ContainsAny(host, ":/ \t") && ip == nil:
			return fmt.Errorf("host %q, want a DNS name or an IP address without a port", host)
		case ip != nil:
			template.IPAddresses = append(template.IPAddresses, ip)
		default:
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return nil
}

// parseName returns an identity as the only URI of a certificate. It fails if peers
// would read another identity in that URI.
func parseName(name string) (*url.URL, error) {
	u, err := url.Parse(name)
	if err != nil || u.Scheme != "spiffe" || strings.Trim(u.Path, "/") == "" || strings.HasSuffix(u.Path, "/") || u.Port() != "" {
		return nil, fmt.Errorf("name %q, want spiffe://trust-domain/path", name)
	}
	switch id, err := transport.Identity(&x509.Certificate{URIs: []*url.URL{u}}); {
	case err != nil:
		return nil, fmt.Errorf("name %q, want spiffe://trust-domain/path: %w", name, err)
	case id != name:
		return nil, fmt.Errorf("peers read name %q as %q; want spiffe://trust-domain/path in that form", name, id)
	}
	return u, nil
}

func newAuthority(o Options) (*identity, error) {
	return sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "swpd development authority"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil, nil, o.Now(), caLife)
}

// backdated is how far in the past validity begins, for slow clocks.
const backdated = time.Hour

// sign completes and signs template, for key or for a new key if key is nil. Without a
// parent the certificate is self-signed.
func sign(template *x509.Certificate, key crypto.Signer, parent *identity, now time.Time, life time.Duration) (*identity, error) {
	if key == nil {
		made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		key = made
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = now.Add(-backdated), now.Add(life)
	signer := &identity{template, key}
	if parent != nil {
		signer = parent
		if end := parent.cert.NotAfter; template.NotAfter.After(end) {
			return nil, fmt.Errorf("valid until %s, but the authority ends at %s; want at most %d days",
				template.NotAfter.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339), int(end.Sub(now).Hours()/24))
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.cert, key.Public(), signer.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &identity{cert, key}, nil
}
