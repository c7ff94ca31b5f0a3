// Package fronts serves HTTP clients that do not use SlimWire: clients of MCP servers and
// of A2A agents, and programs that speak A2A-SDL.
package fronts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/entrances"
	"github.com/slimwire/swp/daemon/internal/guard"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/internal/bridge/mcpfront"
	"github.com/slimwire/swp/internal/bridge/sdlfront"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/transport"
)

// Fronts serve HTTP clients that do not use SlimWire. Each caller has a separate session to
// this endpoint, over a pipe, so that rules, limits, hints, the audit trail and the metrics
// treat it like every peer.
type Fronts struct {
	part.Passive
	o        Options
	conf     *config.HTTP
	listener net.Listener // nil: they are off
	passed   net.Listener // nil: no other node passes connections
	entry    *httpEntry
	server   *http.Server
	mcp      *mcpfront.Front
	a2a      *a2afront.Front
	sdl      http.Handler // nil: A2A-SDL is not served
	way      *part.Door

	mu    sync.Mutex
	links map[string]*mcpfront.Link // by identity
	cards map[string]*agdisc.Cache  // by identity
}

// maxHTTP bounds the open connections of the fronts.
const maxHTTP = 4096

// Options configure Fronts.
type Options struct {
	Config  *config.Config
	Log     *zap.Logger
	Sockets *entrances.Sockets
	Door    part.DoorOptions
	Carrier profiles.Carrier
	Now     func() time.Time // for the validity of certificates

	// Running returns the configuration in force.
	Running func() *config.Config

	// Partner reports whether there is a partner of a name.
	Partner func(name string) bool

	// SetCallers is called with changed callers before they are in force.
	SetCallers func(*config.HTTP)

	Memory *memory.Budget

	// Passed is the listener of connections that other nodes pass, or nil.
	Passed net.Listener

	// Shared reports whether many callers share an address (limits.proxies).
	Shared func(netip.Addr) bool

	// SDL makes the handler for envelopes of A2A-SDL; it returns nil if they are not served.
	SDL func(sdlfront.HTTP) http.Handler

	// Access decides which callers may set a trace context and hints, whose large requests are
	// read, and which agents are in the catalog of a caller.
	Access interface {
		Would(identity, profile, operation, name string) bool
		Lets(identity, profile, operation string) bool
		Serves(identity, profile string) bool
	}
}

// New listens if the fronts are configured. It serves nothing yet.
func New(o Options) (*Fronts, error) {
	f := &Fronts{o: o, conf: &o.Config.HTTP, links: make(map[string]*mcpfront.Link), cards: make(map[string]*agdisc.Cache)}
	if f.conf.Address == config.HTTPOff {
		if o.Passed != nil {
			return f, o.Passed.Close() // other nodes are told that there is no HTTP here
		}
		return f, nil
	}
	var err error
	if f.entry, err = newHTTPEntry(gateOptions(f.conf), httpTLS, &f.conf.TLS, identity.KeptListsOf(o.Config, o.Now), o.Log); err != nil {
		return nil, err
	}
	f.mcp = mcpfront.New(mcpfront.Options{
		Connect: f.mcpLink, Caller: gate.Caller, Carried: f.carried, Carrier: o.Carrier, Identity: o.Door.Self(), MaxBody: int64(o.Config.Limits.PayloadBytes),
		Memory: o.Memory, Served: func(caller string) bool { return o.Access.Serves(caller, "mcp") },
	})
	f.sdl = o.SDL(sdlfront.HTTP{Session: f.session, Caller: gate.Caller, Carried: f.carried, Carrier: o.Carrier})
	f.server = f.entry.gate.Server(http.HandlerFunc(f.route))
	f.server.ConnState = f.entry.known.state
	f.server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return f.entry.known.context(entrances.Context(ctx, conn), conn)
	}
	if f.way, err = part.NewDoor(o.Door, all.Options{}); err != nil {
		return nil, err
	}
	if err := f.listen(o.Sockets); err != nil {
		f.way.Close()
		return nil, err
	}
	return f, nil
}

func (f *Fronts) listen(sockets *entrances.Sockets) error {
	ln, err := sockets.Listen(f.conf.Address)
	if err != nil {
		return entrances.ListenError("http.address", f.conf.Address, err)
	}
	f.listener = f.pool(ln)
	if f.o.Passed != nil {
		f.passed = f.pool(f.o.Passed)
	}
	return nil
}

