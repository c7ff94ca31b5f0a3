package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/transport"
)

// credentials are the certificate and the trust anchors in force, and the files
// they came from. What was loaded last stays in force while the files cannot be
// used.
type credentials struct {
	cert, key string
	ca        []string
	now       func() time.Time
	log       *zap.Logger

	current atomic.Pointer[loaded]
	failure atomic.Pointer[string] // why the files cannot be used now; nil if they can
	refused atomic.Pointer[string] // why the partners as they are configured now cannot be; nil if they can

	mu       sync.Mutex      // held while files are read
	partners config.Partners // whose bundles are for their identities alone
	stamp    string          // what the files looked like when they were read last
}

// loaded is what one reading of the files gave.
type loaded struct {
	transport.Credentials
	identity string
	anchors  string // the bundles, to tell whether trust changed
	list     []anchor
}

// credentialsOf names the files that a configuration means and reads none.
func credentialsOf(c *config.Config, log *zap.Logger, now func() time.Time) *credentials {
	cr := &credentials{
		cert: c.Identity.Cert, key: c.Identity.Key, ca: c.Trust.CA, partners: c.Partners, log: log, now: now,
	}
	if c.Development() {
		f := devpki.Server(c.IdentityDir())
		cr.cert, cr.key, cr.ca = f.Cert, f.Key, []string{f.CA}
	}
	return cr
}

// bundlesOf names the bundles of partners that have some of their own, by identity.
func bundlesOf(conf config.Partners) map[string][]string {
	files := make(map[string][]string)
	for _, p := range conf {
		if len(p.Trust) > 0 {
			files[p.Identity] = p.Trust
		}
	}
	return files
}

// usePartners has the partners be those of a configuration. If their bundles cannot be
// used, or one of them has the identity of this endpoint, the old ones stay in force.
func (c *credentials) usePartners(conf config.Partners) (trustChanged bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.partners
	if reflect.DeepEqual(old, conf) {
		c.refused.Store(nil)
		return false, nil
	}
	c.partners = conf
	l, err := c.read()
	if err != nil {
		c.partners = old
		text := boundlog.CleanLines(err.Error())
		if last := c.refused.Swap(&text); last == nil || *last != text {
			c.log.Error("partners not reloaded, the old ones stay", zap.Error(err))
		}
		return false, err
	}
	c.refused.Store(nil)
	c.stamp = c.look()
	return c.current.Swap(l).anchors != l.anchors, nil
}

// newCredentials reads the files for the first time; here an error is final.
func newCredentials(c *config.Config, log *zap.Logger, now func() time.Time) (*credentials, error) {
	if c.Development() {
		if err := devpki.Ensure(c.IdentityDir(), devpki.Options{Now: now}); err != nil {
			return nil, err
		}
	}
	cr := credentialsOf(c, log, now)
	cr.stamp = cr.look()
	l, err := cr.read()
	if err != nil {
		return nil, err
	}
	cr.current.Store(l)
	return cr, nil
}

// Credentials is what transport.Policy asks for in each handshake.
func (c *credentials) Credentials() *transport.Credentials { return &c.current.Load().Credentials }

// identity is the name by which peers know this endpoint.
func (c *credentials) identity() string { return c.current.Load().identity }

// reload reads the files again. It reports whether the trust anchors changed.
func (c *credentials) reload() (trustChanged bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stamp = c.look()
	l, err := c.read()
	if err != nil {
		text := boundlog.CleanLines(err.Error())
		if old := c.failure.Swap(&text); old == nil || *old != text {
			c.log.Error("certificates not reloaded, the old ones stay in use", zap.Error(err))
		}
		return false, err
	}
	c.failure.Store(nil)
	old := c.current.Swap(l)
	c.log.Info("certificates reloaded", zap.String("identity", l.identity), zap.Time("not_after", l.Certificate.Leaf.NotAfter))
	return old.anchors != l.anchors, nil
}

// refresh reads the files again: always, or if one has changed or could not be
// used. It reports whether the trust anchors changed.
func (c *credentials) refresh(always bool) (trustChanged bool, err error) {
	c.mu.Lock()
	same := c.look() == c.stamp
	c.mu.Unlock()
	if !always && same && c.failure.Load() == nil {
		return false, nil
	}
	return c.reload()
}

// look describes the files without opening them.
func (c *credentials) look() string {
	files := append([]string{c.cert, c.key}, c.ca...)
	bundles := bundlesOf(c.partners)
	for _, identity := range slices.Sorted(maps.Keys(bundles)) {
		files = append(files, bundles[identity]...)
	}
	return stampOf(files...)
}

func (c *credentials) read() (*loaded, error) {
	if err := config.CheckPrivate(c.key); err != nil {
		return nil, fmt.Errorf("identity.key: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("identity: %s and %s: %w", c.cert, c.key, plain(err))
	}
	id, err := transport.Identity(pair.Leaf)
	if err != nil {
		return nil, fmt.Errorf("identity.cert: %s: %w", c.cert, err)
	}
	if now := c.now(); now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore) {
		return nil, fmt.Errorf("identity.cert: %s is valid from %s to %s, and now is %s; renew it", c.cert,
			pair.Leaf.NotBefore.Format(time.RFC3339), pair.Leaf.NotAfter.Format(time.RFC3339), now.Format(time.RFC3339))
	}
	l := &loaded{identity: id}
	l.Certificate, l.Roots = &pair, x509.NewCertPool()
	for i, name := range c.ca {
		bundle, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("trust.ca[%d]: %w", i, err)
		}
		anchors, err := addAnchors(l.Roots, bundle, "", name)
		if err != nil {
			return nil, fmt.Errorf("trust.ca[%d]: %s: %w", i, name, err)
		}
		l.list = append(l.list, anchors...)
		l.anchors += string(bundle)
	}
	if err := c.readPartners(l); err != nil {
		return nil, err
	}
	return l, nil
}

// readPartners reads the bundles of single identities.
func (c *credentials) readPartners(l *loaded) error {
	if err := notSelf(c.partners, l.identity); err != nil {
		return err
	}
	bundles, names := bundlesOf(c.partners), make(map[string]string)
	for name, p := range c.partners {
		names[p.Identity] = name
	}
	l.Bundles = make(map[string]*x509.CertPool, len(bundles))
	for _, identity := range slices.Sorted(maps.Keys(bundles)) {
		pool := x509.NewCertPool()
		l.anchors += "\n" + identity + "\n"
		for _, name := range bundles[identity] {
			bundle, err := os.ReadFile(name)
			if err != nil {
				return fmt.Errorf("trust of the partner %s: %w", identity, err)
			}
			anchors, err := addAnchors(pool, bundle, names[identity], name)
			if err != nil {
				return fmt.Errorf("trust of the partner %s: %s: %w", identity, name, err)
			}
			l.list = append(l.list, anchors...)
			l.anchors += string(bundle)
		}
		l.Bundles[identity] = pool
	}
	return nil
}

// plain drops what an error of the library quotes from a file.
func plain(err error) error {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// addBundle adds the certificates of a PEM bundle, all of which must parse.
func addBundle(pool *x509.CertPool, bundle []byte) error {
	_, err := addAnchors(pool, bundle, "", "")
	return err
}

// addAnchors is addBundle, and returns them with where they came from.
func addAnchors(pool *x509.CertPool, bundle []byte, partner, file string) (list []anchor, err error) {
	certs, err := certinfo.Parse(bundle)
	for _, cert := range certs {
		pool.AddCert(cert)
		list = append(list, anchor{partner, file, cert})
	}
	return list, err
}
