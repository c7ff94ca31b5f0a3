package client

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/slimwire/swp/transport"
)

// ownError is a fault of this side's certificate that makes every peer refuse it.
type ownError struct {
	file string
	err  error
}

func (e *ownError) Error() string { return fmt.Sprintf("client: certificate %s: %v", e.file, e.err) }
func (e *ownError) Unwrap() error { return e.err }

// Digest returns the SHA-256 of the certificate that this side shows, which is its credential
// of type mtls.
func (id Identity) Digest() ([]byte, error) {
	pair, err := tls.LoadX509KeyPair(id.Cert, id.Key)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	sum := sha256.Sum256(pair.Certificate[0])
	return sum[:], nil
}

// fault returns an *ownError for a certificate that no peer would accept, nil for a good or
// unreadable one.
func (id Identity) fault(now time.Time) error {
	pair, err := tls.LoadX509KeyPair(id.Cert, id.Key)
	if err != nil {
		return nil //nolint:nilerr // reported when it is loaded for a handshake
	}
	chain := make([]*x509.Certificate, len(pair.Certificate))
	for i, der := range pair.Certificate {
		if chain[i], err = x509.ParseCertificate(der); err != nil {
			return &ownError{id.Cert, err}
		}
	}
	if err := transport.CheckShown(chain, x509.ExtKeyUsageClientAuth, now); err != nil {
		return &ownError{id.Cert, err}
	}
	return nil
}
