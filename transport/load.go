package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// LoadCredentials reads PEM files: a certificate with its intermediates, its key, and the
// certificates of the authorities that peers are verified with. At least one authority is
// required; there is no default. The permissions of the key file are not checked.
//
// To reload changed files, call it again and return the result from Policy.Credentials; the
// next handshake uses it.
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

// addAuthorities adds the certificates of a PEM bundle to a pool. A bundle without
// certificates, or with a malformed or another block, is an error.
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
