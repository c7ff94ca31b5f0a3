// Package devpki makes development identities: a certification authority of
// one's own and a certificate each for a server and a client, in a directory
// that belongs to the user. swpd init and swpd run make them, swp-client finds
// them.
//
// The key of the authority lies beside the certificates it signed. That is
// convenient on one machine and wrong anywhere else.
package devpki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DefaultName is the identity of the server where no other is asked for.
const DefaultName = "spiffe://localhost/swpd"

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour

	// renewBefore is how much life a certificate must have left for Ensure to
	// keep it.
	renewBefore = 30 * 24 * time.Hour
)

// Files are the paths of an identity: a certificate, its key, and the authority
// that vouches for the other side.
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

// Exist reports whether all three files are there.
func (f Files) Exist() bool {
	for _, name := range []string{f.Cert, f.Key, f.CA} {
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// Options configure Create. The zero value is usable.
type Options struct {
	// Name is the URI by which the server is known, default DefaultName. The
	// client has the same trust domain and the path /swp-client.
	Name string

	// Hosts are DNS names and IP addresses that the server's certificate is
	// valid for, beside localhost and the loopback addresses.
	Hosts []string

	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// Create makes an authority and both identities in dir, which it creates for
// this user only. It overwrites nothing: where one of the files exists the error
// is fs.ErrExist.
func Create(dir string, opts Options) error {
	opts, err := opts.complete()
	if err != nil {
		return err
	}
	for _, name := range []string{"ca.crt", "ca.key", "server.crt", "server.key", "client.crt", "client.key"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("devpki: %s: %w", filepath.Join(dir, name), fs.ErrExist)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("devpki: %w", err)
	}
	ca, err := newAuthority(opts)
	if err != nil {
		return err
	}
	if err := ca.write(dir, "ca"); err != nil {
		return err
	}
	return ca.issueBoth(dir, opts)
}

// Ensure is Create where dir has no authority; otherwise it issues the leaves
// that are missing or end within 30 days anew.
func Ensure(dir string, opts Options) error {
	ca, err := readAuthority(dir)
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
	u, err := url.Parse(o.Name)
	if err != nil || u.Scheme != "spiffe" || u.Host == "" || strings.Trim(u.Path, "/") == "" || u.Port() != "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" || o.Name != u.String() || strings.HasSuffix(u.Path, "/") {
		return o, fmt.Errorf("devpki: name %q, want spiffe://trust-domain/path", o.Name)
	}
	return o, nil
}

func (o *Options) fresh(f Files) bool {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	return err == nil && pair.Leaf.NotAfter.Sub(o.Now()) > renewBefore
}

// identity is a certificate with its key.
type identity struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(o Options) (*identity, error) {
	return issue(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "swpd development authority"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign,
	}, nil, o.Now(), caLife)
}

func readAuthority(dir string) (*identity, error) {
	f := files(dir, "ca")
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("devpki: %w", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("devpki: %s is no authority made by swpd; remove it or set identity and trust", f.Cert)
	}
	return &identity{pair.Leaf, key}, nil
}

func (id *identity) issueBoth(dir string, o Options) error {
	server, err := url.Parse(o.Name)
	if err != nil {
		return fmt.Errorf("devpki: %w", err)
	}
	client := &url.URL{Scheme: server.Scheme, Host: server.Host, Path: "/swp-client"}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "swpd development server"},
		URIs:        []*url.URL{server},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		// A partner dials as well as it listens.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range o.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	leaf, err := issue(template, id, o.Now(), leafLife)
	if err != nil {
		return err
	}
	if err := leaf.write(dir, "server"); err != nil {
		return err
	}
	leaf, err = issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "swpd development client"},
		URIs:        []*url.URL{client},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, id, o.Now(), leafLife)
	if err != nil {
		return err
	}
	return leaf.write(dir, "client")
}

// issue completes and signs template; without a parent it signs itself.
func issue(template *x509.Certificate, parent *identity, now time.Time, life time.Duration) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("devpki: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, fmt.Errorf("devpki: %w", err)
	}
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(life)
	signer := &identity{template, key}
	if parent != nil {
		signer = parent
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.cert, key.Public(), signer.key)
	if err != nil {
		return nil, fmt.Errorf("devpki: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("devpki: %w", err)
	}
	return &identity{cert, key}, nil
}

// write puts key and certificate into place, the key first and readable by this
// user only. A reader never sees half a file.
func (id *identity) write(dir, who string) error {
	der, err := x509.MarshalPKCS8PrivateKey(id.key)
	if err != nil {
		return fmt.Errorf("devpki: %w", err)
	}
	f := files(dir, who)
	if err := replace(f.Key, "PRIVATE KEY", der, 0o600); err != nil {
		return err
	}
	return replace(f.Cert, "CERTIFICATE", id.cert.Raw, 0o644)
}

func replace(name, kind string, der []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("devpki: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already if all went well
	err = errors.Join(pem.Encode(tmp, &pem.Block{Type: kind, Bytes: der}), tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("devpki: %w", err)
	}
	return nil
}
