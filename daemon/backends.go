package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/bridge/rpchttp"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/profiles/rpc"
)

// backends are the HTTP servers that serve RPC methods. Each has connections
// and a bound on calls of its own, so that one that hangs is no trouble to the
// others. Reloads come one at a time; everything else may be done meanwhile.
type backends struct {
	passive
	now      atomic.Pointer[backendTable]
	log      *zap.Logger
	failures *prometheus.CounterVec
	troubles troubles
}

// backendTable is what one configuration says of them.
type backendTable struct {
	methods map[string]rpc.Method
	names   []string
	clients []*upstream.Client
}

func newBackends(c *config.Config, log *zap.Logger) (*backends, error) {
	b := &backends{
		log: log.Named(boundlog.Backend),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swpd_rpc_backend_failures_total", Help: "Calls that got no proper response.",
		}, []string{"backend"}),
	}
	table, err := b.read(c)
	if err != nil {
		return nil, err
	}
	b.put(table)
	return b, nil
}

// read makes the backends of a configuration. Nothing is connected.
func (b *backends) read(c *config.Config) (*backendTable, error) {
	t := &backendTable{methods: make(map[string]rpc.Method), names: slices.Sorted(maps.Keys(c.RPC.Backends))}
	for _, name := range t.names {
		conf := c.RPC.Backends[name]
		client := upstream.New(upstream.Options{Silence: conf.Timeout})
		t.clients = append(t.clients, client)
		methods, err := rpchttp.Methods(rpchttp.Options{
			URL: conf.URL, Methods: conf.Methods, Repeatable: conf.Repeatable, Client: client,
			Trouble: func(method string, err error) { b.failed(name, method, err) },
		})
		if err != nil {
			t.close()
			return nil, fmt.Errorf("rpc.backends.%s: %w", name, err)
		}
		maps.Copy(t.methods, methods)
	}
	return t, nil
}

// failed takes note of a call that got no proper response. A backend that was taken out
// meanwhile leaves no metric behind.
func (b *backends) failed(name, method string, err error) {
	b.log.Warn("call of a backend failed", zap.String("backend", name), zap.String("method", method), zap.Error(err))
	if slices.Contains(b.now.Load().names, name) {
		b.failures.WithLabelValues(name).Inc()
	}
	b.troubles.note(name, err.Error())
}

// put has calls that come from now on go to other backends. Those under way end as they
// would have.
func (b *backends) put(t *backendTable) {
	old := b.now.Swap(t)
	for _, name := range t.names {
		b.failures.WithLabelValues(name)
	}
	b.troubles.only(t.names)
	if old == nil {
		return
	}
	for _, name := range old.names {
		if !slices.Contains(t.names, name) {
			b.failures.DeleteLabelValues(name)
		}
	}
	old.close()
}

// method returns the method of a name.
func (b *backends) method(name string) (rpc.Method, bool) {
	m, ok := b.now.Load().methods[name]
	return m, ok
}

// prepareBackends makes the backends of a configuration ready.
func (d *daemon) prepareBackends(c *config.Config) (change, error) {
	table, err := d.backends.read(c)
	if err == nil {
		err = apart(table, d.opts.Methods)
	}
	if err != nil {
		return change{}, err
	}
	return change{
		fields: []zap.Field{zap.String("rpc_backends", strings.Join(table.names, " "))},
		commit: func() bool {
			d.targets.methods.Store(new(methodTargets(c)))
			d.backends.put(table)
			return false
		},
		abandon: table.close,
	}, nil
}

// apart returns an error if a backend serves a method that the program has itself.
func apart(t *backendTable, own map[string]rpc.Method) error {
	for name := range own {
		if _, taken := t.methods[name]; taken {
			return fmt.Errorf("daemon: method %q is one of rpc.backends and of this program", name)
		}
	}
	return nil
}

// collectors implements part.
func (b *backends) collectors() []prometheus.Collector { return []prometheus.Collector{b.failures} }

// look implements part.
func (b *backends) look(h *Health) {
	h.Warnings = append(h.Warnings, b.troubles.warnings("rpc backend")...)
}

// close implements part.
func (b *backends) close() error {
	b.now.Load().close()
	return nil
}

// close gives back the connections that no call is using.
func (t *backendTable) close() {
	for _, client := range t.clients {
		client.Close()
	}
}
