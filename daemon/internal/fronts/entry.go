package fronts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/transport"
)

// httpEntry admits callers: the parts of section http that can change while the fronts
// serve, and their TLS configuration.
type httpEntry struct {
	gate   *gate.Gate
	secure atomic.Pointer[secured] // nil: plain HTTP
	known  certified
	lists  identity.KeptLists
	log    *zap.Logger
}

// secured has the content of the files of http.tls.
type secured struct {
	*tls.Config
	key      string         // of the files in the configuration
	file     string         // the certificate's
	roots    *x509.CertPool // of client certificates; nil: none are requested
	anchors  string         // content of the bundles, to detect changes
	vouching []identity.Anchor
	lists    identity.Lists
}

// leaf is the certificate of the fronts.
func (s *secured) leaf() *x509.Certificate { return s.Certificates[0].Leaf }

// expiries returns warnings for certificates that expire soon. They do not
// affect readiness, because peers do not connect over HTTP.
func (s *secured) expiries(now time.Time) (list []string) {
	if soon, _ := identity.Ending(s.leaf().NotBefore, s.leaf().NotAfter, now); soon {
		list = append(list, fmt.Sprintf("%s: certificate %s %s", s.key, s.file, identity.End(s.leaf().NotAfter, now)))
	}
	return slices.Concat(list, identity.AnchorWarnings(s.vouching, s.key+".ca", now), s.lists.Warnings(now))
}

// trusts reports whether the certificate chain of a client is valid now.
func (s *secured) trusts(chain []*x509.Certificate) bool {
	return s.roots != nil && transport.VerifyClient(s.roots, s.lists.CRLs(), chain, time.Now()) == nil
}

// newHTTPEntry makes an httpEntry with the files under a key.
func newHTTPEntry(callers gate.Options, key string, files *config.HTTPTLS, lists identity.KeptLists, log *zap.Logger) (*httpEntry, error) {
	d := &httpEntry{lists: lists, log: log}
	d.known.good = func(chain []*x509.Certificate) bool { return d.secure.Load().trusts(chain) }
	var err error
	if d.gate, err = gate.New(callers); err != nil || files.Cert == "" {
		return d, err
	}
	secure, err := tlsOf(key, files, lists)
	if err == nil {
		d.take(secure)
	}
	return d, err
}

// read reads the files under a key to replace those in force.
func (d *httpEntry) read(key string, files *config.HTTPTLS) (*secured, error) {
	secure, err := tlsOf(key, files, d.lists)
	if err == nil {
		err = secure.lists.Stale()
	}
	return secure, err
}

// take puts files in force, and returns those before; nil if there were none.
func (d *httpEntry) take(secure *secured) (old *secured) {
	if err := d.lists.Keep(secure.lists); err != nil {
		d.log.Warn("revocation lists", zap.Error(err))
	}
	return d.secure.Swap(secure)
}

func gateOptions(conf *config.HTTP) gate.Options {
	o := gate.Options{
		Callers: make(map[string][]string), Certificates: make(map[string][]string), Identity: transport.Identity,
		Anonymous: conf.Anonymous, Hosts: conf.Hosts, Origins: conf.Origins, Calls: conf.Calls,
	}
	for name, c := range conf.Callers {
		o.Callers[name], o.Certificates[name] = c.Tokens, c.Certificates
	}
	return o
}

// config returns the TLS configuration of a listener. Each connection uses the present
// files.
func (d *httpEntry) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return d.secure.Load().Config, nil },
	}
}

// Section is all of http but its address.
func Section(prepare part.Prepare) part.Section {
	return part.Section{
		Name: "http", Stays: "what was there stays in force", Prepare: prepare,
		Keys: []string{
			"http.callers", "http.anonymous", "http.hosts", "http.origins", "http.tls", "http.calls", "http.url", "http.a2a",
		},
		Waits: "what is valid for one address and with TLS may be invalid for another or without, and the listener is opened at the start",
		Fits: func(started, now *config.Config) bool {
			before, after := &started.HTTP, &now.HTTP
			return before.Address == after.Address && (before.TLS.Cert == "") == (after.TLS.Cert == "")
		},
		Files: func(c *config.Config) []string { return c.HTTP.TLS.Files() },
	}
}

// Prepare reads the files of http.tls, and the callers.
func (f *Fronts) Prepare(c *config.Config) (part.Change, error) {
	entry := f.entry
	if entry == nil { // it is off
		return part.Change{Commit: func() bool { return false }}, nil
	}
	conf := &c.HTTP
	if _, err := gate.New(gateOptions(conf)); err != nil {
		return part.Change{}, err
	}
	var secure *secured
	if conf.TLS.Cert != "" {
		var err error
		if secure, err = entry.read(httpTLS, &conf.TLS); err != nil {
			return part.Change{}, err
		}
	}
	fields := []zap.Field{zap.Int("callers", len(conf.Callers)), zap.Bool("tls", secure != nil), zap.Int("authorities", len(conf.TLS.CA))}
	if secure != nil {
		fields = append(fields, zap.Time("not_after", secure.leaf().NotAfter))
	}
	changed := len(config.Changed(f.o.Running(), c)) > 0
	return part.Change{
		Fields: fields,
		Commit: func() bool {
			// No error is possible: New has accepted the options of the gate, and the
			// configuration the ones for A2A.
			f.o.SetCallers(conf)
			_ = entry.gate.Set(gateOptions(conf))
			_ = f.a2a.Set(a2aTerms(conf))
			f.way.SetExchanges(conf.Calls)
			if secure != nil && entry.take(secure).anchors != secure.anchors {
				changed = true
			}
			return changed
		},
	}, nil
}

// certified are the open connections of clients with a certificate, so that they can be
// verified again with other authorities. The zero value needs good.
type certified struct {
	good func(chain []*x509.Certificate) bool

	mu   sync.Mutex
	open map[*tls.Conn]bool // true: it is a WebSocket now, of which the server does not say the end
}

type securedKey struct{}

// context is a ConnContext of http.Server, for left.
func (c *certified) context(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		return context.WithValue(ctx, securedKey{}, secure)
	}
	return ctx
}

// left is called after a request has been handled. If its connection was a WebSocket, that has
// ended.
func (c *certified) left(r *http.Request) {
	secure, _ := r.Context().Value(securedKey{}).(*tls.Conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[secure] {
		delete(c.open, secure)
	}
}

// state implements the ConnState of a server.
func (c *certified) state(conn net.Conn, state http.ConnState) {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return
	}
	switch state {
	case http.StateActive: // after the handshake
		if len(secure.ConnectionState().PeerCertificates) == 0 || !c.add(secure) {
			return
		}
		if !c.good(secure.ConnectionState().PeerCertificates) { // not any more
			_ = secure.Close()
		}
	case http.StateHijacked:
		c.mu.Lock()
		if _, known := c.open[secure]; known {
			c.open[secure] = true
		}
		c.mu.Unlock()
	case http.StateClosed:
		c.mu.Lock()
		delete(c.open, secure)
		c.mu.Unlock()
	case http.StateNew, http.StateIdle:
	}
}

// add adds a connection and reports whether it is new.
func (c *certified) add(conn *tls.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[*tls.Conn]bool)
	}
	_, known := c.open[conn]
	c.open[conn] = false
	return !known
}

// recheck closes the connections whose certificates are no longer valid.
func (c *certified) recheck() (kept, closed int) {
	c.mu.Lock()
	list := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, conn := range list {
		if c.good(conn.ConnectionState().PeerCertificates) {
			kept++
			continue
		}
		_ = conn.NetConn().Close() // does not wait for the client
		closed++
	}
	return kept, closed
}