// pool returns a listener with bounds, and with TLS if that is configured.
func (f *Fronts) pool(ln net.Listener) net.Listener {
	p := entrances.NewPool(ln, maxHTTP, f.o.Shared, f.o.Memory)
	if f.conf.TLS.Cert == "" {
		return p
	}
	return tls.NewListener(p, f.entry.config())
}

// httpTLS is the key of the files of the fronts.
const httpTLS = "http.tls"

// tlsOf returns the TLS configuration with the files under a key. A client certificate is optional, but
// if there is one it must be valid. The gate identifies the caller.
func tlsOf(key string, conf *config.HTTPTLS, kept identity.KeptLists) (*secured, error) {
	if err := config.CheckPrivate(conf.Key); err != nil {
		return nil, fmt.Errorf("%s.key: %w", key, err)
	}
	pair, err := tls.LoadX509KeyPair(conf.Cert, conf.Key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	c := &secured{key: key, file: conf.Cert, Config: &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		SessionTicketsDisabled: true, // each connection is judged by the present certificates
	}}
	if len(conf.CA) == 0 {
		return c, nil
	}
	c.roots = x509.NewCertPool()
	for i, name := range conf.CA {
		vouching, octets, err := identity.AddBundle(c.roots, "", name)
		if err != nil {
			return nil, fmt.Errorf("%s.ca[%d]: %w", key, i, err)
		}
		c.vouching = append(c.vouching, vouching...)
		c.anchors += octets
	}
	var octets string
	if c.lists, octets, err = kept.Read(key+".crl", conf.CRL, c.vouching); err != nil {
		return nil, err
	}
	c.anchors += "\n" + octets
	crls := c.lists.CRLs()
	c.ClientAuth, c.ClientCAs = tls.RequestClientCert, c.roots // verified below, caps first
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return nil
		}
		return transport.VerifyClient(c.roots, crls, s.PeerCertificates, time.Now())
	}
	return c, nil
}

// CheckTLS reads the files under a key, such as http.tls, and returns warnings for certificates
// that expire soon.
func CheckTLS(key string, conf *config.HTTPTLS, kept identity.KeptLists, now time.Time) (warnings []string, err error) {
	secure, err := tlsOf(key, conf, kept)
	if err != nil {
		return nil, err
	}
	return secure.expiries(now), nil
}

// Open implements part.Part.
func (f *Fronts) Open() error {
	if f.listener == nil {
		return nil
	}
	if err := f.way.Open(f.conf.Calls); err != nil {
		return err
	}
	return f.openA2A()
}

// Door implements part.Part.
func (f *Fronts) Door() *part.Door { return f.way }

// Serve implements part.Part.
func (f *Fronts) Serve(context.Context) {
	if f.listener == nil {
		return
	}
	var work sync.WaitGroup
	defer work.Wait()
	serve := func(ln net.Listener) {
		if err := f.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			f.o.Log.Error("http front failed", zap.String("address", f.conf.Address), zap.Error(err))
		}
	}
	if f.passed != nil {
		work.Go(func() { serve(f.passed) })
	}
	serve(f.listener)
}

// secured returns the present content of the files of http.tls, or nil.
func (f *Fronts) secured() *secured {
	if f.entry == nil {
		return nil
	}
	return f.entry.secure.Load()
}

// Certificates describes the certificate of the fronts, and the trust anchors of clients.
func (f *Fronts) Certificates() (shown, anchors []certinfo.Info) {
	return f.secured().describe(f.o.Now())
}

// describe returns the certificate and the trust anchors; none of nil.
func (s *secured) describe(now time.Time) (shown, anchors []certinfo.Info) {
	if s == nil {
		return nil, nil
	}
	one := certinfo.Of(s.leaf(), now)
	one.File = s.file
	return []certinfo.Info{one}, identity.InfoOf(s.vouching, now)
}

