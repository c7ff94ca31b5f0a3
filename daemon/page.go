package daemon

import (
	"net/http"

	"github.com/slimwire/swp/daemon/config"
)

// page returns the page of the admin listener.
func (d *daemon) page() http.Handler {
	permissions := func(identity string) (any, error) { return d.opts.Permissions(d.reloader.running.Load(), identity) }
	if d.opts.Permissions == nil {
		permissions = nil
	}
	trail := func() string {
		if c := d.reloader.running.Load(); c.AuditExchanges() != config.AuditOff {
			return c.AuditDir()
		}
		return ""
	}
	return d.metrics.Page(func() any { return d.status() }, d.parts.Sessions, permissions, trail)
}
