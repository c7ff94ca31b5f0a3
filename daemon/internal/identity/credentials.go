// Package identity has the certificate of this endpoint and the trust anchors for its
// peers, and warns before a certificate expires.
package identity

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/claims"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/spiffe/workload"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport"
)

// Credentials are the certificate and the trust anchors in force, including the anchors for
// single identities.
type Credentials struct {
	part.Passive
	now func() time.Time
	log *zap.Logger
	api *workload.Source // gives the certificate; nil: it is in files

	kept      string // directory of the bundles that were fetched
	lists     KeptLists
	endpoints endpoints

	away    part.Fault             // why api cannot be used now
	current atomic.Pointer[loaded] // replaced by one goroutine at a time
}

// Files are the certificate of this endpoint, its key, and the bundles of trust anchors. The
// certificate and the key are empty if they come from the Workload API.
type Files struct {
	Cert, Key string
	CA, CRL   []string
}

// loaded is the content of the files, and the last answer of the Workload API.
type loaded struct {
	transport.Credentials
	identity string
	file     string // of the certificate, or the address of the Workload API
	anchors  string // content of the common bundles, to detect changes
	vouching []Anchor
	lists    Lists
	partners bundles
	withheld []string // names, see Withhold
}

// bundles are the trust anchors of single identities.
type bundles struct {
	pools    map[string]*x509.CertPool // by identity
	all      *x509.CertPool            // all of them
	names    map[string]string         // of partners, by identity
	rolling  map[string]config.Partner // with a source of their bundle, by name
	anchors  string                    // content, to detect changes
	vouching []Anchor
	lists    Lists
	partners []claims.Partner
}

// list returns all trust anchors.
func (l *loaded) list() []Anchor { return slices.Concat(l.vouching, l.partners.vouching) }

// with returns a copy with other bundles. An authority of a partner never vouches for a name that is
// claimed here, also if the entry of the partner has that name: the common trust anchors do. Nor does it for a
// withheld name.
func (l *loaded) with(b bundles, withheld []string) *loaded {
	next := *l
	next.partners, next.withheld, next.Bundles = b, withheld, maps.Clone(b.pools)
	names := l.claims(&b)
	for i := range names.Partners {
		if p := &names.Partners[i]; names.Refuse(p) != nil || slices.Contains(withheld, p.Identity) {
			delete(next.Bundles, p.Identity)
		}
	}
	next.CRLs = slices.Concat(l.lists, b.lists).CRLs()
	return &next
}

// undecided returns the names that Withhold has to decide about before other bundles are in force: those that are
// withheld, and those that got an authority of which none vouched for the name before.
func (l *loaded) undecided(b *bundles) (list []string) {
	before, names := l.claims(&l.partners), l.claims(b)
	for i := range names.Partners {
		p := &names.Partners[i]
		known := before.Known(p.Identity)
		if slices.Contains(l.withheld, p.Identity) || !slices.ContainsFunc(names.Vouchers(p), func(v string) bool { return slices.Contains(known, v) }) {
			list = append(list, p.Identity)
		}
	}
	return list
}

// claims returns the names that are claimed here, with partners.
func (l *loaded) claims(b *bundles) *claims.Registry {
	r := &claims.Registry{Self: l.identity, Partners: b.partners}
	for _, a := range l.vouching {
		r.Authorities = append(r.Authorities, a.cert)
	}
	return r
}

// Claims returns the names that are claimed here.
func (c *Credentials) Claims() *claims.Registry {
	l := c.current.Load()
	return l.claims(&l.partners)
}

// Withhold says that data of these names came under other authorities than the present ones of the partners with
// these names. The present ones do not vouch for the names until the next call, but the common trust anchors do. Call
// it after each change of partners: a partner with new authorities waits for it. It reports whether the authorities
// of a partner vouch no more for its name.
func (c *Credentials) Withhold(names []string) (fewer bool) {
	old := c.current.Load()
	next := old.with(old.partners, names)
	c.current.Store(next)
	return len(next.Bundles) < len(old.Bundles)
}

// FilesOf returns the files of a configuration.
func FilesOf(c *config.Config) Files {
	if c.Development() {
		f := devpki.Server(c.IdentityDir())
		return Files{f.Cert, f.Key, []string{f.CA}, nil}
	}
	return Files{c.Identity.Cert, c.Identity.Key, c.Trust.CA, c.Trust.CRL}
}

// bundlesOf returns the bundles of partners with a trust list, or with a source of their bundle, by
// identity.
func bundlesOf(conf config.Partners) map[string][]string {
	files := make(map[string][]string)
	for _, p := range conf {
		if len(p.Trust) > 0 || p.Bundle.Source != "" {
			files[p.Identity] = p.Trust
		}
	}
	return files
}

