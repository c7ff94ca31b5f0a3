package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// LoadCredentials reads a certificate with its intermediates, its key, and the
// certificates of the authorities that vouch for peers, all of them PEM files. At least
// one authority is needed: there is no default. The permissions of the key file are not
// checked.
//
// A program whose files change calls it again and has Policy.Credentials return the
// new ones, which hold for the next handshake.
func LoadCredentials(cert, key string, authorities ...string) (*Credentials, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("transport: certificate %s and key %s: %w", cert, key, err)
	}
	roots := x509.NewCertPool()
	for _, name := range authorities {
		bundle, err := os.ReadFile(name)
		if err == nil {
			err = addAuthorities(roots, bundle)
		}
		if err != nil {
			return nil, fmt.Errorf("transport: authorities of peers: %s: %w", name, err)
		}
	}
	if len(authorities) == 0 {
		return nil, errors.New("transport: authorities of peers: none; nobody could be trusted")
	}
	return &Credentials{Certificate: &pair, Roots: roots}, nil
}

// addAuthorities adds the certificates of a PEM bundle to a pool. A bundle that holds
// none, one that cannot be read, or anything else, is an error.
func addAuthorities(pool *x509.CertPool, bundle []byte) error {
	n := 0
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("holds a %.64q, want certificates only", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("certificate %d: %w", n+1, err)
		}
		pool.AddCert(cert)
		n++
	}
	if n == 0 {
		return errors.New("holds no certificate in PEM form")
	}
	return nil
}
