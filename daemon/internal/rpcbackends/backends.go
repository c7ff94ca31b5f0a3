// Package rpcbackends forwards calls of RPC methods to the HTTP servers of the
// configuration.
package rpcbackends

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/health"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/bridge/rpchttp"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
)

// Backends are the HTTP servers that serve RPC methods. Each has separate connections and a
// bound on calls, so that one that hangs does not affect the others. Reloads run one at a
// time; other methods may be called during a reload.
type Backends struct {
	part.Passive
	now      atomic.Pointer[table]
	memory   *memory.Budget
	own      map[string]rpc.Method
	declare  func(*config.Config)
	log      *zap.Logger
	failures *prometheus.CounterVec
	health   *health.Records
}

// table has the backends of one configuration.
type table struct {
	methods map[string]rpc.Method
	urls    map[string]string // by name
	names   []string
	clients []*upstream.Client
	places  []*fair.Slots // by the order of names
}

// Options configure Backends.
type Options struct {
	Config *config.Config
	Log    *zap.Logger
	Memory *memory.Budget  // for their answers
	Health *health.Records // has a record of each backend; nil: nobody has one

	// Own are the methods of the program itself: no backend may serve one.
	Own map[string]rpc.Method

	// Declare puts the hints of a configuration in force.
	Declare func(*config.Config)
}

// New does not connect yet.
func New(o Options) (*Backends, error) {
	b := &Backends{
		memory: o.Memory, own: o.Own, declare: o.Declare, health: o.Health, log: o.Log.Named(boundlog.Backend),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swpd_rpc_backend_failures_total", Help: "Calls that got no proper response.",
		}, []string{"backend"}),
	}
	t, err := b.read(o.Config)
	if err != nil {
		return nil, err
	}
	b.put(t)
	b.health.Probe(health.Backend, b.prober)
	return b, nil
}

// prober is a health.Prober: a backend is asked for a connection.
func (b *Backends) prober(name string) func(context.Context, *health.Entry) {
	url := b.now.Load().urls[name]
	if url == "" {
		return nil
	}
	return health.Connects(url, health.BackendUnreached)
}

// Offer implements part.Part.
func (b *Backends) Offer(o *all.Options) error {
	o.RPC.Resolve = b.method
	o.RPC.Names = func() []string { return slices.Collect(maps.Keys(b.now.Load().methods)) }
	return nil
}

// calls is how many calls a backend gets at once.
const calls = 256

// Pools returns whose calls are under way at each backend, sorted by name.
func (b *Backends) Pools() (list []part.Pool) {
	t := b.now.Load()
	for i, name := range t.names {
		list = append(list, t.places[i].Pool("calls of "+name))
	}
	return list
}

// read makes the backends of a configuration, without connecting.
func (b *Backends) read(c *config.Config) (*table, error) {
	t := &table{methods: make(map[string]rpc.Method), urls: make(map[string]string), names: slices.Sorted(maps.Keys(c.RPC.Backends))}
	for _, name := range t.names {
		conf := c.RPC.Backends[name]
		client := upstream.New(upstream.Options{Silence: conf.Timeout, Calls: calls, Memory: b.memory})
		t.clients, t.urls[name] = append(t.clients, client), conf.URL
		places := fair.NewSlots(calls)
		t.places = append(t.places, places)
		methods, err := rpchttp.Methods(rpchttp.Options{
			Name: name, URL: conf.URL, Methods: conf.Methods, Repeatable: conf.Repeatable, Client: client, Places: places,
			Trouble:  func(method string, err error) { b.failed(name, method, err) },
			Answered: func() { b.health.Of(health.Backend, name).Worked() },
		})
		if err != nil {
			t.close()
			return nil, fmt.Errorf("rpc.backends.%s: %w", name, err)
		}
		maps.Copy(t.methods, methods)
	}
	if err := apart(t, b.own); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// failed records a call without a proper response. A backend that was removed leaves no
// metric.
func (b *Backends) failed(name, method string, err error) {
	b.log.Warn("call of a backend failed", zap.String("backend", name), zap.String("method", method), zap.Error(err))
	if slices.Contains(b.now.Load().names, name) {
		b.failures.WithLabelValues(name).Inc()
	}
	switch {
	case errors.Is(err, upstream.ErrBusy): // the backend has not failed
	case errors.Is(err, upstream.ErrUnreached):
		b.health.Of(health.Backend, name).Failed(health.BackendUnreached, err, nil)
	default:
		b.health.Of(health.Backend, name).Failed(health.BackendCall, err, nil)
	}
}

// put sends new calls to other backends. Calls in flight end at the old ones.
func (b *Backends) put(t *table) {
	old := b.now.Swap(t)
	for _, name := range t.names {
		b.failures.WithLabelValues(name)
	}
	b.health.Set(health.Backend, t.names...)
	if old == nil {
		return
	}
	for name, url := range old.urls {
		if t.urls[name] != url {
			b.health.Of(health.Backend, name).Changed()
		}
	}
	for _, name := range old.names {
		if !slices.Contains(t.names, name) {
			b.failures.DeleteLabelValues(name)
		}
	}
	old.close()
}

// method returns the method of a name.
func (b *Backends) method(name string) (rpc.Method, bool) {
	m, ok := b.now.Load().methods[name]
	return m, ok
}

// Section has the backends.
func Section(prepare part.Prepare) part.Section {
	return part.Section{Name: "rpc backends", Stays: "the old ones stay", Keys: []string{"rpc.backends"}, Prepare: prepare}
}

// Prepare prepares the backends of a configuration.
func (b *Backends) Prepare(c *config.Config) (part.Change, error) {
	t, err := b.read(c)
	if err != nil {
		return part.Change{}, err
	}
	return part.Change{
		Fields: []zap.Field{zap.String("rpc_backends", strings.Join(t.names, " "))},
		Commit: func() bool {
			b.declare(c)
			b.put(t)
			return false
		},
		Abandon: t.close,
	}, nil
}

// apart returns an error if a backend serves a method of the program itself.
func apart(t *table, own map[string]rpc.Method) error {
	for name := range own {
		if _, taken := t.methods[name]; taken {
			return fmt.Errorf("method %q is one of rpc.backends and of this program", name)
		}
	}
	return nil
}

// Collectors implements part.Part.
func (b *Backends) Collectors() []prometheus.Collector { return []prometheus.Collector{b.failures} }

// Close implements part.Part.
func (b *Backends) Close() error {
	b.now.Load().close()
	return nil
}

// close closes idle connections.
func (t *table) close() {
	for _, client := range t.clients {
		client.Close()
	}
}
