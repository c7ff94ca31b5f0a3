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
	"github.com/slimwire/swp/transport/endpoint"
)

// fronts are what programs reach this endpoint by that know nothing of SlimWire. Each
// caller has a session of its own to this endpoint, over a pipe, so that rules,
// limits, hints, the audit trail and the metrics see it as they see every peer.
type fronts struct {
	d        *daemon
	conf     *config.HTTP
	listener net.Listener // nil: they are off
	door     *httpDoor
	server   *http.Server
	mcp      *mcpfront.Front
	a2a      *a2afront.Front    // once there are endpoints
	set      *all.Set           // profiles of the callers' ends
	near     *endpoint.Endpoint // of the callers' ends
	far      *endpoint.Endpoint // of this endpoint's ends
	open     connections        // this endpoint's ends

	mu    sync.Mutex
	links map[string]*mcpfront.Link // by identity
	cards map[string]*agdisc.Cache  // by identity
}

// Bounds of the fronts beside those of the configuration.
const (
	maxHTTP    = 4096 // connections
	pipeIdle   = 365 * 24 * time.Hour
	pipeBudget = 1_000_000 // refusals a minute: what costs a peer its connection must not cost a caller's other programs theirs
)

// newFronts listens, if the configuration says so. It serves nothing yet.
func newFronts(d *daemon) (*fronts, error) {
	f := &fronts{d: d, conf: &d.config.HTTP, links: make(map[string]*mcpfront.Link), cards: make(map[string]*agdisc.Cache)}
	if f.conf.Address == config.HTTPOff {
		return f, nil
	}
	var err error
	if f.door, err = newHTTPDoor(f.conf); err != nil {
		return nil, err
	}
	f.mcp = mcpfront.New(mcpfront.Options{
		Connect: f.mcpLink, Caller: gate.Caller, Trace: f.trace, Identity: d.credentials.identity(), MaxBody: int64(d.config.Limits.PayloadBytes),
	})
	f.server = f.door.gate.Server(http.HandlerFunc(f.route))
	f.server.ConnState = f.door.known.state
	if err := f.listen(); err != nil {
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
		f.listener = tls.NewListener(f.listener, f.door.config())
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
	c := &secured{Config: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	if len(conf.CA) == 0 {
		return c, nil
	}
	c.roots = x509.NewCertPool()
	for i, name := range conf.CA {
		bundle, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("http.tls.ca[%d]: %w", i, err)
		}
		if err := addBundle(c.roots, bundle); err != nil {
			return nil, fmt.Errorf("http.tls.ca[%d]: %s: %w", i, name, err)
		}
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

// openEndpoints makes both ends of the pipes. A pipe is never idle: what its caller
// has open at this endpoint would end with it.
func (f *fronts) openEndpoints() error {
	if f.listener == nil {
		return nil
	}
	var err error
	if f.set, err = all.New(all.Options{Version: f.d.opts.Version}); err != nil {
		return err
	}
	far := f.d.endpointOptions(false)
	far.InFlightOf = nil
	far.Bounds.InFlight, far.Bounds.LongExchanges = f.conf.Calls, f.conf.Calls
	far.Bounds.Idle, far.Bounds.LongIdle, far.Bounds.ErrorBudget, far.Bounds.PaceBudget = pipeIdle, pipeIdle, pipeBudget, pipeBudget
	if f.far, err = endpoint.New(far); err != nil {
		return err
	}
	near := endpoint.Options{
		Observer: endpoint.Discard, // the other end tells
		Registry: f.set.Registry, Tracer: endpoint.ContextFunc(f.set.Attach),
		FrameLimit: far.FrameLimit, Envelope: far.Envelope, Bounds: far.Bounds,
	}
	if f.near, err = endpoint.New(near); err != nil {
		return err
	}
	f.d.endpoints = append(f.d.endpoints, f.far)
	return f.openA2A()
}

// serve serves until the listener is closed.
func (f *fronts) serve() error {
	err := f.server.Serve(f.listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
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
	if f.d.guard.Denied(caller) {
		return nil, &profiles.Error{Code: profiles.SecurityPolicy, Detail: reasonDenied, Text: "the access rules do not let this caller in"}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.door.gate.Knows(caller) { // the request came before a reload
		return nil, &profiles.Error{Code: profiles.SecurityPolicy, Detail: reasonDenied, Text: "this caller is not let in any more"}
	}
	if l := f.links[caller]; l != nil && l.Session.Context().Err() == nil {
		return l, nil
	}
	near, far := transport.NewPipe(transport.PipeOptions{A: caller, B: f.d.credentials.identity()})
	f.open.add(far)
	f.far.Attach(far)
	s := f.near.Attach(near)
	l := &mcpfront.Link{Session: s, MCP: f.set.MCP.Client(s)}
	f.links[caller] = l
	return l, nil
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

// recheck ends the sessions of callers that are not let in any more, and the connections
// of those whose certificates are not trusted.
func (f *fronts) recheck() (kept, closed int) {
	if f.listener == nil {
		return 0, 0
	}
	kept, closed = f.door.known.recheck()
	f.mu.Lock() // none is made meanwhile for who is not known
	open := f.open.list()
	f.mu.Unlock()
	for _, conn := range open {
		switch caller := conn.Peer().Identity; {
		case f.d.guard.Denied(caller):
			f.d.hangUp(conn, reasonDenied, errDenied)
		case !f.door.gate.Knows(caller):
			f.d.hangUp(conn, reasonDenied, errGone)
		default:
			kept++
			continue
		}
		closed++
	}
	return kept, closed
}

// isCaller reports whether an identity is one of callers of a front, which no
// certificate may have (ABUSE TL-11).
func isCaller(identity string) bool {
	name, ok := strings.CutPrefix(identity, gate.Prefix)
	return ok && gate.ValidName(name)
}

// drain lets what is in flight end, until ctx does.
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
	return errors.Join(err, f.near.Shutdown(ctx))
}

// close ends what is left. It is called when the profiles are closed, or were never
// opened.
func (f *fronts) close() {
	if f.listener == nil {
		return
	}
	_ = f.server.Close()
	_ = f.listener.Close()
	if f.near == nil {
		return
	}
	_ = f.near.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	f.mcp.Close(ctx)
	f.closeCards()
	f.set.Close()
}

// run serves the fronts, if there are any.
func (f *fronts) run(tasks *sync.WaitGroup) {
	if f.listener == nil {
		return
	}
	tasks.Go(func() {
		if err := f.serve(); err != nil {
			f.d.log.Error("http front failed", zap.String("address", f.conf.Address), zap.Error(err))
		}
	})
}
