package bundle

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/internal/spiffe"
)

// Options describe a bundle endpoint.
type Options struct {
	Domain string // the trust domain whose bundle it serves
	URL    string // as for spiffe.CheckEndpoint

	// Roots verify an endpoint of the profile https_web. Nil means the roots of the system.
	Roots *x509.CertPool

	// EndpointID is the SPIFFE ID of an endpoint of the profile https_spiffe, in Domain. Empty
	// means https_web.
	EndpointID string

	// Bootstrap are the authorities that verify an endpoint of https_spiffe until a bundle was
	// fetched.
	Bootstrap []*x509.Certificate

	// File keeps the last bundle. Its directory is made if necessary.
	File string

	// Done is called after each attempt, with its error. It must not block. May be nil.
	Done func(err error)
}

const (
	fetchFor     = 30 * time.Second // for one attempt, with redirects
	maxHead      = 64 << 10         // octets of the head of a response
	maxRedirects = 3
	pokeGap      = 2 * time.Second // between attempts on request
)

// firstPauses are the pauses after failures while there is no bundle; they end at the refresh interval.
var firstPauses = backoff.Exponential{First: 5 * time.Second, Longest: defaultRefresh}

// Source keeps the bundle of one endpoint.
type Source struct {
	o    Options
	get  func(context.Context) ([]byte, error)
	poke chan struct{}

	mu    sync.Mutex
	state State
}

// State is the state of a Source.
type State struct {
	Bundle  *Bundle // in force; nil: none was fetched, and none was kept
	Version uint64  // counts changes of the authorities since New
	Failure error   // of the last attempt, or of keeping its bundle; nil: it has succeeded
}

// New reads the kept bundle. It fetches nothing. If the kept bundle cannot be read, State says so,
// and has no bundle.
func New(o Options) *Source {
	s := &Source{o: o, poke: make(chan struct{}, 1)}
	s.get = s.fetch
	s.state.Bundle, s.state.Failure = o.load()
	return s
}

// State returns the present state.
func (s *Source) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Refresh makes Run fetch the bundle soon. It does not wait.
func (s *Source) Refresh() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// Forget removes the kept bundle. Call it after Run has returned.
func (s *Source) Forget() error {
	if err := os.Remove(s.o.File); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Run fetches the bundle at once, and then as often as the bundle says, until ctx ends.
func (s *Source) Run(ctx context.Context) {
	for failures := 0; ; {
		err := s.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.o.Done != nil {
			s.o.Done(err)
		}
		if failures++; err == nil {
			failures = 0
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.pause(failures)):
		case <-s.poke:
			if backoff.Wait(ctx, pokeGap) != nil {
				return
			}
		}
	}
}

// pause returns the time until the next attempt, after some failures in a row. With a bundle it
// is the refresh interval also after a failure (SPIFFE Federation, 6.2).
func (s *Source) pause(failures int) time.Duration {
	const spread = 0.1 // so that many endpoints do not ask at the same time
	if b := s.State().Bundle; b != nil {
		return backoff.Extend(b.Refresh, spread)
	}
	return backoff.Extend(firstPauses.After(failures-1), spread)
}

// attempt fetches the bundle once.
func (s *Source) attempt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fetchFor)
	defer cancel()
	document, err := s.get(ctx)
	var b *Bundle
	if err == nil {
		b, err = parse(s.o.Domain, document, time.Now())
	}
	if err == nil {
		err = s.older(b)
	}
	if err == nil {
		if err = s.o.keep(b); err != nil {
			err = fmt.Errorf("the bundle is in force, but not kept for the next start: %w", err)
		}
	} else {
		b = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Failure = err
	if b != nil {
		if !b.same(s.state.Bundle) {
			s.state.Version++
		}
		s.state.Bundle = b
	}
	return err
}

// older refuses a bundle that is older than the one in force, unless the file of that was removed.
func (s *Source) older(b *Bundle) error {
	last := s.State().Bundle
	if last == nil || b.Sequence == 0 || b.Sequence >= last.Sequence {
		return nil
	}
	if _, err := os.Stat(s.o.File); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("the bundle has the sequence number %d, lower than %d of the one in force; if the trust domain has begun to count again, remove %s and run swpd reload", b.Sequence, last.Sequence, s.o.File)
}

// fetch gets the document from the endpoint.
func (s *Source) fetch(ctx context.Context) ([]byte, error) {
	secure, err := s.tls()
	if err != nil {
		return nil, err
	}
	carrier := &http.Transport{
		TLSClientConfig: secure, DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: maxHead, Proxy: nil, // never the proxy of the environment
	}
	defer carrier.CloseIdleConnections()
	client := &http.Client{Transport: carrier, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		return spiffe.CheckEndpoint(r.URL.String())
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.o.URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d", s.o.URL, resp.StatusCode)
	}
	document, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err == nil && len(document) > maxDocument {
		err = fmt.Errorf("%s answers with more than %d octets", s.o.URL, maxDocument)
	}
	return document, err
}

// tls returns how the endpoint is verified: each connection, also after a redirect.
func (s *Source) tls() (*tls.Config, error) {
	if s.o.EndpointID == "" {
		return &tls.Config{RootCAs: s.o.Roots, MinVersion: tls.VersionTLS12}, nil
	}
	id, err := spiffeid.FromString(s.o.EndpointID)
	if err != nil {
		return nil, err
	}
	authorities := s.o.Bootstrap
	if b := s.State().Bundle; b != nil {
		authorities = b.Authorities
	}
	c := tlsconfig.TLSClientConfig(x509bundle.FromX509Authorities(id.TrustDomain(), authorities), tlsconfig.AuthorizeID(id))
	c.MinVersion = tls.VersionTLS12
	return c, nil
}
