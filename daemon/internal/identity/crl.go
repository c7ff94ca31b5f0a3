package identity

import (
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/slimwire/swp/transport"
)

// Lists are revocation lists, with their files.
type Lists []listed

type listed struct {
	*transport.CRL
	file string
}

// ReadLists reads revocation lists of authorities. It also returns the content of the files,
// to detect changes. The error names the key of the configuration and the file.
func ReadLists(key string, files []string, authorities []Anchor) (all Lists, octets string, err error) {
	certs := make([]*x509.Certificate, len(authorities))
	for i, a := range authorities {
		certs[i] = a.cert
	}
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, "", fmt.Errorf("%s[%d]: %w", key, i, err)
		}
		crls, err := transport.ParseCRLs(text, certs)
		if err != nil {
			return nil, "", fmt.Errorf("%s[%d]: %s: %w", key, i, file, err)
		}
		for _, c := range crls {
			all = append(all, listed{c, file})
		}
		octets += string(text)
	}
	return all, octets, nil
}

// CRLs returns the lists without their files.
func (l Lists) CRLs() (all []*transport.CRL) {
	for _, one := range l {
		all = append(all, one.CRL)
	}
	return all
}

// Warnings returns a warning for each list that its authority should have replaced. It stays
// in force.
func (l Lists) Warnings(now time.Time) (list []string) {
	for _, one := range l {
		if !one.NextUpdate.IsZero() && now.After(one.NextUpdate) {
			list = append(list, fmt.Sprintf("the revocation list of %q in %s has expired at %s and stays in force; certificates that were revoked since are not known: get the next list of the authority",
				one.Authority(), one.file, one.NextUpdate.UTC().Format(time.RFC3339)))
		}
	}
	return list
}
