package daemon

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/slimwire/swp/daemon/internal/entrances"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/partners"
	"github.com/slimwire/swp/daemon/internal/storage"
	"github.com/slimwire/swp/daemon/internal/telemetry"
	"github.com/slimwire/swp/daemon/internal/trail"
)

// Status is the answer of swpd status. It contains no arguments, environment or payloads.
type Status struct {
	Health
	Version   string    `json:"version"`
	Identity  string    `json:"identity"`
	Config    string    `json:"config"` // absolute path of the file, empty for the built-in one
	Started   time.Time `json:"started"`
	Addresses []string  `json:"addresses"`
	HTTP      string    `json:"http"`    // address for HTTP clients, or empty
	Probes    string    `json:"health"`  // address for probes, or empty
	Metrics   string    `json:"metrics"` // address for monitoring from other machines, or empty
	Sessions  int       `json:"sessions"`
	Handlers  int       `json:"handlers"`
	NotAfter  time.Time `json:"certificate_not_after"`
	Store     string    `json:"store"` // kind of store, and what an acknowledgement promises
	Servers   []string  `json:"mcp_servers"`
	Departing []string  `json:"mcp_servers_departing"` // removed or changed, with calls in flight

	Memory entrances.MemoryUse `json:"in_flight_bytes"` // of limits.in_flight_bytes

	Shares []part.Pool `json:"shares"` // who uses what identities share

	Partners []partners.Status `json:"partners"`

	Receipts []trail.Receipts `json:"receipts"` // of exchanges with partners; empty if audit.receipts is off

	Behind []Behind `json:"behind"` // a record of each thing behind this endpoint

	Certificates []identity.Info `json:"certificates"` // in force, and the last ones of partners

	Cluster *ClusterStatus `json:"cluster,omitempty"` // nodes that share the store
}

// ClusterStatus describes the nodes that share a store, each by a ClusterNode.
type (
	ClusterStatus = entrances.ClusterStatus
	ClusterNode   = entrances.ClusterNode
)

// Behind is the record of a thing behind this endpoint: whether its last use was a success, since when, what went wrong
// last and what to do.
type Behind = telemetry.Record

// absolute returns the absolute path of a file; empty stays empty.
func absolute(file string) string {
	if file == "" {
		return ""
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return file
	}
	return path
}

func (d *daemon) status() Status {
	stats := d.parts.Stats()
	return Status{
		Health:    d.health.look(),
		Version:   d.opts.Version,
		Identity:  d.credentials.Identity(),
		Config:    absolute(d.config.Source),
		Started:   d.started,
		Addresses: d.listeners.Addresses(),
		HTTP:      d.fronts.URL(),
		Probes:    d.probes.address(),
		Metrics:   d.monitor.Address(),
		Sessions:  stats.Sessions,
		Handlers:  stats.Handlers,
		NotAfter:  d.credentials.NotAfter(),
		Store:     storage.Describe(d.config),
		Servers:   d.servers.Names(),
		Departing: d.servers.Departing(),
		Memory:    d.memory.Use(),
		Shares:    d.pools(),
		Partners:  d.partners.Status(),
		Receipts:  d.trail.Receipts(),
		Behind:    d.behind.List(),

		Certificates: d.certificates(),
		Cluster:      d.cluster.Status(),
	}
}

// poolsFor limits the wait for the names of owners in the store.
const poolsFor = time.Second

// pools returns the use of all shared pools.
func (d *daemon) pools() []part.Pool {
	ctx, cancel := context.WithTimeout(context.Background(), poolsFor)
	defer cancel()
	list := slices.Concat(d.served.Set().Pools(), d.backends.Pools(), d.fronts.Pools(), d.state.Pools(ctx), d.parts.Pools())
	for _, pool := range list {
		for i, use := range pool.Most {
			pool.Most[i].Identity = cmp.Or(use.Identity, "swpd itself")
		}
	}
	return append(list, d.servers.Pools()...)
}

// certificates describes the certificates in use, and the last ones of partners.
func (d *daemon) certificates() []identity.Info {
	shown, anchors := d.fronts.Certificates()
	more, others := d.monitor.Certificates()
	return slices.Concat([]identity.Info{d.credentials.Certificate()}, shown, more, d.credentials.Anchors(), anchors, others, d.partners.Shown())
}
