package telemetry

import (
	"iter"
	"net/http"

	"github.com/slimwire/swp/daemon/internal/page"
	"github.com/slimwire/swp/transport/endpoint"
)

// Page returns the page that shows these metrics and the rest of a running swpd. See page.Source.
func (t *Metrics) Page(
	status func() any, sessions func() iter.Seq[*endpoint.Session], permissions func(identity string) (any, error), trail func() string,
	desk func(*http.ServeMux),
) *page.Page {
	return page.New(page.Source{Status: status, Sessions: sessions, Metrics: t.Registry, Permissions: permissions, Trail: trail, Desk: desk})
}
