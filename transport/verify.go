package transport

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Caps on what a peer may show, looked at before any signature is checked.
const (
	maxChain       = 5        // certificates
	maxChainBytes  = 32 << 10 // octets of the whole chain
	maxNames       = 64       // SANs of one certificate
	maxConstraints = 64       // name constraints of one certificate
	minRSA         = 2048     // bits
	maxRSA         = 4096     // bits
)

// verify is the whole of peer authentication except for the proof of the
// private key, which the handshake demands after it. With host empty the peer
// has dialled us.
func (p *Policy) verify(s tls.ConnectionState, usage x509.ExtKeyUsage, host string) error {
	if s.Version != tls.VersionTLS13 {
		return &RefusedError{Reason: ReasonDowngrade, Err: fmt.Errorf("transport: version %s, want TLS 1.3", tls.VersionName(s.Version))}
	}
	if s.NegotiatedProtocol != ALPN {
		return &RefusedError{Reason: ReasonDowngrade, Err: fmt.Errorf("transport: application protocol %q, want %q", s.NegotiatedProtocol, ALPN)}
	}
	if len(s.PeerCertificates) == 0 {
		return &RefusedError{Reason: ReasonNoCertificate, Err: errNoCertificate}
	}
	if err := checkCaps(s.PeerCertificates); err != nil {
		return &RefusedError{Reason: ReasonUntrusted, Err: err}
	}
	leaf := s.PeerCertificates[0]
	id, idErr := Identity(leaf)
	if err := p.verifyChain(s.PeerCertificates, usage, id); err != nil {
		return &RefusedError{Reason: ReasonUntrusted, Identity: id, Issuer: issuerOf(s.PeerCertificates), Err: err, Chain: s.PeerCertificates}
	}
	if idErr != nil {
		return &RefusedError{Reason: ReasonIdentity, Err: idErr}
	}
	if usage == x509.ExtKeyUsageServerAuth {
		if err := p.verifyName(leaf, id, host); err != nil {
			return &RefusedError{Reason: ReasonUntrusted, Identity: id, Err: err, Chain: s.PeerCertificates}
		}
	}
	return nil
}

// verifyChain finds a chain to the trust anchors in force now for the identity
// that the first certificate claims. The extended key
// usage of each certificate in it, where there is one, must include usage.
func (p *Policy) verifyChain(chain []*x509.Certificate, usage x509.ExtKeyUsage, identity string) error {
	roots, err := p.roots(identity)
	if err != nil {
		return err
	}
	return verifyAgainst(roots, p.Credentials().CRLs, chain, usage, p.now())
}

// VerifyClient verifies the chain, leaf first, of a TLS client that does not use SlimWire,
// as a Policy verifies peers that dial: the limits on size and number come before any
// signature. roots is required. Identity returns the identity of the leaf.
func VerifyClient(roots *x509.CertPool, crls []*CRL, chain []*x509.Certificate, now time.Time) error {
	return verifyCapped(roots, crls, chain, x509.ExtKeyUsageClientAuth, now)
}

// VerifySigner is VerifyClient for the chain behind a signature, which may come from either
// side of a connection. No revocation list applies, because a signature
// stays valid after a revocation.
func VerifySigner(roots *x509.CertPool, chain []*x509.Certificate, at time.Time) error {
	return verifyCapped(roots, nil, chain, x509.ExtKeyUsageAny, at)
}

func verifyCapped(roots *x509.CertPool, crls []*CRL, chain []*x509.Certificate, usage x509.ExtKeyUsage, now time.Time) error {
	switch {
	case len(chain) == 0:
		return errNoCertificate
	case roots == nil:
		return errNoRoots
	}
	if err := checkCaps(chain); err != nil {
		return err
	}
	return verifyAgainst(roots, crls, chain, usage, now)
}

func verifyAgainst(roots *x509.CertPool, crls []*CRL, chain []*x509.Certificate, usage x509.ExtKeyUsage, now time.Time) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	chains, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: between,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{usage},
	})
	switch unknown := (x509.UnknownAuthorityError{}); {
	case errors.As(err, &unknown):
		// Whose it is decides what to do: which authority is missing, or which peer is wrong. The
		// new error is without the library's guess about an authority of the same name, which
		// would push the rest out of a line of the log.
		return fmt.Errorf("transport: certificate of the peer, issued by %q: %w", issuerOf(chain), x509.UnknownAuthorityError{Cert: unknown.Cert})
	case err != nil:
		return fmt.Errorf("transport: certificate of the peer: %w", err)
	}
	return errRevoked(chains, crls)
}

func (p *Policy) verifyName(leaf *x509.Certificate, id, host string) error {
	if p.Expect != "" {
		if id != p.Expect {
			return fmt.Errorf("transport: the peer is %q, expected %q", id, p.Expect)
		}
		return nil
	}
	if host == "" {
		return errors.New("transport: neither a host nor an expected identity to verify the peer by")
	}
	if err := leaf.VerifyHostname(host); err != nil {
		return fmt.Errorf("transport: certificate of the peer: %w", err)
	}
	return nil
}

// Usable reports whether the extended key usage of a chain, leaf first, allows a use. A certificate
// without one allows every use.
func Usable(chain []*x509.Certificate, usage x509.ExtKeyUsage) bool {
	return !slices.ContainsFunc(chain, func(c *x509.Certificate) bool {
		return len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) > 0 && !slices.Contains(c.ExtKeyUsage, usage) && !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny)
	})
}

// issuerOf returns the name of the authority that a chain ends at.
func issuerOf(chain []*x509.Certificate) string {
	const longest = 256
	name := chain[len(chain)-1].Issuer.String()
	return strings.ToValidUTF8(name[:min(len(name), longest)], "")
}

func checkCaps(chain []*x509.Certificate) error {
	if len(chain) > maxChain {
		return fmt.Errorf("transport: %d certificates in the chain, at most %d", len(chain), maxChain)
	}
	size := 0
	for _, c := range chain {
		size += len(c.Raw)
	}
	if size > maxChainBytes {
		return fmt.Errorf("transport: certificate chain of %d octets, at most %d", size, maxChainBytes)
	}
	for _, c := range chain {
		if n := len(c.DNSNames) + len(c.URIs) + len(c.IPAddresses) + len(c.EmailAddresses); n > maxNames {
			return fmt.Errorf("transport: certificate with %d names, at most %d", n, maxNames)
		}
		n := len(c.PermittedDNSDomains) + len(c.ExcludedDNSDomains) + len(c.PermittedIPRanges) + len(c.ExcludedIPRanges) +
			len(c.PermittedEmailAddresses) + len(c.ExcludedEmailAddresses) + len(c.PermittedURIDomains) + len(c.ExcludedURIDomains)
		if n > maxConstraints {
			return fmt.Errorf("transport: certificate with %d name constraints, at most %d", n, maxConstraints)
		}
		if err := checkKey(c.PublicKey); err != nil {
			return err
		}
	}
	return nil
}

func checkKey(key any) error {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256(), elliptic.P384(), elliptic.P521():
			return nil
		}
		return fmt.Errorf("transport: certificate with a key on curve %s", k.Curve.Params().Name)
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n < minRSA || n > maxRSA {
			return fmt.Errorf("transport: certificate with an RSA key of %d bits, want %d to %d", n, minRSA, maxRSA)
		}
		return nil
	}
	return fmt.Errorf("transport: certificate with a key of type %T", key)
}
