package identity

import (
	"context"
	"crypto/x509"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/spiffe/workload"
	"github.com/slimwire/swp/transport"
)

const (
	startWait = 30 * time.Second // for the Workload API, at a start
	askWait   = 5 * time.Second  // the same, of a command that serves nothing
	lookEvery = 2 * time.Second  // at the state of the Workload API
)

// NoSVIDError says why the Workload API has given no certificate for this endpoint.
type NoSVIDError struct{ Err error }

func (e *NoSVIDError) Error() string {
	return fmt.Sprintf("identity.spiffe: %v; see that the agent runs, that this process can reach its socket, and that an entry for it is registered", e.Err)
}

// Unwrap returns Err.
func (e *NoSVIDError) Unwrap() error { return e.Err }

// sourceOf returns the keys of an identity from the Workload API; zero for another one.
func sourceOf(i *config.Identity) workload.Options {
	return workload.Options{Address: i.SPIFFE, ID: i.SPIFFEID, Hint: i.Hint}
}

// openAPI opens the Workload API of a configuration; nil without one.
func openAPI(ctx context.Context, i *config.Identity, wait time.Duration) (*workload.Source, error) {
	if i.SPIFFE == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	api, err := workload.Open(ctx, sourceOf(i))
	if err != nil {
		return nil, &NoSVIDError{err}
	}
	return api, nil
}

// take takes the certificate, and the trust anchors of the own trust domain, from the Workload API
// of an address.
func (l *loaded) take(given *workload.Given, address string) {
	l.identity, l.file, l.Certificate = given.ID, address, given.Certificate
	domain := transport.TrustDomain(given.ID)
	pool := x509.NewCertPool()
	for _, cert := range given.Authorities[domain] {
		pool.AddCert(cert)
		l.vouching = append(l.vouching, Anchor{file: address, cert: cert, rolling: true})
		l.anchors += string(cert.Raw)
	}
	l.Domains = map[string]*x509.CertPool{domain: pool}
}

// State changes when the Workload API gives something else. It is empty before that, also for
// no Credentials.
func (c *Credentials) State() string {
	if c == nil || c.api == nil || c.api.Version() == 0 {
		return ""
	}
	return strconv.FormatUint(c.api.Version(), 10)
}

// Serve implements part.Part: it refreshes the bundles of partners, and logs when the Workload
// API cannot be used, and when it can again.
func (c *Credentials) Serve(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { c.endpoints.serve(ctx, c.kept, c.log) })
	if c.api == nil {
		return
	}
	part.Every(ctx, lookEvery, func() {
		switch _, err := c.api.Fault(); {
		case err != nil && c.away.Set(err):
			c.log.Warn("the SPIFFE Workload API cannot be used, the last certificate stays", zap.Error(err), zap.Time("not_after", c.NotAfter()))
		case err == nil && c.away.Clear():
			c.log.Info("the SPIFFE Workload API can be used again")
		}
	})
}

// Close implements part.Part.
func (c *Credentials) Close() error {
	if c.api != nil {
		c.api.Close()
	}
	return nil
}

// apiWarning returns why the certificate may not be renewed; empty if it is.
func (c *Credentials) apiWarning() string {
	if c.api == nil {
		return ""
	}
	since, err := c.api.Fault()
	if err != nil {
		return fmt.Sprintf("the SPIFFE Workload API cannot be used since %s: %v; the last certificate stays and %s",
			since.UTC().Format(time.RFC3339), err, End(c.NotAfter(), c.now()))
	}
	return ""
}
