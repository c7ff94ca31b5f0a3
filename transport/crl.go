package transport

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// CRL is a certificate revocation list (RFC 5280 §5) of an authority.
type CRL struct {
	authority  *x509.Certificate
	serials    map[string]time.Time // when each was revoked
	NextUpdate time.Time            // when the authority issues the next list at the latest; zero: it does not say
	ThisUpdate time.Time            // when the authority has issued the list
	Number     *big.Int             // nil: the list has none
	Raw        []byte               // the list, in DER
}

// Of returns a digest of the name and the key of the authority. Lists of one authority have the same.
func (c *CRL) Of() string {
	sum := sha256.Sum256(append(bytes.Clone(c.authority.RawSubject), c.authority.RawSubjectPublicKeyInfo...))
	return hex.EncodeToString(sum[:])
}

// Older reports whether the authority has issued the list before another one of its lists.
func (c *CRL) Older(than *CRL) bool {
	if c.Number != nil && than.Number != nil && c.Number.Cmp(than.Number) < 0 {
		return true
	}
	return c.ThisUpdate.Before(than.ThisUpdate)
}

// String names the list by its authority, number and time.
func (c *CRL) String() string {
	number := "without a number"
	if c.Number != nil {
		number = "number " + c.Number.String()
	}
	return fmt.Sprintf("revocation list of %.200q, %s, of %s", c.Authority(), number, c.ThisUpdate.UTC().Format(time.RFC3339))
}

// Authority is the name of the authority.
func (c *CRL) Authority() string { return c.authority.Subject.String() }

// ParseCRLs parses the lists in a file, PEM or DER. Each must be a complete list that one of
// authorities has signed.
func ParseCRLs(text []byte, authorities []*x509.Certificate) ([]*CRL, error) {
	var ders [][]byte
	if !bytes.Contains(text, []byte("-----BEGIN")) {
		ders = [][]byte{text}
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			return nil, fmt.Errorf("a %.64s among the revocation lists", block.Type)
		}
		ders = append(ders, block.Bytes)
	}
	var all []*CRL
	for _, der := range ders {
		c, err := parseCRL(der, authorities)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("no revocation list in it")
	}
	return all, nil
}

func parseCRL(der []byte, authorities []*x509.Certificate) (*CRL, error) {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return nil, fmt.Errorf("not a revocation list: %w", err)
	}
	for _, e := range list.Extensions {
		if e.Critical {
			return nil, fmt.Errorf("the revocation list of %.200q has the critical extension %v: only complete lists of all certificates of an authority can be used", list.Issuer, e.Id)
		}
	}
	for _, authority := range authorities {
		if !bytes.Equal(authority.RawSubject, list.RawIssuer) || list.CheckSignatureFrom(authority) != nil {
			continue
		}
		c := &CRL{authority: authority, serials: make(map[string]time.Time), NextUpdate: list.NextUpdate, ThisUpdate: list.ThisUpdate, Number: list.Number, Raw: der}
		for _, one := range list.RevokedCertificateEntries {
			c.serials[string(one.SerialNumber.Bytes())] = one.RevocationTime
		}
		return c, nil
	}
	return nil, fmt.Errorf("the revocation list is of %.200q, and no authority of that name here has signed it", list.Issuer)
}

// revokes returns when the list has revoked a certificate of an issuer.
func (c *CRL) revokes(cert, issuer *x509.Certificate) (at time.Time, revoked bool) {
	if !bytes.Equal(c.authority.RawSubject, issuer.RawSubject) || !bytes.Equal(c.authority.RawSubjectPublicKeyInfo, issuer.RawSubjectPublicKeyInfo) {
		return at, false
	}
	at, revoked = c.serials[string(cert.SerialNumber.Bytes())]
	return at, revoked
}

// errRevoked returns why none of the chains can be used, or nil.
func errRevoked(chains [][]*x509.Certificate, crls []*CRL) (err error) {
	for _, chain := range chains {
		if err = revokedIn(chain, crls); err == nil {
			return nil
		}
	}
	return err
}

// revokedIn returns an error for a chain, leaf first, with a revoked certificate.
func revokedIn(chain []*x509.Certificate, crls []*CRL) error {
	for i := range len(chain) - 1 {
		for _, c := range crls {
			if at, revoked := c.revokes(chain[i], chain[i+1]); revoked {
				return fmt.Errorf("transport: certificate of the peer: its authority %.200q has revoked the certificate of %.200q with the serial number %x at %s",
					c.Authority(), chain[i].Subject, chain[i].SerialNumber, at.UTC().Format(time.RFC3339))
			}
		}
	}
	return nil
}