// New reads the files, and creates the files of a development identity if they do not
// exist. It waits for the Workload API if the certificate comes from there, until ctx ends and
// at most startWait. Close releases the Credentials.
func New(ctx context.Context, c *config.Config, now func() time.Time, log *zap.Logger) (*Credentials, error) {
	if c.Development() {
		if err := devpki.Ensure(c.IdentityDir(), devpki.Options{Now: now}); err != nil {
			return nil, err
		}
	}
	if at := c.Identity.SPIFFE; at != "" {
		slow := time.AfterFunc(time.Second, func() {
			log.Warn("waiting for the SPIFFE Workload API", zap.String("address", at), zap.Duration("at_most", startWait))
		})
		defer slow.Stop()
	}
	cr, err := open(ctx, c, now, log, startWait)
	if err != nil {
		return nil, err
	}
	l := cr.current.Load()
	cr.keep(l)
	dialling, accepting := l.usageFaults()
	for _, fault := range []string{dialling, accepting} {
		if fault != "" {
			log.Warn(fault)
		}
	}
	return cr, nil
}

// keep keeps the revocation lists in force.
func (c *Credentials) keep(l *loaded) {
	if err := c.lists.Keep(slices.Concat(l.lists, l.partners.lists)); err != nil {
		c.log.Warn("revocation lists", zap.Error(err))
	}
}

// Read reads the files of a configuration, and creates none. It asks the Workload API once, for
// at most askWait; if there is no answer the error is a *NoSVIDError.
func Read(c *config.Config, now func() time.Time) (*Credentials, error) {
	cr, err := open(context.Background(), c, now, zap.NewNop(), askWait)
	if err != nil {
		return nil, err
	}
	return cr, cr.Close() // what was given stays
}

// ReadOwn is Read without the trust anchors of partners.
func ReadOwn(c *config.Config, now func() time.Time) (*Credentials, error) {
	alone := *c
	alone.Partners = nil
	return Read(&alone, now)
}

// NameOf returns the identity in the certificate of a configuration, also when that is not valid now. Like Read it asks
// the Workload API once. The key and the trust anchors need not be there.
func NameOf(c *config.Config) (string, error) {
	api, err := openAPI(context.Background(), &c.Identity, askWait)
	if err != nil {
		return "", err
	}
	if api != nil {
		defer api.Close()
		return api.Given().ID, nil
	}
	file := FilesOf(c).Cert
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("identity.cert: %w", config.Unreadable(file, err))
	}
	name, err := nameIn(text)
	if err != nil {
		return "", fmt.Errorf("identity.cert: %s: %w", file, err)
	}
	return name, nil
}

// nameIn returns the identity in the first certificate of a PEM file.
func nameIn(text []byte) (string, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return "", err
		}
		return transport.Identity(cert)
	}
	return "", errors.New("holds no certificate in PEM form")
}

func open(ctx context.Context, c *config.Config, now func() time.Time, log *zap.Logger, wait time.Duration) (*Credentials, error) {
	cr := &Credentials{now: now, log: log, kept: filepath.Join(c.Data, "bundles"), lists: KeptListsOf(c, now)}
	var err error
	if cr.api, err = openAPI(ctx, &c.Identity, wait); err != nil {
		return nil, err
	}
	l, err := cr.read(c)
	if err != nil {
		_ = cr.Close()
		return nil, err
	}
	cr.current.Store(l)
	return cr, nil
}

// Current implements transport.Policy.Credentials.
func (c *Credentials) Current() *transport.Credentials { return &c.current.Load().Credentials }

// RootsOf returns the trust anchors for a peer of an identity.
func (c *Credentials) RootsOf(identity string) *x509.CertPool { return c.Current().RootsOf(identity) }

// Authorities are the common trust anchors: of trust.ca, and of the own trust domain if the
// certificate comes from the Workload API.
func (c *Credentials) Authorities() (list []*x509.Certificate) {
	for _, a := range c.current.Load().vouching {
		list = append(list, a.cert)
	}
	return list
}

// Identity is the identity of this endpoint.
func (c *Credentials) Identity() string { return c.current.Load().identity }

// NotAfter is the expiry of the certificate of this endpoint.
func (c *Credentials) NotAfter() time.Time { return c.current.Load().Certificate.Leaf.NotAfter }

// Now is the clock for the validity of certificates.
func (c *Credentials) Now() time.Time { return c.now() }

// Offer implements part.Part.
func (c *Credentials) Offer(o *all.Options) error {
	o.Identity, o.Relay.Self = c.Identity(), c.Identity
	return nil
}

