// Package devpki makes development identities: a private certification authority, and
// one certificate each for a server and a client, in a directory of the user. swpd init
// and swpd run make them, and swp-client finds them. swpd cert issues further
// certificates and renews them.
//
// The key of the authority is beside the certificates that it signed. This is
// convenient on one machine and wrong anywhere else.
package devpki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DefaultName is the default identity of the server.
const DefaultName = "spiffe://localhost/swpd"

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour

	// renewBefore is the remaining validity that a certificate needs for Ensure to
	// keep it.
	renewBefore = 30 * 24 * time.Hour
)

// Files are the paths of an identity: a certificate, its key, and the authority that
// issues the certificates of the other side.
type Files struct {
	Cert, Key, CA string
}

// Server returns the files of the server in dir.
func Server(dir string) Files { return files(dir, "server") }

// Client returns the files of the client in dir.
func Client(dir string) Files { return files(dir, "client") }

func files(dir, who string) Files {
	return Files{filepath.Join(dir, who+".crt"), filepath.Join(dir, who+".key"), filepath.Join(dir, "ca.crt")}
}

// Exist reports whether all three files exist.
func (f Files) Exist() bool {
	for _, name := range []string{f.Cert, f.Key, f.CA} {
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// Leaves returns the identities at a path: server and client in a directory, or the
// certificate in a file, with the key of the same name beside it.
func Leaves(path string) []Files {
	var list []Files
	for _, f := range []Files{Server(path), Client(path), files(filepath.Dir(path), strings.TrimSuffix(filepath.Base(path), ".crt"))} {
		if filepath.Base(f.Cert) != "ca.crt" && f.Exist() {
			list = append(list, f)
		}
	}
	return list
}

// Options configure Create. The zero value is usable.
type Options struct {
	// Name is the identity of the server, a URI, default DefaultName. The client has
	// the same trust domain and the path /swp-client.
	Name string

	// Hosts are DNS names and IP addresses that the server's certificate is valid
	// for, in addition to localhost and the loopback addresses.
	Hosts []string

	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// Create makes an authority and both identities in dir, which it creates for this user
// only. It overwrites nothing: if one of the files exists the error is fs.ErrExist.
func Create(dir string, opts Options) error {
	opts, err := opts.complete()
	if err == nil {
		err = (&Request{Hosts: opts.Hosts}).server(new(x509.Certificate)) // before there are files
	}
	if err != nil {
		return err
	}
	for _, name := range []string{"ca.crt", "ca.key", "server.crt", "server.key", "client.crt", "client.key"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, name), fs.ErrExist)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := newAuthority(opts)
	if err != nil {
		return err
	}
	if err := ca.write(files(dir, "ca")); err != nil {
		return err
	}
	return (&Authority{ca}).issueBoth(dir, opts)
}

// Ensure is Create if dir has no authority. Otherwise it issues the certificates that
// are missing or end within 30 days.
func Ensure(dir string, opts Options) error {
	ca, err := Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Create(dir, opts)
	}
	if err != nil {
		return err
	}
	if opts, err = opts.complete(); err != nil {
		return err
	}
	if opts.fresh(Server(dir)) && opts.fresh(Client(dir)) {
		return nil
	}
	return ca.issueBoth(dir, opts)
}

func (o Options) complete() (Options, error) {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	_, err := parseName(o.Name)
	return o, err
}

func (o *Options) fresh(f Files) bool {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	return err == nil && pair.Leaf.NotAfter.Sub(o.Now()) > renewBefore
}

// issueBoth makes the identities of server and client, and replaces existing ones.
func (a *Authority) issueBoth(dir string, o Options) error {
	server, err := a.issue(Request{Name: o.Name, Hosts: o.Hosts, Server: true, Now: o.Now})
	if err != nil {
		return err
	}
	if err := server.write(Server(dir)); err != nil {
		return err
	}
	u, err := parseName(o.Name)
	if err != nil {
		return err
	}
	client, err := a.issue(Request{Name: u.Scheme + "://" + u.Host + "/swp-client", Now: o.Now})
	if err != nil {
		return err
	}
	return client.write(Client(dir))
}
