package transport

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"time"
)

// Credentials are the certificate of this side and its trust anchors. They must not change
// after a Policy has returned them.
type Credentials struct {
	Certificate *tls.Certificate // leaf first, with its private key
	Roots       *x509.CertPool   // trust anchors; there is no default

	// Bundles are the trust anchors of single identities, in place of Roots: a
	// peer that claims one of these identities is verified against its bundle
	// only, on accepted and dialled connections. A nil pool trusts no peer.
	Bundles map[string]*x509.CertPool

	// Domains are the trust anchors of SPIFFE trust domains, by name, in place of Roots: a
	// peer that claims an identity of such a domain is verified against its pool only, unless
	// Bundles has the identity. A nil pool trusts no peer.
	Domains map[string]*x509.CertPool

	// CRLs revoke certificates. Each applies to the certificates of its authority.
	CRLs []*CRL
}

// RootsOf returns the trust anchors for a peer that claims an identity. Nil trusts no peer.
func (c *Credentials) RootsOf(identity string) *x509.CertPool {
	if roots, own := c.Bundles[identity]; own {
		return roots
	}
	if roots, own := c.Domains[TrustDomain(identity)]; own {
		return roots
	}
	return c.Roots
}

// Policy authenticates peers: mutual TLS 1.3 with ALPN swp/1, no session tickets and no
// early data, for TLS over TCP and for QUIC. No field weakens this. Any number of listeners
// and diallers may use a Policy at once. It must not change while in use.
//
// Specification: SWP Core §13 (S1).
type Policy struct {
	// Credentials returns the present credentials. Many goroutines call it at once, in each
	// handshake, so a reload only has to change its result; the Load method of an
	// atomic.Pointer[Credentials] is sufficient. Required.
	Credentials func() *Credentials

	// Expect is the identity that a dialled peer must have. Empty means that
	// its certificate must be valid for the host that was dialled, a DNS name
	// or an IP address. It does not apply to accepted peers.
	Expect string

	// Now is the time that certificates are verified at. Nil means time.Now.
	Now func() time.Time
}

// Server returns the configuration of a side that accepts.
func (p *Policy) Server() *tls.Config {
	c := p.config()
	c.ClientAuth = tls.RequireAnyClientCert // verified below, caps first
	c.GetCertificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return p.present(h.Context()) }
	c.VerifyConnection = func(s tls.ConnectionState) error {
		return p.verify(s, x509.ExtKeyUsageClientAuth, "")
	}
	return c
}

// Client returns the configuration of a side that dials host, a DNS name or an
// IP address without port.
func (p *Policy) Client(host string) *tls.Config {
	c := p.config()
	c.ServerName = host
	// crypto/tls would build and verify chains before VerifyConnection can check their
	// size. So verify checks everything, including the name.
	c.InsecureSkipVerify = true
	c.GetClientCertificate = func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return p.present(r.Context())
	}
	c.VerifyConnection = func(s tls.ConnectionState) error {
		return p.verify(s, x509.ExtKeyUsageServerAuth, host)
	}
	return c
}

// Recheck verifies an accepted peer again, with its recorded connection state and the
// present credentials.
func (p *Policy) Recheck(s tls.ConnectionState) error {
	return p.verify(s, x509.ExtKeyUsageClientAuth, "")
}

// RecheckDialled is Recheck for a peer that was dialled as host.
func (p *Policy) RecheckDialled(s tls.ConnectionState, host string) error {
	return p.verify(s, x509.ExtKeyUsageServerAuth, host)
}

// Rechecker is a connection whose peer can be verified again after the
// credentials have changed.
type Rechecker interface {
	// Recheck returns why the present credentials would refuse the peer, or nil. Any
	// goroutine may call it.
	Recheck() error
}

func (p *Policy) config() *tls.Config {
	return &tls.Config{
		Time:                        p.now,
		MinVersion:                  tls.VersionTLS13,
		MaxVersion:                  tls.VersionTLS13,
		NextProtos:                  []string{ALPN},
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true, // writes are gathered already
	}
}

// Peer describes the other side of a finished handshake. The name of the
// transport is "tls" or "quic".
func (p *Policy) Peer(s tls.ConnectionState, transport, addr string) (*Peer, error) {
	if !s.HandshakeComplete || len(s.PeerCertificates) == 0 {
		return nil, &RefusedError{Reason: ReasonNoCertificate, Err: errNoCertificate}
	}
	leaf := s.PeerCertificates[0]
	id, err := Identity(leaf)
	if err != nil {
		return nil, &RefusedError{Reason: ReasonIdentity, Err: err}
	}
	sum := sha256.Sum256(leaf.Raw)
	return &Peer{
		Identity:    id,
		Transport:   transport,
		Addr:        addr,
		Issuer:      leaf.Issuer.String(),
		Subject:     leaf.Subject.String(),
		Fingerprint: hex.EncodeToString(sum[:]),
		NotBefore:   leaf.NotBefore,
		NotAfter:    leaf.NotAfter,
	}, nil
}

var (
	errNoCertificate = errors.New("transport: the peer showed no certificate")
	errNoOwn         = errors.New("transport: Policy.Credentials has no certificate")
	errNoRoots       = errors.New("transport: Policy.Credentials has no trust anchors")
)

func (p *Policy) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

func (p *Policy) certificate() (*tls.Certificate, error) {
	if c := p.Credentials(); c != nil && c.Certificate != nil {
		return c.Certificate, nil
	}
	return nil, errNoOwn
}

// roots returns the trust anchors for a peer that claims an identity. It never returns nil,
// because x509 would then use the system's pool.
func (p *Policy) roots(identity string) (*x509.CertPool, error) {
	if c := p.Credentials(); c != nil {
		if roots := c.RootsOf(identity); roots != nil {
			return roots, nil
		}
	}
	return nil, errNoRoots
}
