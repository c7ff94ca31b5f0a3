package certinfo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/slimwire/swp/transport"
)

// Files are the paths of a certificate, its key and its authorities. Without Key or CA
// that check is left out.
type Files struct {
	Cert, Key, CA string
}

// Beside returns the files of a certificate as swpd init names them: NAME.key and
// ca.crt in the directory of the certificate, if they exist. The certificate ca.crt
// has no CA.
func Beside(cert string) Files {
	f := Files{Cert: cert}
	ca := filepath.Join(filepath.Dir(cert), "ca.crt")
	if key := strings.TrimSuffix(cert, filepath.Ext(cert)) + ".key"; key != cert && exists(key) {
		f.Key = key
	}
	if filepath.Clean(cert) != ca && exists(ca) {
		f.CA = ca
	}
	return f
}

func exists(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}

// In returns the certificates of a directory: its files NAME.crt and NAME.pem that
// hold a certificate.
func In(dir string) ([]Files, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []Files
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if ext := filepath.Ext(name); ext != ".crt" && ext != ".pem" || !exists(name) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(text), "BEGIN CERTIFICATE") {
			list = append(list, Beside(name))
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s holds no certificate in a file .crt or .pem", dir)
	}
	return list, nil
}

// Read describes each certificate in a file. The key and the authorities are compared with
// the first one, of which the others may be the intermediates, unless it is an authority.
func Read(f Files, now time.Time) ([]Info, error) {
	text, err := os.ReadFile(f.Cert)
	if err != nil {
		return nil, err
	}
	chain, err := transport.ParseAuthorities(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Cert, err)
	}
	list := make([]Info, 0, len(chain))
	for n, cert := range chain {
		i := Of(cert, now)
		i.File = f.Cert
		if len(chain) > 1 {
			i.Number = n + 1
		}
		list = append(list, i)
	}
	if chain[0].IsCA {
		return list, nil
	}
	i := &list[0]
	if f.Key != "" {
		key, err := os.ReadFile(f.Key)
		if err != nil {
			return nil, err
		}
		i.Fits(text, key, f.Key)
	}
	if f.CA != "" {
		bundle, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, err
		}
		vouching, err := transport.ParseAuthorities(bundle)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.CA, err)
		}
		i.HeldAgainst(vouching, chain, f.CA, now)
	}
	return list, nil
}
