package daemon

import (
	"slices"
	"time"

	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/partners"
	"github.com/slimwire/swp/daemon/internal/storage"
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

	Partners []partners.Status `json:"partners"`

	Certificates []identity.Info `json:"certificates"` // in force, and those that partners showed last
}

func (d *daemon) status() Status {
	stats := d.parts.Stats()
	return Status{
		Health:    d.health.look(),
		Version:   d.opts.Version,
		Identity:  d.credentials.Identity(),
		Config:    d.config.Source,
		Started:   d.started,
		Addresses: d.listeners.Addresses(),
		HTTP:      d.fronts.URL(),
		Sessions:  stats.Sessions,
		Handlers:  stats.Handlers,
		NotAfter:  d.credentials.NotAfter(),
		Store:     storage.Describe(d.config),
		Servers:   d.servers.Names(),
		Departing: d.servers.Departing(),
		Partners:  d.partners.Status(),

		Certificates: d.certificates(),
	}
}

// certificates describes those in use, and those that partners showed last.
func (d *daemon) certificates() []identity.Info {
	shown, anchors := d.fronts.Certificates()
	return slices.Concat([]identity.Info{d.credentials.Certificate()}, shown, d.credentials.Anchors(), anchors, d.partners.Shown())
}
