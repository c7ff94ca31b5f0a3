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
		if err != nil {
			return nil, fmt.Errorf("transport: authorities of peers: %s: %w", name, err)
		}
		certs, err := ParseAuthorities(bundle)
		if err != nil {
			return nil, fmt.Errorf("transport: authorities of peers: %s: %w", name, err)
		}
		for _, cert := range certs {
			roots.AddCert(cert)
		}
	}
	if len(authorities) == 0 {
		return nil, errors.New("transport: authorities of peers: none; nobody could be trusted")
	}
	return &Credentials{Certificate: &pair, Roots: roots}, nil
}

// ParseAuthorities returns the certificates of a PEM bundle. It skips text between them. It
// fails if the bundle has no certificate, one that cannot be read, or another block.
func ParseAuthorities(bundle []byte) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("holds a %.64q, want certificates only", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(list)+1, err)
		}
		list = append(list, cert)
	}
	if len(list) == 0 {
		return nil, errors.New("holds no certificate in PEM form")
	}
	return list, nil
}
