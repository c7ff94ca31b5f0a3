package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/internal/bridge/mcpfront"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/transport"
)

// fronts are what programs reach this endpoint by that know nothing of SlimWire. Each
// caller has a session of its own to this endpoint, over a pipe, so that rules,
// limits, hints, the audit trail and the metrics see it as they see every peer.
type fronts struct {
	passive
	d        *daemon
	conf     *config.HTTP
	listener net.Listener // nil: they are off
	entry    *httpEntry
	server   *http.Server
	mcp      *mcpfront.Front
	a2a      *a2afront.Front
	way      *door

	mu    sync.Mutex
	links map[string]*mcpfront.Link // by identity
	cards map[string]*agdisc.Cache  // by identity
}

// maxHTTP is how many connections the fronts hold at once.
const maxHTTP = 4096

// newFronts listens, if the configuration says so. It serves nothing yet.
func newFronts(d *daemon) (*fronts, error) {
	f := &fronts{d: d, conf: &d.config.HTTP, links: make(map[string]*mcpfront.Link), cards: make(map[string]*agdisc.Cache)}
	if f.conf.Address == config.HTTPOff {
		return f, nil
	}
	var err error
	if f.entry, err = newHTTPEntry(f.conf); err != nil {
		return nil, err
	}
	f.mcp = mcpfront.New(mcpfront.Options{
		Connect: f.mcpLink, Caller: gate.Caller, Trace: f.trace, Carrier: carrier{d}, Identity: d.credentials.identity(), MaxBody: int64(d.config.Limits.PayloadBytes),
	})
	f.server = f.entry.gate.Server(http.HandlerFunc(f.route))
	f.server.ConnState = f.entry.known.state
	if f.way, err = newDoor(d, all.Options{}); err != nil {
		return nil, err
	}
	if err := f.listen(); err != nil {
		f.way.close()
		return nil, err
	}
	return f, nil
}

func (f *fronts) listen() error {
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", f.conf.Address)
	if err != nil {
		return listenError("http.address", f.conf.Address, err)
	}
	f.listener = &capped{Listener: ln, slots: make(chan struct{}, maxHTTP)}
	if f.conf.TLS.Cert != "" {
		f.listener = tls.NewListener(f.listener, f.entry.config())
	}
	return nil
}

// tlsOf returns how the fronts speak TLS. A client need not show a certificate, but one
// that is shown has to be good; whose it is the gate looks at.
func tlsOf(conf *config.HTTPTLS) (*secured, error) {
	pair, err := tls.LoadX509KeyPair(conf.Cert, conf.Key)
	if err != nil {
		return nil, fmt.Errorf("http.tls: %w", err)
	}
	c := &secured{file: conf.Cert, Config: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	if len(conf.CA) == 0 {
		return c, nil
	}
	c.roots = x509.NewCertPool()
	for i, name := range conf.CA {
		bundle, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("http.tls.ca[%d]: %w", i, err)
		}
		vouching, err := addAnchors(c.roots, bundle, "", name)
		if err != nil {
			return nil, fmt.Errorf("http.tls.ca[%d]: %s: %w", i, name, err)
		}
		c.vouching = append(c.vouching, vouching...)
		c.anchors += string(bundle)
	}
	c.ClientAuth, c.ClientCAs = tls.RequestClientCert, c.roots // verified below, caps first
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return nil
		}
		return transport.VerifyClient(c.roots, s.PeerCertificates, time.Now())
	}
	return c, nil
}

// open implements part.
func (f *fronts) open() error {
	if f.listener == nil {
		return nil
	}
	if err := f.way.open(f.conf.Calls); err != nil {
		return err
	}
	return f.openA2A()
}

// door implements part.
func (f *fronts) door() *door { return f.way }

// serve implements part.
func (f *fronts) serve(context.Context) {
	if f.listener == nil {
		return
	}
	if err := f.server.Serve(f.listener); !errors.Is(err, http.ErrServerClosed) {
		f.d.log.Error("http front failed", zap.String("address", f.conf.Address), zap.Error(err))
	}
}

