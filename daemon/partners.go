package daemon

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
)

// partners are the links to federation partners.
type partners struct {
	passive
	directory partner.Directory
	daemon    *daemon
	log       *zap.Logger
	audit     *zap.Logger
	refusals  *prometheus.CounterVec
	dialling  map[bool]*endpoint.Endpoint // for the sessions that are dialled, by their error path
	dialled   connections
	declared  atomic.Pointer[map[string]*policyhint.Target] // of the partners, by name

	mu    sync.Mutex
	conf  config.Partners // in force
	links map[string]*partner.Link
	shut  bool
}

func newPartners(d *daemon) *partners {
	return &partners{
		daemon: d, log: d.log.Named(boundlog.Session), conf: make(config.Partners), links: make(map[string]*partner.Link),
		dialling: make(map[bool]*endpoint.Endpoint), audit: d.log.Named(boundlog.Security), refusals: newRefusals(),
	}
}

// of returns the partner that the first segment of a name says, if it is one.
func (p *partners) of(name string) (string, bool) {
	link, _, ok := p.directory.Split(name)
	if !ok {
		return "", false
	}
	return link.Name(), true
}

// backend is the MCP servers of this endpoint and those behind partners.
func (p *partners) backend(local mcpmap.Backend) mcpmap.Backend {
	return &partner.Backend{
		Local: local, Directory: &p.directory,
		Client: func(s profiles.Session) *mcpmap.Client { return p.daemon.profiles.MCP.Client(s) },
	}
}

