package daemon

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/bridge/rpchttp"
	"github.com/slimwire/swp/bridge/upstream"
	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/rpc"
)

// rpcBackends are the HTTP servers that serve RPC methods.
type rpcBackends struct {
	methods  map[string]rpc.Method
	clients  []*upstream.Client
	failures *prometheus.CounterVec
}

func newRPCBackends(c *config.Config, log *zap.Logger) (*rpcBackends, error) {
	s := &rpcBackends{
		methods: make(map[string]rpc.Method),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swpd_rpc_backend_failures_total", Help: "Calls that got no proper response from their HTTP server.",
		}, []string{"backend"}),
	}
	log = log.Named(boundlog.Backend)
	for _, name := range slices.Sorted(maps.Keys(c.RPC.Backends)) {
		b := c.RPC.Backends[name]
		client := upstream.New(upstream.Options{Silence: b.Timeout})
		s.clients = append(s.clients, client)
		failed := s.failures.WithLabelValues(name)
		methods, err := rpchttp.Methods(rpchttp.Options{
			URL: b.URL, Methods: b.Methods, Repeatable: b.Repeatable, Client: client,
			Trouble: func(method string, err error) {
				failed.Inc()
				log.Warn("no proper response from the back end", zap.String("backend", name), zap.String("method", method), zap.Error(err))
			},
		})
		if err != nil {
			return nil, fmt.Errorf("rpc.backends.%s: %w", name, err)
		}
		maps.Copy(s.methods, methods)
	}
	return s, nil
}

// close gives back the connections that no call is using.
func (s *rpcBackends) close() {
	for _, client := range s.clients {
		client.Close()
	}
}
