package fronts

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/entrances"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/transport"
)

// MaxMonitor bounds the open connections of a Monitor.
const MaxMonitor = 64

// Monitor is the listener of section metrics, for monitoring from other machines. It needs TLS,
// and a token or a client certificate.
type Monitor struct {
	part.Passive
	o        MonitorOptions
	entry    *httpEntry   // nil: it is off
	listener net.Listener // nil: it is off
	server   *http.Server
}

// MonitorOptions configure a Monitor.
type MonitorOptions struct {
	Config  *config.Config
	Log     *zap.Logger
	Sockets *entrances.Sockets
	Now     func() time.Time // for the validity of certificates

	// Handler serves the requests of callers that were let in.
	Handler http.Handler
}

// NewMonitor reads the files. It listens from Open on.
func NewMonitor(o MonitorOptions) (*Monitor, error) {
	m := &Monitor{o: o}
	conf := &o.Config.Metrics
	if conf.Address == config.AdminOff {
		return m, nil
	}
	var err error
	m.entry, err = newHTTPEntry(monitorGate(conf), monitorTLS, &conf.TLS, identity.KeptListsOf(o.Config, o.Now), o.Log)
	return m, err
}

const monitorTLS = "metrics.tls"

func monitorGate(conf *config.Metrics) gate.Options {
	o := conf.Gate()
	o.Identity = transport.Identity
	return o
}

// Open implements part.Part.
func (m *Monitor) Open() error {
	if m.entry == nil {
		return nil
	}
	address := m.o.Config.Metrics.Address
	ln, err := m.o.Sockets.Listen(address)
	if err != nil {
		return entrances.ListenError("metrics.address", address, err)
	}
	m.listener = tls.NewListener(entrances.NewPool(ln, MaxMonitor, nil, nil), m.entry.config())
	m.server = m.entry.gate.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer entrances.Admit(r.Context(), gate.Caller(r))()
		w.Header().Set("Cache-Control", "no-store")
		m.o.Handler.ServeHTTP(w, r)
	}))
	m.server.ConnState, m.server.ConnContext = m.entry.known.state, entrances.Context
	m.server.WriteTimeout, m.server.MaxHeaderBytes = 10*time.Second, 8<<10
	return nil
}

// Serve implements part.Part.
func (m *Monitor) Serve(context.Context) {
	if m.listener == nil {
		return
	}
	if err := m.server.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
		m.o.Log.Error("listener of metrics failed", zap.Error(err))
	}
}

// Address is the address of the listener, or empty.
func (m *Monitor) Address() string {
	if m.listener == nil {
		return ""
	}
	return m.listener.Addr().String()
}

// Certificates describes the certificate, and the trust anchors of clients.
func (m *Monitor) Certificates() (shown, anchors []certinfo.Info) {
	if m.entry == nil {
		return nil, nil
	}
	return m.entry.secure.Load().describe(m.o.Now())
}

// Recheck implements part.Part: it closes connections whose certificates are no longer trusted,
// and ends requests with credentials that are no longer valid.
func (m *Monitor) Recheck() (kept, closed int) {
	if m.entry == nil {
		return 0, 0
	}
	m.entry.gate.Review(func(string) error { return nil })
	return m.entry.known.recheck()
}

// Look implements part.Part.
func (m *Monitor) Look(h *part.Health) {
	if m.entry != nil {
		h.Warn(m.entry.secure.Load().expiries(m.o.Now())...)
	}
}

// Close implements part.Part.
func (m *Monitor) Close() error {
	if m.listener != nil {
		_ = m.server.Close()
		_ = m.listener.Close()
	}
	return nil
}

// MonitorSection is all of metrics but its address.
func MonitorSection(prepare part.Prepare) part.Section {
	return part.Section{
		Name: "metrics", Stays: "what was there stays in force", Prepare: prepare,
		Keys:  []string{"metrics.tokens", "metrics.certificates", "metrics.tls"},
		Waits: "what is valid for one address may be invalid for another, and the listener is opened at the start",
		Fits: func(started, now *config.Config) bool {
			return started.Metrics.Address == now.Metrics.Address
		},
		Files: func(c *config.Config) []string { return c.Metrics.TLS.Files() },
	}
}

// Prepare reads the files of metrics.tls, and the callers.
func (m *Monitor) Prepare(c *config.Config) (part.Change, error) {
	if m.entry == nil {
		return part.Change{Commit: func() bool { return false }}, nil
	}
	conf := &c.Metrics
	if _, err := gate.New(monitorGate(conf)); err != nil {
		return part.Change{}, err
	}
	secure, err := m.entry.read(monitorTLS, &conf.TLS)
	if err != nil {
		return part.Change{}, err
	}
	return part.Change{
		Fields: []zap.Field{zap.Int("authorities", len(conf.TLS.CA)), zap.Time("not_after", secure.leaf().NotAfter)},
		Commit: func() bool {
			_ = m.entry.gate.Set(monitorGate(conf)) // gate.New has accepted it
			m.entry.take(secure)
			return true
		},
	}, nil
}
