// Package cert makes the certificates of one run and reads them back.
//
// Every system of the comparison gets the same ones: an ECDSA P-256 authority,
// a server and a client, and the same policy: mutual TLS 1.3 without session
// tickets. A third leaf is for a second swpd, the partner of the server. All leaves
// carry a URI name, which is their SWP identity, and the names that a dialler on this
// machine verifies.
package cert

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
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// The SWP identities of the leaves.
const (
	ServerIdentity  = "spiffe://bench.example/server"
	ClientIdentity  = "spiffe://bench.example/client"
	PartnerIdentity = "spiffe://bench.example/partner"
)

// Files names the files of one side, as a configuration wants them.
type Files struct {
	CA, Cert, Key string
}

// Server returns the files of the server in a directory filled by Make.
func Server(dir string) Files { return files(dir, "server") }

// Client returns the files of the client in a directory filled by Make.
func Client(dir string) Files { return files(dir, "client") }

// Partner returns the files of the second server in a directory filled by Make.
func Partner(dir string) Files { return files(dir, "partner") }

func files(dir, name string) Files {
	return Files{
		CA:   filepath.Join(dir, "ca.pem"),
		Cert: filepath.Join(dir, name+".pem"),
		Key:  filepath.Join(dir, name+".key"),
	}
}

// ServerTLS returns the configuration of a server that demands a certificate of
// the client and offers the protocols given by ALPN, if any.
func (f Files) ServerTLS(alpn ...string) (*tls.Config, error) {
	pair, pool, err := f.load()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{pair},
		ClientCAs:              pool,
		ClientAuth:             tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true,
		NextProtos:             alpn,
	}, nil
}

// ClientTLS returns the configuration of a client that shows its certificate
// and verifies the server's.
func (f Files) ClientTLS(alpn ...string) (*tls.Config, error) {
	pair, pool, err := f.load()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{pair},
		RootCAs:      pool,
		ServerName:   "127.0.0.1",
		NextProtos:   alpn,
	}, nil
}

// load returns the leaf with its key and the authority.
func (f Files) load() (tls.Certificate, *x509.CertPool, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("cert: %w", err)
	}
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("cert: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return tls.Certificate{}, nil, errors.New("cert: no authority in " + f.CA)
	}
	return pair, pool, nil
}

// Make writes an authority, a server, a client and a second server into dir. They are
// valid for a day.
func Make(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := template(1, "bench authority")
	ca.IsCA = true
	ca.BasicConstraintsValid = true
	ca.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, "ca.pem"), "CERTIFICATE", der); err != nil {
		return err
	}
	if err := makeLeaf(Server(dir), 2, ServerIdentity, ca, key); err != nil {
		return err
	}
	if err := makeLeaf(Client(dir), 3, ClientIdentity, ca, key); err != nil {
		return err
	}
	return makeLeaf(Partner(dir), 4, PartnerIdentity, ca, key)
}

func makeLeaf(to Files, serial int64, identity string, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	uri, err := url.Parse(identity)
	if err != nil {
		return err
	}
	t := template(serial, identity)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	t.URIs = []*url.URL{uri}
	t.DNSNames = []string{"localhost"}
	t.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	der, err := x509.CreateCertificate(rand.Reader, t, ca, key.Public(), caKey)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		writePEM(to.Cert, "CERTIFICATE", der),
		writePEM(to.Key, "PRIVATE KEY", pkcs8))
}

func template(serial int64, name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(24 * time.Hour),
	}
}

func writePEM(path, typ string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}), 0o600)
}
