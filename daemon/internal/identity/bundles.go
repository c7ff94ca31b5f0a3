package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/internal/spiffe/bundle"
	"github.com/slimwire/swp/transport"
)

const keptExt = ".json"

// endpoint is the bundle endpoint of a partner.
type endpoint struct {
	*bundle.Source
	name  string
	conf  config.Partner
	fault part.Fault         // of the last attempt, to log each once
	end   context.CancelFunc // ends Run; nil before it
	done  chan struct{}      // closed when Run has returned
	seen  uint64             // version of the bundle at the last replace
}

// idle reports whether the bundle is kept and not refreshed, because nothing is verified by it.
func (e *endpoint) idle() bool { return e.conf.KeptOut() }

// endpoints are the bundle endpoints of partners, by name. Those of a commit run from the
// moment at which the daemon serves, except the idle ones.
type endpoints struct {
	mu      sync.Mutex
	current map[string]*endpoint
	serving context.Context // nil: not yet
}

// endpointOf returns the present endpoint of a partner if its entry is the same, else a new one
// that does not run yet; nil if the bundle of the partner has another source.
func (c *Credentials) endpointOf(name string, conf *config.Partner) (*endpoint, error) {
	b := &conf.Bundle
	if b.Source != config.BundleWeb && b.Source != config.BundleSPIFFE {
		return nil, nil //nolint:nilnil // as documented
	}
	c.endpoints.mu.Lock()
	old := c.endpoints.current[name]
	c.endpoints.mu.Unlock()
	if old != nil && old.idle() == conf.KeptOut() && old.conf.Identity == conf.Identity && reflect.DeepEqual(old.conf.Bundle, *b) && slices.Equal(old.conf.Trust, conf.Trust) {
		return old, nil
	}
	e := &endpoint{name: name, conf: *conf}
	o := bundle.Options{
		Domain: transport.TrustDomain(conf.Identity), URL: b.URL, EndpointID: b.EndpointID, File: filepath.Join(c.kept, name+keptExt),
		Done: func(err error) { c.fetched(e, err) },
	}
	if len(b.CA) > 0 {
		o.Roots = x509.NewCertPool()
		for i, file := range b.CA {
			if _, _, err := AddBundle(o.Roots, name, file); err != nil {
				return nil, fmt.Errorf("partners.%s.bundle.ca[%d]: %w", name, i, err)
			}
		}
	}
	for _, file := range conf.Trust {
		anchors, _, err := AddBundle(x509.NewCertPool(), name, file)
		if err != nil {
			return nil, fmt.Errorf("trust of the partner %s: %w", conf.Identity, err)
		}
		for _, a := range anchors {
			o.Bootstrap = append(o.Bootstrap, a.cert)
		}
	}
	e.Source = bundle.New(o)
	return e, nil
}

// fetched logs the end of an attempt, if it is news.
func (c *Credentials) fetched(e *endpoint, err error) {
	log := c.log.With(zap.String("partner", e.name), zap.String("url", e.conf.Bundle.URL))
	if err != nil {
		if e.fault.Set(err) {
			log.Warn("trust bundle of a partner not refreshed", zap.Error(err))
		}
		return
	}
	if e.fault.Clear() {
		log.Info("trust bundle of a partner refreshed again")
	}
}

// replace puts endpoints in force. Those that are gone end, and their kept bundles are removed.
// The others fetch their bundles soon, unless a new bundle is the reason: otherwise an endpoint whose
// answer is always new would be asked without a pause.
func (e *endpoints) replace(next map[string]*endpoint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, old := range e.current {
		if next[name] == old {
			if v := old.State().Version; v != old.seen {
				old.seen = v
			} else {
				old.Refresh()
			}
			continue
		}
		if old.stop(); next[name] == nil {
			_ = old.Forget() // without the partner nothing reads it
		}
	}
	e.current = next
	e.run()
}

// run runs the endpoints that do not run.
func (e *endpoints) run() {
	if e.serving == nil {
		return
	}
	for _, one := range e.current {
		if one.end == nil && !one.idle() {
			ctx, cancel := context.WithCancel(e.serving)
			one.end, one.done = cancel, make(chan struct{})
			go func() {
				defer close(one.done)
				one.Run(ctx)
			}()
		}
	}
}

// stop ends Run and waits for its end.
func (e *endpoint) stop() {
	if e.end != nil {
		e.end()
		<-e.done
	}
}

// tidy removes the kept bundles that belong to no endpoint: the partner was removed while swpd was
// stopped.
func (e *endpoints) tidy(dir string, log *zap.Logger) {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("kept trust bundles not looked through", zap.Error(err))
	}
	for _, file := range files {
		name, is := strings.CutSuffix(file.Name(), keptExt)
		if !is || e.current[name] != nil {
			continue
		}
		if err := os.Remove(filepath.Join(dir, file.Name())); err != nil {
			log.Warn("kept trust bundle not removed", zap.Error(err))
			continue
		}
		log.Info("kept trust bundle removed, because it is of no partner", zap.String("partner", name))
	}
}

// serve runs the endpoints until ctx ends, and keeps the bundles of no others in dir.
func (e *endpoints) serve(ctx context.Context, dir string, log *zap.Logger) {
	e.mu.Lock()
	e.tidy(dir, log)
	e.serving = ctx
	e.run()
	e.mu.Unlock()
	<-ctx.Done()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.current {
		one.stop()
	}
}