// secured is the present reading of the files of http.tls, nil if there are none.
func (f *fronts) secured() *secured {
	if f.entry == nil {
		return nil
	}
	return f.entry.secure.Load()
}

// route has a path served as it is: one that could be written in another way is none.
func (f *fronts) route(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == mcpfront.Path || strings.HasPrefix(r.URL.Path, mcpfront.Path+"/") {
		f.mcp.ServeHTTP(w, r)
		return
	}
	f.a2a.ServeHTTP(w, r)
}

// url is where the fronts are, or empty.
func (f *fronts) url() string {
	if f == nil || f.listener == nil {
		return ""
	}
	scheme := "http://"
	if f.conf.TLS.Cert != "" {
		scheme = "https://"
	}
	return scheme + f.listener.Addr().String()
}

// link returns the session of a caller, and makes one if there is none that lives.
func (f *fronts) link(caller string) (*mcpfront.Link, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.entry.gate.Knows(caller) { // the request came before a reload
		return nil, refusedCaller("this caller is not let in any more")
	}
	if l := f.links[caller]; l != nil && l.Session.Context().Err() == nil {
		return l, nil
	}
	s, err := f.way.pass(caller)
	if err != nil {
		return nil, refusedCaller("the access rules do not let this caller in")
	}
	l := &mcpfront.Link{Session: s, MCP: f.way.set.MCP.Client(s)}
	f.links[caller] = l
	return l, nil
}

func refusedCaller(why string) error {
	return &profiles.Error{Code: profiles.SecurityPolicy, Detail: reasonDenied, Text: why}
}

func (f *fronts) mcpLink(_ context.Context, caller string) (*mcpfront.Link, error) {
	return f.link(caller)
}

// trace returns the trace context that a request goes on with: that of its headers, if
// the rules let its caller set one.
func (f *fronts) trace(r *http.Request) profiles.Trace {
	t := obs.FromHeader(r.Header)
	if t.Parent != "" && !f.d.guard.Would(gate.Caller(r), "obs", "set", "") {
		return profiles.Trace{}
	}
	return t
}

// recheck implements part: the sessions of callers that are not let in any more end, and
// the connections of those whose certificates are not trusted.
func (f *fronts) recheck() (kept, closed int) {
	if f.listener == nil {
		return 0, 0
	}
	connsKept, connsClosed := f.entry.known.recheck()
	f.mu.Lock() // none is made meanwhile for who is not known
	defer f.mu.Unlock()
	kept, closed = f.way.recheck(func(caller string) error {
		if !f.entry.gate.Knows(caller) {
			return errGone
		}
		return nil
	})
	return connsKept + kept, connsClosed + closed
}

// isCaller reports whether an identity is one of callers of a front, which no
// certificate may have (ABUSE TL-11).
func isCaller(identity string) bool {
	name, ok := strings.CutPrefix(identity, gate.Prefix)
	return ok && gate.ValidName(name)
}

// look implements part.
func (f *fronts) look(h *Health) {
	if secure := f.secured(); secure != nil {
		h.Warnings = append(h.Warnings, secure.expiries(f.d.credentials.now())...)
	}
}

// drain implements part.
func (f *fronts) drain(ctx context.Context) error {
	if f.listener == nil {
		return nil
	}
	f.mcp.Drain()
	f.a2a.Drain()
	err := f.server.Shutdown(ctx)
	if err != nil {
		_ = f.server.Close()
	}
	return errors.Join(err, f.way.near.Shutdown(ctx))
}

// close implements part. The profiles of this endpoint are closed, or were never opened.
func (f *fronts) close() error {
	if f.listener == nil {
		return nil
	}
	_ = f.server.Close()
	_ = f.listener.Close()
	f.way.end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	f.mcp.Close(ctx)
	f.closeCards()
	f.way.close()
	return nil
}
