package daemon

import (
	"time"

	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/internal/partner"
)

// Status is what swpd status shows: no argument, no environment, no payload.
type Status struct {
	Health
	Version   string    `json:"version"`
	Identity  string    `json:"identity"`
	Config    string    `json:"config"` // file, empty for the built-in one
	Started   time.Time `json:"started"`
	Addresses []string  `json:"addresses"`
	HTTP      string    `json:"http"` // where programs call that know nothing of SlimWire, or empty
	Sessions  int       `json:"sessions"`
	Handlers  int       `json:"handlers"`
	NotAfter  time.Time `json:"certificate_not_after"`
	Store     string    `json:"store"` // what is kept, and what an acknowledgement promises
	Servers   []string  `json:"mcp_servers"`
	Departing []string  `json:"mcp_servers_departing"` // removed or changed, with something still under way

	Partners []partner.Status `json:"partners"`

	Certificates []certinfo.Info `json:"certificates"` // in force, and those that partners showed last
}

func (d *daemon) status() Status {
	stats := d.stats()
	return Status{
		Health:    d.health.look(),
		Version:   d.opts.Version,
		Identity:  d.credentials.identity(),
		Config:    d.config.Source,
		Started:   d.started,
		Addresses: d.listeners.addresses(),
		HTTP:      d.fronts.url(),
		Sessions:  stats.Sessions,
		Handlers:  stats.Handlers,
		NotAfter:  d.credentials.current.Load().Certificate.Leaf.NotAfter,
		Store:     describeStore(d.config),
		Servers:   d.servers.names(),
		Departing: d.servers.departing(),
		Partners:  d.partners.status(),

		Certificates: d.inForce(),
	}
}
