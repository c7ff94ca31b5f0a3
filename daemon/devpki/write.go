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
	"syscall"
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
	before, err := os.Stat(name)
	if err == nil {
		mode = before.Mode().Perm()
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // fails after the rename
	err = pem.Encode(tmp, &pem.Block{Type: kind, Bytes: der})
	if before != nil {
		err = errors.Join(err, keepOwner(tmp, before))
	}
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}

// keepOwner gives a file the owner and the group of another one.
func keepOwner(f *os.File, of fs.FileInfo) error {
	was, ok := of.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if is, ok := info.Sys().(*syscall.Stat_t); ok && is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	return f.Chown(int(was.Uid), int(was.Gid))
}
