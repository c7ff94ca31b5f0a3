// Package bundle keeps the trust bundles of SPIFFE trust domains: it fetches them from bundle
// endpoints, and keeps the last ones in files.
//
// Specification: SPIFFE Federation; SPIFFE Trust Domain and Bundle.
package bundle

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/slimwire/swp/internal/disk"
)

const (
	maxDocument    = 1 << 20 // octets of a bundle
	maxAuthorities = 64      // X.509 authorities of a bundle

	minRefresh     = time.Minute
	defaultRefresh = 5 * time.Minute // of a bundle without a hint, as the specification recommends
	maxRefresh     = 24 * time.Hour
)

// Bundle is a trust bundle of a trust domain. It must not be changed.
type Bundle struct {
	Authorities []*x509.Certificate // at least one
	Sequence    uint64              // 0: the bundle does not say
	Refresh     time.Duration       // how often to fetch it, within the bounds of this package
	Fetched     time.Time

	document json.RawMessage
}

// parse reads a bundle of a trust domain. Without an X.509 authority it is an error, because
// nobody of the domain could be verified.
func parse(domain string, document []byte, fetched time.Time) (*Bundle, error) {
	td, err := spiffeid.TrustDomainFromString(domain)
	if err != nil {
		return nil, err
	}
	read, err := spiffebundle.Parse(td, document)
	if err != nil {
		return nil, fmt.Errorf("not a SPIFFE bundle: %w", err)
	}
	b := &Bundle{Authorities: read.X509Authorities(), Refresh: defaultRefresh, Fetched: fetched, document: document}
	b.Sequence, _ = read.SequenceNumber()
	if hint, ok := read.RefreshHint(); ok && hint > 0 {
		b.Refresh = min(max(hint, minRefresh), maxRefresh)
	}
	switch n := len(b.Authorities); {
	case n == 0:
		return nil, errors.New("the bundle has no key for x509-svid, so it would trust nobody")
	case n > maxAuthorities:
		return nil, fmt.Errorf("the bundle has %d X.509 authorities, at most %d", n, maxAuthorities)
	}
	for _, cert := range b.Authorities {
		if !cert.IsCA {
			return nil, fmt.Errorf("the certificate of %.200q in the bundle is not that of an authority", cert.Subject)
		}
		for _, u := range cert.URIs {
			if u.Scheme == "spiffe" && !strings.EqualFold(u.Host, domain) {
				return nil, fmt.Errorf("the bundle has an authority of the trust domain %.200q, want %s", u.Host, domain)
			}
		}
	}
	return b, nil
}

// same reports whether two bundles have the same authorities.
func (b *Bundle) same(other *Bundle) bool {
	return other != nil && slices.EqualFunc(b.Authorities, other.Authorities, (*x509.Certificate).Equal)
}

// kept is the content of a file.
type kept struct {
	Domain  string          `json:"trust_domain"`
	URL     string          `json:"url"`
	Fetched time.Time       `json:"fetched"`
	Bundle  json.RawMessage `json:"bundle"`
}

// load reads the kept bundle of a source; nil without a file for this domain and URL.
func (o *Options) load() (*Bundle, error) {
	info, err := os.Stat(o.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // as documented
	}
	if err == nil && info.Size() > 2*maxDocument {
		err = fmt.Errorf("%s has %d octets", o.File, info.Size())
	}
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(o.File)
	if err != nil {
		return nil, err
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, fmt.Errorf("%s: %w", o.File, err)
	}
	if k.Domain != o.Domain || k.URL != o.URL {
		return nil, nil //nolint:nilnil // as documented
	}
	b, err := parse(k.Domain, k.Bundle, k.Fetched)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.File, err)
	}
	return b, nil
}

// keep replaces the kept bundle in one step.
func (o *Options) keep(b *Bundle) error {
	text, err := json.Marshal(kept{o.Domain, o.URL, b.Fetched.UTC(), b.document})
	if err != nil {
		return err
	}
	return disk.Keep(o.File, append(text, '\n'))
}
