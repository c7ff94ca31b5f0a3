package daemon

import (
	"net/http"

	"github.com/slimwire/swp/daemon/config"
)

// addPage adds the page of the admin listener.
func addPage(mux *http.ServeMux, d *daemon) {
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
	d.metrics.Page(func() any { return d.status() }, d.parts.Sessions, permissions, trail, d.desk.Add).Add(mux)
}