// route serves a path literally. A path that is not in its normal form gets 404.
func (f *Fronts) route(w http.ResponseWriter, r *http.Request) {
	defer entrances.Admit(r.Context(), gate.Caller(r))()
	defer f.entry.known.left(r)
	if r.URL.Path == mcpfront.Path || strings.HasPrefix(r.URL.Path, mcpfront.Path+"/") {
		f.mcp.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == sdlfront.Path && f.sdl != nil {
		f.sdl.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == catalogPath || r.URL.Path == ardPath {
		f.catalog(w, r)
		return
	}
	f.a2a.ServeHTTP(w, r)
}

// URL is the URL of the fronts, or empty.
func (f *Fronts) URL() string {
	if f == nil || f.listener == nil {
		return ""
	}
	return URLOf(f.conf, f.listener.Addr())
}

// URLOf is the URL of fronts at an address.
func URLOf(conf *config.HTTP, at net.Addr) string {
	scheme := "http://"
	if conf.TLS.Cert != "" {
		scheme = "https://"
	}
	return scheme + at.String()
}

// link returns the session of a caller, and makes one if necessary.
func (f *Fronts) link(caller string) (*mcpfront.Link, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.links[caller]; l != nil && f.way.Serves(caller, l.Session) {
		return l, nil
	}
	s, err := f.way.Pass(caller)
	if err != nil {
		return nil, refusedCaller("the access rules do not let this caller in")
	}
	l := &mcpfront.Link{Session: s, MCP: f.way.Profiles().MCP.Client(s)}
	f.links[caller] = l
	return l, nil
}

// session returns the session of a caller.
func (f *Fronts) session(caller string) (profiles.Session, error) {
	l, err := f.link(caller)
	if err != nil {
		return nil, err
	}
	return l.Session, nil
}

func refusedCaller(why string) error {
	return &profiles.Error{Code: profiles.SecurityPolicy, Detail: guard.ReasonDenied, Text: why}
}

func (f *Fronts) mcpLink(_ context.Context, caller string) (*mcpfront.Link, error) {
	return f.link(caller)
}

// carried returns the context of a request with its trace context and its hints, if the
// caller may set them. Without that right there is no trace context, and hints refuse
// the request; so do hints that cannot be read.
func (f *Fronts) carried(r *http.Request) (context.Context, error) {
	ctx, caller := r.Context(), gate.Caller(r)
	if t := obs.FromHeader(r.Header); t.Parent != "" && f.o.Access.Would(caller, "obs", "set", "") {
		ctx = profiles.WithTrace(ctx, t)
	}
	said := r.Header.Values(profiles.HeaderPolicy)
	if len(said) == 0 {
		return ctx, nil
	}
	if !f.o.Access.Lets(caller, policyhint.Name, "set") {
		return nil, &profiles.Error{Code: profiles.SecurityPolicy, Detail: "access", Text: "the access rules do not allow " + profiles.HeaderPolicy, Denied: true}
	}
	hints, err := profiles.ParseHints(strings.Join(said, ","))
	for i := 0; i < len(hints) && err == nil; i++ {
		hints[i], err = policyhint.Check(hints[i])
	}
	if err != nil {
		return nil, err
	}
	return profiles.WithHints(ctx, hints), nil
}

// Recheck implements part.Part: it ends the requests and sessions of callers that are no
// longer admitted, requests with a token or certificate that is no longer valid, and
// connections whose certificates are no longer trusted.
func (f *Fronts) Recheck() (kept, closed int) {
	if f.listener == nil {
		return 0, 0
	}
	connsKept, connsClosed := f.entry.known.recheck()
	f.entry.gate.Review(f.o.Door.Keeper.Deny)
	f.mcp.Review(f.o.Door.Keeper.Deny)
	f.mu.Lock() // prevents new sessions for removed callers
	defer f.mu.Unlock()
	kept, closed = f.way.Recheck()
	return connsKept + kept, connsClosed + closed
}

// Look implements part.Part.
func (f *Fronts) Look(h *part.Health) {
	if secure := f.secured(); secure != nil {
		h.Warn(secure.expiries(f.o.Now())...)
	}
}

// Drain implements part.Part.
func (f *Fronts) Drain(ctx context.Context) error {
	if f.listener == nil {
		return nil
	}
	f.mcp.Drain()
	f.a2a.Drain()
	err := f.server.Shutdown(ctx)
	if err != nil {
		_ = f.server.Close()
	}
	return errors.Join(err, f.way.Shutdown(ctx))
}

// Close implements part.Part. The profiles of this endpoint are closed before, or were
// never opened.
func (f *Fronts) Close() error {
	if f.listener == nil {
		return nil
	}
	_ = f.server.Close()
	_ = f.listener.Close()
	f.way.End()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	f.mcp.Close(ctx)
	f.closeCards()
	f.way.Close()
	return nil
}
