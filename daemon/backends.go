package daemon

import (
	"fmt"
	"maps"
	"slices"

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
// others.
type backends struct {
	passive
	methods  map[string]rpc.Method
	clients  []*upstream.Client
	log      *zap.Logger
	failures *prometheus.CounterVec
	troubles troubles
}

func newBackends(c *config.Config, log *zap.Logger) (*backends, error) {
	b := &backends{
		methods: make(map[string]rpc.Method),
		log:     log.Named(boundlog.Backend),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swpd_rpc_backend_failures_total", Help: "Calls that got no proper response.",
		}, []string{"backend"}),
	}
	for _, name := range slices.Sorted(maps.Keys(c.RPC.Backends)) {
		conf := c.RPC.Backends[name]
		client := upstream.New(upstream.Options{Silence: conf.Timeout})
		b.clients = append(b.clients, client)
		failed := b.failures.WithLabelValues(name)
		methods, err := rpchttp.Methods(rpchttp.Options{
			URL: conf.URL, Methods: conf.Methods, Repeatable: conf.Repeatable, Client: client,
			Trouble: func(method string, err error) {
				failed.Inc()
				b.log.Warn("call of a backend failed", zap.String("backend", name), zap.String("method", method), zap.Error(err))
				b.troubles.note(name, err.Error())
			},
		})
		if err != nil {
			_ = b.close()
			return nil, fmt.Errorf("rpc.backends.%s: %w", name, err)
		}
		maps.Copy(b.methods, methods)
	}
	return b, nil
}

// collectors implements part.
func (b *backends) collectors() []prometheus.Collector { return []prometheus.Collector{b.failures} }

// look implements part.
func (b *backends) look(h *Health) {
	h.Warnings = append(h.Warnings, b.troubles.warnings("rpc backend")...)
}

// close implements part: it gives back the connections that no call is using.
func (b *backends) close() error {
	for _, client := range b.clients {
		client.Close()
	}
	return nil
}
