package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/slimwire/swp/transport"
)

// ownError is a fault of this side's certificate for which any peer refuses it,
// regardless of its authorities.
type ownError struct {
	file string
	err  error
}

func (e *ownError) Error() string { return fmt.Sprintf("client: certificate %s: %v", e.file, e.err) }
func (e *ownError) Unwrap() error { return e.err }

// fault returns an *ownError for a certificate that no peer would accept, nil for one
// that is good or cannot be read.
func (id Identity) fault(now time.Time) error {
	pair, err := tls.LoadX509KeyPair(id.Cert, id.Key)
	if err != nil {
		return nil //nolint:nilerr // said where it is loaded to be shown
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
