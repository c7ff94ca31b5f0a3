// Package certinfo describes certificates: the identity that peers read in them, their
// validity, and whether they match a key and an authority.
package certinfo

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/slimwire/swp/transport"
)

// Info describes a certificate and its first problem.
type Info struct {
	File        string    `json:"file,omitempty"`   // from which it was read
	Number      int       `json:"number,omitempty"` // from 1, in a file with several
	Identity    string    `json:"identity,omitempty"`
	Authority   bool      `json:"authority"` // it issues certificates and is not an identity
	URIs        []string  `json:"uris,omitempty"`
	DNS         []string  `json:"dns,omitempty"`
	IPs         []string  `json:"ips,omitempty"`
	Subject     string    `json:"subject"`
	Issuer      string    `json:"issuer"`
	Serial      string    `json:"serial"`
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after"`
	Usage       []string  `json:"usage"` // server, client; empty for an authority
	Fingerprint string    `json:"sha256"`

	Key     string `json:"key,omitempty"`     // file with the key of the certificate
	Vouched string `json:"vouched,omitempty"` // file with the authority that verifies it
	Problem string `json:"problem,omitempty"` // why peers refuse it, or why the key or the authority does not match
}

// Of describes a certificate at a time.
func Of(cert *x509.Certificate, now time.Time) Info {
	sum := sha256.Sum256(cert.Raw)
	i := Info{
		Authority: cert.IsCA, DNS: cert.DNSNames, Usage: usage(cert),
		Subject: cert.Subject.String(), Issuer: cert.Issuer.String(), Serial: cert.SerialNumber.Text(16),
		NotBefore: cert.NotBefore.UTC(), NotAfter: cert.NotAfter.UTC(), Fingerprint: hex.EncodeToString(sum[:]),
	}
	for _, u := range cert.URIs {
		i.URIs = append(i.URIs, u.String())
	}
	for _, ip := range cert.IPAddresses {
		i.IPs = append(i.IPs, ip.String())
	}
	if !cert.IsCA {
		id, err := transport.Identity(cert)
		i.Identity = id
		i.wrong(err)
	}
	switch {
	case now.After(cert.NotAfter):
		i.wrong(fmt.Errorf("ended at %s", i.NotAfter.Format(time.RFC3339)))
	case now.Before(cert.NotBefore):
		i.wrong(fmt.Errorf("begins at %s, and now is %s", i.NotBefore.Format(time.RFC3339), now.UTC().Format(time.RFC3339)))
	}
	return i
}

// wrong records the first problem.
func (i *Info) wrong(err error) {
	if err != nil && i.Problem == "" {
		i.Problem = err.Error()
	}
}

func usage(cert *x509.Certificate) []string {
	list := []string{}
	for _, u := range cert.ExtKeyUsage {
		switch u {
		case x509.ExtKeyUsageServerAuth:
			list = append(list, "server")
		case x509.ExtKeyUsageClientAuth:
			list = append(list, "client")
		case x509.ExtKeyUsageAny:
			list = append(list, "server", "client")
		}
	}
	if len(cert.ExtKeyUsage) == 0 && !cert.IsCA {
		list = append(list, "server", "client") // not restricted
	}
	return list
}

// Fits checks whether a certificate in PEM form matches a key.
func (i *Info) Fits(cert, key []byte, keyFile string) {
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		i.wrong(fmt.Errorf("the key in %s is not its own", keyFile))
		return
	}
	i.Key = keyFile
}

// HeldAgainst checks whether the authorities of a file verify a chain.
func (i *Info) HeldAgainst(authorities, chain []*x509.Certificate, file string, now time.Time) {
	err := Vouches(authorities, chain, now)
	switch unknown := new(x509.UnknownAuthorityError); {
	case errors.As(err, unknown):
		i.wrong(fmt.Errorf("no authority in %s vouches for it", file))
	case err != nil:
		i.wrong(err)
	default:
		i.Vouched = file
	}
}

// Vouches returns nil if the authorities verify a chain, for any use.
func Vouches(authorities, chain []*x509.Certificate, now time.Time) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, a := range authorities {
		roots.AddCert(a)
	}
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}
