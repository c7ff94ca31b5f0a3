package devpki

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slimwire/swp/internal/disk"
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

// replace writes a PEM file. A file that was there keeps its mode, owner and group, so that
// those who could read it still can.
func replace(name, kind string, der []byte, mode fs.FileMode) error {
	prepare := func(made *os.File) error { return made.Chmod(mode) }
	if before, err := os.Stat(name); err == nil {
		prepare = disk.Like(before)
	}
	return disk.Replace(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), prepare)
}
