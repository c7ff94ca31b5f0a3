package devpki

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// identity is a certificate with its key.
type identity struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// write writes key and certificate, the key first and readable by this user only. A
// reader never sees an incomplete file.
func (id *identity) write(f Files) error {
	der, err := x509.MarshalPKCS8PrivateKey(id.key)
	if err != nil {
		return err
	}
	if err := replace(f.Key, "PRIVATE KEY", der, 0o600); err != nil {
		return err
	}
	return replace(f.Cert, "CERTIFICATE", id.cert.Raw, 0o644)
}

// create is write for files that do not exist.
func (id *identity) create(f Files) error {
	for _, name := range []string{f.Cert, f.Key} {
		if _, err := os.Lstat(name); err == nil {
			return fmt.Errorf("%s: %w", name, fs.ErrExist)
		}
	}
	if err := os.MkdirAll(filepath.Dir(f.Cert), 0o700); err != nil {
		return err
	}
	return id.write(f)
}

func replace(name, kind string, der []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // fails after the rename
	err = errors.Join(pem.Encode(tmp, &pem.Block{Type: kind, Bytes: der}), tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		return err
	}
	return nil
}