// Section has the certificate of this endpoint, and the common trust anchors. state is
// Credentials.State, for Credentials that are made later.
func Section(prepare part.Prepare, state func() string) part.Section {
	return part.Section{
		Name: "certificates", Stays: "the old ones stay in use", Keys: []string{"identity", "trust"}, Prepare: prepare,
		Waits: "a development identity is made, and the Workload API is opened, at the start; a development identity only if all listeners are on loopback addresses",
		Fits: func(started, now *config.Config) bool {
			return (started.Development() || !now.Development()) && sourceOf(&started.Identity) == sourceOf(&now.Identity)
		},
		Files: func(c *config.Config) []string {
			f := FilesOf(c)
			return slices.DeleteFunc(slices.Concat([]string{f.Cert, f.Key}, f.CA, f.CRL), func(name string) bool { return name == "" })
		},
		State: func(*config.Config) string { return state() },
	}
}

// Prepare reads the certificate of this endpoint, and the common trust anchors.
func (c *Credentials) Prepare(conf *config.Config) (part.Change, error) {
	l, err := c.readOwn(conf)
	if err == nil {
		err = cmp.Or(l.lists.Stale(), l.claims(&c.current.Load().partners).Check())
	}
	if err != nil {
		return part.Change{}, err
	}
	return part.Change{
		Identity: l.identity,
		Fields:   []zap.Field{zap.String("identity", l.identity), zap.Time("not_after", l.Certificate.Leaf.NotAfter)},
		Commit: func() bool {
			old := c.current.Load()
			c.current.Store(l.with(old.partners, old.withheld))
			c.keep(l)
			return l.anchors != old.anchors
		},
	}, nil
}

// BundleFiles are the bundles of partners with a trust list, and their revocation lists.
func BundleFiles(c *config.Config) (files []string) {
	bundles := bundlesOf(c.Partners)
	for _, identity := range slices.Sorted(maps.Keys(bundles)) {
		files = append(files, bundles[identity]...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Partners)) {
		files = append(files, c.Partners[name].CRL...)
		files = append(files, c.Partners[name].Bundle.CA...)
	}
	return files
}

// PrepareBundles reads the bundles of partners. commit puts them in force, and reports
// whether they differ from the previous ones.
func (c *Credentials) PrepareBundles(conf config.Partners) (commit func() (changed bool), err error) {
	next, err := c.endpointsOf(conf)
	if err != nil {
		return nil, err
	}
	theirs, err := c.readBundles(conf, next)
	if err == nil {
		err = cmp.Or(theirs.lists.Stale(), c.current.Load().claims(&theirs).Check())
	}
	if err != nil {
		return nil, err
	}
	return func() bool {
		c.endpoints.replace(next)
		old := c.current.Load()
		l := old.with(theirs, old.undecided(&theirs))
		c.current.Store(l)
		c.keep(l)
		return old.partners.anchors != theirs.anchors
	}, nil
}

// read reads everything.
func (c *Credentials) read(conf *config.Config) (*loaded, error) {
	l, err := c.readOwn(conf)
	if err != nil {
		return nil, err
	}
	next, err := c.endpointsOf(conf.Partners)
	if err != nil {
		return nil, err
	}
	theirs, err := c.readBundles(conf.Partners, next)
	if err == nil {
		err = l.claims(&theirs).Check()
	}
	c.endpoints.replace(next)
	return l.with(theirs, nil), err
}

// readOwn reads the certificate of this endpoint and the common trust anchors.
func (c *Credentials) readOwn(conf *config.Config) (*loaded, error) {
	f := FilesOf(conf)
	l := new(loaded)
	if c.api != nil {
		l.take(c.api.Given(), conf.Identity.SPIFFE)
	} else if err := l.readPair(f, c.now()); err != nil {
		return nil, err
	}
	l.Roots = x509.NewCertPool()
	for i, name := range f.CA {
		anchors, octets, err := AddBundle(l.Roots, "", name)
		if err != nil {
			return nil, fmt.Errorf("trust.ca[%d]: %w", i, err)
		}
		l.vouching = append(l.vouching, anchors...)
		l.anchors += octets
	}
	lists, octets, err := c.lists.Read("trust.crl", f.CRL, l.vouching)
	if err != nil {
		return nil, err
	}
	l.lists = lists
	l.anchors += "\n" + octets
	return l, nil
}

// readPair reads the certificate of this endpoint and its key.
func (l *loaded) readPair(f Files, now time.Time) error {
	if err := config.CheckPrivate(f.Key); err != nil {
		return fmt.Errorf("identity.key: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return fmt.Errorf("identity: %s and %s: %w", f.Cert, f.Key, unquoted(err))
	}
	id, err := transport.Identity(pair.Leaf)
	if err != nil {
		return fmt.Errorf("identity.cert: %s: %w", f.Cert, err)
	}
	if now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore) {
		return fmt.Errorf("identity.cert: %s is valid from %s to %s, and now is %s; renew it", f.Cert,
			pair.Leaf.NotBefore.Format(time.RFC3339), pair.Leaf.NotAfter.Format(time.RFC3339), now.Format(time.RFC3339))
	}
	l.identity, l.file, l.Certificate = id, f.Cert, &pair
	return nil
}

