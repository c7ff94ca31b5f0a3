package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/transport"
)

// credentials are the certificate and the trust anchors in force, and who may show which.
type credentials struct {
	passive
	files keyFiles
	conf  config.Partners // whose bundles are for their identities alone
	now   func() time.Time

	current atomic.Pointer[loaded] // replaced by one goroutine at a time
}

// keyFiles are the certificate of this endpoint, its key, and the bundles of those that
// are trusted.
type keyFiles struct {
	cert, key string
	ca        []string
}

// loaded is what one reading of the files gave.
type loaded struct {
	transport.Credentials
	identity string
	file     string // the certificate's
	anchors  string // the bundles for everybody, to tell whether trust changed
	vouching []anchor
	partners bundles
}

// bundles are what vouches for single identities.
type bundles struct {
	pools    map[string]*x509.CertPool // by identity
	anchors  string                    // to tell whether trust changed
	vouching []anchor
}

// list returns all trust anchors.
func (l *loaded) list() []anchor { return slices.Concat(l.vouching, l.partners.vouching) }

// with returns the same with other bundles.
func (l *loaded) with(b bundles) *loaded {
	next := *l
	next.partners, next.Bundles = b, b.pools
	return &next
}

// filesOf names the files that a configuration means.
func filesOf(c *config.Config) keyFiles {
	if c.Development() {
		f := devpki.Server(c.IdentityDir())
		return keyFiles{f.Cert, f.Key, []string{f.CA}}
	}
	return keyFiles{c.Identity.Cert, c.Identity.Key, c.Trust.CA}
}

// credentialsOf names the files that a configuration means and reads none.
func credentialsOf(c *config.Config, now func() time.Time) *credentials {
	return &credentials{files: filesOf(c), conf: c.Partners, now: now}
}

// identityFiles are those that section certificates reads again.
func identityFiles(c *config.Config) []string {
	f := filesOf(c)
	return append([]string{f.cert, f.key}, f.ca...)
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

// bundleFiles are those that section partners reads again.
func bundleFiles(c *config.Config) (files []string) {
	bundles := bundlesOf(c.Partners)
	for _, identity := range slices.Sorted(maps.Keys(bundles)) {
		files = append(files, bundles[identity]...)
	}
	return files
}

// newCredentials reads the files for the first time; here an error is final.
func newCredentials(c *config.Config, now func() time.Time) (*credentials, error) {
	if c.Development() {
		if err := devpki.Ensure(c.IdentityDir(), devpki.Options{Now: now}); err != nil {
			return nil, err
		}
	}
	cr := credentialsOf(c, now)
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

// prepareCertificates reads the certificate of this endpoint, and whom everybody's is of.
func (d *daemon) prepareCertificates(c *config.Config) (change, error) {
	l, err := readIdentity(filesOf(c), d.credentials.now())
	if err != nil {
		return change{}, err
	}
	return change{
		identity: l.identity,
		fields:   []zap.Field{zap.String("identity", l.identity), zap.Time("not_after", l.Certificate.Leaf.NotAfter)},
		commit: func() bool {
			old := d.credentials.current.Load()
			d.credentials.current.Store(l.with(old.partners))
			return l.anchors != old.anchors
		},
	}, nil
}

// preparePartners reads the bundles of partners. The links follow once peers were held
// against those.
func (d *daemon) preparePartners(c *config.Config) (change, error) {
	theirs, err := readBundles(c.Partners)
	if err != nil {
		return change{}, err
	}
	return change{
		fields: []zap.Field{zap.Int("partners", len(c.Partners))},
		commit: func() bool {
			old := d.credentials.current.Load()
			d.credentials.current.Store(old.with(theirs))
			return old.partners.anchors != theirs.anchors
		},
		then: func() {
			d.servers.yield(c.Partners)
			d.partners.apply(c.Partners)
		},
	}, nil
}

// read reads all files.
func (c *credentials) read() (*loaded, error) {
	l, err := readIdentity(c.files, c.now())
	if err != nil {
		return nil, err
	}
	if err := notSelf(c.conf, l.identity); err != nil {
		return nil, err
	}
	theirs, err := readBundles(c.conf)
	return l.with(theirs), err
}

// readIdentity reads the certificate of this endpoint and the bundles for everybody.
func readIdentity(f keyFiles, now time.Time) (*loaded, error) {
	if err := config.CheckPrivate(f.key); err != nil {
		return nil, fmt.Errorf("identity.key: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("identity: %s and %s: %w", f.cert, f.key, plain(err))
	}
	id, err := transport.Identity(pair.Leaf)
	if err != nil {
		return nil, fmt.Errorf("identity.cert: %s: %w", f.cert, err)
	}
	if now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore) {
		return nil, fmt.Errorf("identity.cert: %s is valid from %s to %s, and now is %s; renew it", f.cert,
			pair.Leaf.NotBefore.Format(time.RFC3339), pair.Leaf.NotAfter.Format(time.RFC3339), now.Format(time.RFC3339))
	}
	l := &loaded{identity: id, file: f.cert}
	l.Certificate, l.Roots = &pair, x509.NewCertPool()
	for i, name := range f.ca {
		bundle, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("trust.ca[%d]: %w", i, err)
		}
		anchors, err := addAnchors(l.Roots, bundle, "", name)
		if err != nil {
			return nil, fmt.Errorf("trust.ca[%d]: %s: %w", i, name, err)
		}
		l.vouching = append(l.vouching, anchors...)
		l.anchors += string(bundle)
	}
	return l, nil
}

// readBundles reads the bundles of single identities.
func readBundles(conf config.Partners) (b bundles, err error) {
	files, names := bundlesOf(conf), make(map[string]string)
	for name, p := range conf {
		names[p.Identity] = name
	}
	b.pools = make(map[string]*x509.CertPool, len(files))
	for _, identity := range slices.Sorted(maps.Keys(files)) {
		pool := x509.NewCertPool()
		b.anchors += "\n" + identity + "\n"
		for _, name := range files[identity] {
			bundle, err := os.ReadFile(name)
			if err != nil {
				return b, fmt.Errorf("trust of the partner %s: %w", identity, err)
			}
			anchors, err := addAnchors(pool, bundle, names[identity], name)
			if err != nil {
				return b, fmt.Errorf("trust of the partner %s: %s: %w", identity, name, err)
			}
			b.vouching = append(b.vouching, anchors...)
			b.anchors += string(bundle)
		}
		b.pools[identity] = pool
	}
	return b, nil
}

// plain drops what an error of the library quotes from a file.
func plain(err error) error {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// addAnchors adds the certificates of a PEM bundle, all of which must parse, and returns
// them with where they came from.
func addAnchors(pool *x509.CertPool, bundle []byte, partner, file string) (list []anchor, err error) {
	certs, err := certinfo.Parse(bundle)
	for _, cert := range certs {
		pool.AddCert(cert)
		list = append(list, anchor{partner, file, cert})
	}
	return list, err
}