// apply has the links be those of a configuration: what has not changed stays, what
// has is begun anew. Their trust has been loaded before.
func (p *partners) apply(conf config.Partners) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut || reflect.DeepEqual(conf, p.conf) {
		return
	}
	for name, link := range p.links {
		if now, ok := conf[name]; !ok || !reflect.DeepEqual(now, p.conf[name]) {
			link.Close()
			delete(p.links, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(conf)) {
		if p.links[name] != nil {
			continue
		}
		link, err := partner.New(p.options(name, conf[name]))
		if err != nil {
			p.log.Error("partner", zap.String("partner", name), zap.Error(err)) // what the configuration allows is allowed
			continue
		}
		p.links[name] = link
	}
	removed := slices.DeleteFunc(slices.Collect(maps.Keys(p.conf)), func(name string) bool { return p.links[name] != nil })
	p.conf = maps.Clone(conf)
	declared := make(map[string]*policyhint.Target, len(conf))
	for name, c := range conf {
		declared[name] = c.Hints.Target()
	}
	p.declared.Store(&declared)
	p.directory.Set(slices.Collect(maps.Values(p.links)))
	for _, name := range removed { // whoever counts looks at the directory afterwards
		p.forget(name)
	}
	for _, ep := range p.daemon.listeners.endpoints() {
		for s := range ep.Sessions() { // a new partner may have been here all along
			p.directory.Adopt(s)
		}
	}
}

// forget drops what is counted of a partner that there is no more.
func (p *partners) forget(name string) {
	p.refusals.DeletePartialMatch(prometheus.Labels{"partner": name})
	p.daemon.exchanges.latency.forgetPartner(name)
}

func (p *partners) options(name string, c config.Partner) partner.Options {
	policy := &transport.Policy{Credentials: p.daemon.credentials.Credentials, Expect: c.Identity}
	o := partner.Options{
		Name: name, Identity: c.Identity, Self: p.daemon.credentials.identity,
		Dial: func(ctx context.Context, addr transport.Addr) (transport.Conn, error) {
			return p.dial(ctx, addr, policy)
		},
		Attach: func(conn transport.Conn) *endpoint.Session {
			p.dialled.add(conn)
			return p.dialling[c.ErrorFrames].Attach(conn)
		},
		Trace:   crosses[c.Trace],
		Carrier: carrier{p.daemon},
		Tasks:   p.daemon.profiles.A2A,
		Idle:    p.daemon.config.Limits.Idle,
		Observe: p.observe, Refused: p.refused, InFlight: c.InFlight, Ending: p.daemon.credentials.ends,
	}
	for _, a := range c.Addresses {
		o.Addresses = append(o.Addresses, a.Addr)
	}
	if c.Extensions {
		o.Extensions = map[uint64][]uint64{
			mcpmap.ProfileID: {mcpmap.ExtTarget, mcpmap.ExtSession},
			a2a.ProfileID:    {a2a.ExtAgent},
		}
	}
	return o
}

var crosses = map[string]partner.Trace{
	config.TraceParent: partner.TraceParent, config.TraceFull: partner.TraceFull, config.TraceNone: partner.TraceNone,
}

// dial connects to a partner, unless the access rules do not let it in.
func (p *partners) dial(ctx context.Context, addr transport.Addr, policy *transport.Policy) (conn transport.Conn, err error) {
	if addr.Transport == "quic" {
		conn, err = quicconn.Dial(ctx, addr.HostPort(), policy, quicconn.Options{OnSecurity: p.daemon.observer.Security})
	} else {
		conn, err = tlsconn.Dial(ctx, addr.HostPort(), policy, tlsconn.Options{OnSecurity: p.daemon.observer.Security})
	}
	if err == nil {
		err = p.daemon.refuse(conn)
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// inFlight is endpoint.Options.InFlightOf: a link carries what many have to say.
func (p *partners) inFlight(identity string) int { return p.directory.InFlight(identity) }

// observe logs what happens to links.
func (p *partners) observe(e partner.Event) {
	fields := []zap.Field{zap.String("partner", e.Name)}
	if e.Up != nil {
		peer := e.Up.Session.Peer()
		fields = append(fields, zap.Uint64("session", e.Up.Session.ID()), zap.Bool("dialled", e.Up.Dialled),
			zap.String("transport", peer.Transport), zap.String("addr", peer.Addr))
	}
	switch e.What {
	case partner.Connected:
		p.log.Info("partner connected", fields...)
	case partner.Lost:
		p.log.Warn("partner disconnected", append(fields, zap.NamedError("cause", e.Err))...)
	case partner.Failed:
		p.log.Warn("partner not reached", append(fields, zap.Error(e.Err))...)
	}
}

// open implements part. What is dialled has bounds of its own: many peers must not keep a
// partner from being reached.
func (p *partners) open() error {
	for _, errorFrames := range []bool{false, true} {
		ep, err := endpoint.New(p.daemon.endpointOptions(errorFrames))
		if err != nil {
			return err
		}
		p.dialling[errorFrames] = ep
	}
	return nil
}

// endpoints implements part.
func (p *partners) endpoints() []*endpoint.Endpoint { return slices.Collect(maps.Values(p.dialling)) }

// begin implements part.
func (p *partners) begin() { p.apply(p.daemon.config.Partners) }

// recheck implements part.
func (p *partners) recheck() (kept, closed int) { return p.daemon.held(p.dialled.list()) }

// retire implements part: the links end. Sessions are drained with their endpoints.
func (p *partners) retire() {
	p.mu.Lock()
	p.shut = true
	links := slices.Collect(maps.Values(p.links))
	p.mu.Unlock()
	for _, link := range links {
		link.Drain()
		link.Close()
	}
}

// status returns the state of each link, by name.
func (p *partners) status() []partner.Status {
	list := []partner.Status{} // never nil, which JSON shows as null
	for _, link := range p.directory.Links() {
		s := link.Status()
		s.Failure = boundlog.Clean(s.Failure)
		list = append(list, s)
	}
	return list
}

// look implements part.
func (p *partners) look(h *Health) {
	h.Warnings = append(append(h.Warnings, p.warnings()...), p.expiries()...)
}

// warnings says which partners are away.
func (p *partners) warnings() []string {
	var list []string
	for _, s := range p.status() {
		if s.Up {
			continue
		}
		why := s.Failure
		if why == "" {
			why = "it has not connected yet"
		}
		list = append(list, fmt.Sprintf("partner %s is away since %s: %s", s.Name, s.Since.UTC().Format(time.RFC3339), why))
	}
	return list
}

var (
	partnerUp       = prometheus.NewDesc("swpd_partner_up", "1 while there is a session to the partner.", []string{"partner"}, nil)
	partnerConnects = prometheus.NewDesc("swpd_partner_connects_total", "Sessions to the partner that carried something.", []string{"partner"}, nil)
	partnerFailures = prometheus.NewDesc("swpd_partner_failures_total", "Rounds in which no address of the partner answered.", []string{"partner"}, nil)
)

// collectors implements part.
func (p *partners) collectors() []prometheus.Collector {
	return []prometheus.Collector{p, expiryGauges{p.daemon}}
}

// Describe implements prometheus.Collector. Labels are names from the
// configuration.
func (p *partners) Describe(ch chan<- *prometheus.Desc) {
	ch <- partnerUp
	ch <- partnerConnects
	ch <- partnerFailures
	p.refusals.Describe(ch)
}

// Collect implements prometheus.Collector.
func (p *partners) Collect(ch chan<- prometheus.Metric) {
	for _, s := range p.status() {
		up := 0.0
		if s.Up {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(partnerUp, prometheus.GaugeValue, up, s.Name)
		ch <- prometheus.MustNewConstMetric(partnerConnects, prometheus.CounterValue, float64(s.Connects), s.Name)
		ch <- prometheus.MustNewConstMetric(partnerFailures, prometheus.CounterValue, float64(s.Failures), s.Name)
	}
	p.refusals.Collect(ch)
}

// adopting is an Observer that hands the sessions of partners to their links.
type adopting struct {
	*observer
	directory *partner.Directory
}

// Opened implements endpoint.Observer.
func (a adopting) Opened(s *endpoint.Session) {
	a.observer.Opened(s)
	a.directory.Adopt(s)
}