// CheckBundles reads the bundles of the partners of a configuration and returns the first fault in
// them.
func CheckBundles(conf *config.Config) error {
	c := &Credentials{kept: filepath.Join(conf.Data, "bundles"), lists: KeptListsOf(conf, time.Now)}
	next, err := c.endpointsOf(conf.Partners)
	if err != nil {
		return err
	}
	theirs, err := c.readBundles(conf.Partners, next)
	if err != nil {
		return err
	}
	return new(loaded).claims(&theirs).Check()
}

// endpointsOf returns the bundle endpoints of partners, by name.
func (c *Credentials) endpointsOf(conf config.Partners) (map[string]*endpoint, error) {
	next := make(map[string]*endpoint)
	for name, p := range conf {
		e, err := c.endpointOf(name, &p)
		if err != nil {
			return nil, err
		}
		if e != nil {
			next[name] = e
		}
	}
	return next, nil
}

// readBundles reads the bundles of single identities.
func (c *Credentials) readBundles(conf config.Partners, next map[string]*endpoint) (b bundles, err error) {
	files := bundlesOf(conf)
	b.names, b.rolling = make(map[string]string), make(map[string]config.Partner)
	for name, p := range conf {
		b.names[p.Identity] = name
	}
	b.pools, b.all = make(map[string]*x509.CertPool, len(files)), x509.NewCertPool()
	for _, identity := range slices.Sorted(maps.Keys(files)) {
		pool := x509.NewCertPool()
		b.anchors += "\n" + identity + "\n"
		if p := conf[b.names[identity]]; p.Bundle.Source != "" {
			b.rolling[b.names[identity]] = p
			list, from := c.rolling(&p, next[b.names[identity]])
			for _, cert := range list {
				pool.AddCert(cert)
				b.all.AddCert(cert)
				b.vouching = append(b.vouching, Anchor{partner: b.names[identity], file: from, cert: cert, rolling: true})
				b.anchors += string(cert.Raw)
			}
			if len(list) > 0 {
				files[identity] = nil // for the time without a bundle only
			}
		}
		for _, name := range files[identity] {
			anchors, octets, err := AddBundle(pool, b.names[identity], name)
			if err != nil {
				return b, fmt.Errorf("trust of the partner %s: %w", identity, err)
			}
			for _, a := range anchors {
				b.all.AddCert(a.cert)
			}
			b.vouching = append(b.vouching, anchors...)
			b.anchors += octets
		}
		b.pools[identity] = pool
		name := b.names[identity]
		of := slices.DeleteFunc(slices.Clone(b.vouching), func(a Anchor) bool { return a.partner != name })
		lists, octets, err := c.lists.Read("partners."+name+".crl", conf[name].CRL, of)
		if err != nil {
			return b, err
		}
		b.lists = append(b.lists, lists...)
		b.anchors += "\n" + octets
	}
	for _, name := range slices.Sorted(maps.Keys(conf)) {
		p := conf[name]
		one := claims.Partner{Name: name, Identity: p.Identity, Common: b.pools[p.Identity] == nil, Source: strings.TrimSpace(p.Bundle.Source + " " + p.Bundle.URL), OwnsData: p.OwnsData}
		for _, a := range b.vouching {
			if a.partner == name {
				one.Authorities = append(one.Authorities, a.cert)
			}
		}
		b.partners = append(b.partners, one)
	}
	return b, nil
}

// unquoted removes quotations of a file from an error of the library.
func unquoted(err error) error {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// AddBundle adds the certificates of a PEM file to a pool; all must be valid. It
// returns them as anchors of a partner (empty for the common ones), and the content of the
// file, to detect changes. The error names the file.
func AddBundle(pool *x509.CertPool, partner, file string) (list []Anchor, octets string, err error) {
	bundle, err := os.ReadFile(file)
	if err != nil {
		return nil, "", config.Unreadable(file, err)
	}
	certs, err := transport.ParseAuthorities(bundle)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	for _, cert := range certs {
		pool.AddCert(cert)
		list = append(list, Anchor{partner: partner, file: file, cert: cert})
	}
	return list, string(bundle), nil
}

// NotSelf refuses a partner that has the identity of this endpoint.
func NotSelf(conf config.Partners, self string) error {
	r := claims.Registry{Self: self}
	for _, name := range slices.Sorted(maps.Keys(conf)) {
		if err := r.Refuse(&claims.Partner{Name: name, Identity: conf[name].Identity, Common: true}); err != nil {
			return err
		}
	}
	return nil
}