// list returns the endpoints by name.
func (e *endpoints) list() []*endpoint {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*endpoint
	for _, name := range slices.Sorted(maps.Keys(e.current)) {
		list = append(list, e.current[name])
	}
	return list
}

// BundlesState changes when a bundle has come in that PrepareBundles has not seen. It is empty
// before that, also for no Credentials.
func (c *Credentials) BundlesState() string {
	if c == nil {
		return ""
	}
	var b strings.Builder
	for _, e := range c.endpoints.list() {
		if v := e.State().Version; v > 0 {
			fmt.Fprintf(&b, "%s %d;", e.name, v)
		}
	}
	return b.String() + c.State()
}

// rolling returns the authorities of a partner whose bundle has a source, and where they come from.
// There may be none.
func (c *Credentials) rolling(conf *config.Partner, e *endpoint) (list []*x509.Certificate, from string) {
	if e != nil {
		if b := e.State().Bundle; b != nil {
			return b.Authorities, e.conf.Bundle.URL
		}
		return nil, e.conf.Bundle.URL
	}
	if c.api == nil { // cannot happen: the configuration was checked
		return nil, conf.Bundle.Source
	}
	return c.api.Given().Authorities[transport.TrustDomain(conf.Identity)], config.BundleWorkload
}

// BundleStatus describes the trust bundle of a partner.
type BundleStatus struct {
	Source    string    `json:"source"`
	URL       string    `json:"url,omitempty"`
	Sequence  uint64    `json:"sequence,omitempty"`
	Fetched   time.Time `json:"fetched,omitzero"` // or given by the Workload API; zero: not yet
	Failure   string    `json:"failure,omitempty"`
	Old       bool      `json:"old"` // several refreshes have failed
	Anchors   int       `json:"authorities"`
	Bootstrap bool      `json:"bootstrap"` // the authorities are those of the files in trust
}

// Line describes the bundle in one line.
func (b *BundleStatus) Line(now time.Time) string {
	line := plain.Count(b.Anchors, "authority") + ", " + b.Source
	if b.URL != "" {
		line += " " + b.URL
	}
	switch {
	case b.Sequence > 0:
		line += fmt.Sprintf(", sequence %d", b.Sequence)
	case b.Bootstrap:
		line += ", of the files in trust until the first one is here"
	}
	if !b.Fetched.IsZero() {
		line += fmt.Sprintf(", fetched %s ago", now.Sub(b.Fetched).Round(time.Second))
	}
	if b.Old {
		line += ", OLD"
	}
	if b.Failure != "" {
		line += ": " + b.Failure
	}
	return line
}

// BundleOf describes the trust bundle of a partner in force; nil if it consists of files.
func (c *Credentials) BundleOf(name string) *BundleStatus {
	l := c.current.Load()
	conf, ok := l.partners.rolling[name]
	if !ok {
		return nil
	}
	s := &BundleStatus{Source: conf.Bundle.Source, URL: conf.Bundle.URL}
	for _, a := range l.partners.vouching {
		if a.partner == name {
			s.Anchors++
			s.Bootstrap = !a.rolling
		}
	}
	if s.Source == config.BundleWorkload && s.Anchors > 0 && c.api != nil {
		s.Fetched = c.api.Answered()
	}
	for _, e := range c.endpoints.list() {
		if e.name != name {
			continue
		}
		now := e.State()
		if now.Failure != nil {
			s.Failure = boundlog.Clean(plain.Error(now.Failure))
		}
		if b := now.Bundle; b != nil {
			s.Sequence, s.Fetched = b.Sequence, b.Fetched
			const missed = 3 // refreshes: partners publish new authorities 3 to 5 of them ahead (SPIFFE Federation, 4.1)
			s.Old = !e.idle() && c.now().Sub(b.Fetched) > missed*b.Refresh+time.Minute
		}
	}
	return s
}

// bundleWarnings returns warnings about bundles that are missing, old, or without a valid authority.
func (c *Credentials) bundleWarnings() (list []string) {
	l, now := c.current.Load(), c.now()
	for _, name := range slices.Sorted(maps.Keys(l.partners.rolling)) {
		if l.partners.rolling[name].KeptOut() {
			continue
		}
		s := c.BundleOf(name)
		why := ""
		if s.Failure != "" {
			why = ": " + s.Failure
		}
		switch {
		case s.Anchors == 0 && s.Source == config.BundleWorkload:
			list = append(list, fmt.Sprintf("partner %s: the Workload API gives no bundle of its trust domain, so its certificate cannot be verified", name))
		case s.Anchors == 0:
			list = append(list, fmt.Sprintf("partner %s: no trust bundle is here yet, so its certificate cannot be verified%s", name, why))
		case s.Bootstrap:
			list = append(list, fmt.Sprintf("partner %s: no trust bundle is here yet, its certificate is verified by the files in trust%s", name, why))
		case s.Old:
			list = append(list, fmt.Sprintf("partner %s: its trust bundle of %s was not refreshed since and stays in force%s", name, s.Fetched.UTC().Format(time.RFC3339), why))
		case l.ended(name, now):
			list = append(list, fmt.Sprintf("partner %s: all authorities in its trust bundle have ended", name))
		}
	}
	return list
}

// ended reports whether all anchors of a partner have ended.
func (l *loaded) ended(partner string, now time.Time) bool {
	return !slices.ContainsFunc(l.partners.vouching, func(a Anchor) bool { return a.partner == partner && now.Before(a.cert.NotAfter) })
}
