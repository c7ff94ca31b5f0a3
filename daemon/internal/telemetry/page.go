package telemetry

import (
	"iter"
	"net/http"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/history"
	"github.com/slimwire/swp/daemon/internal/page"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/transport/endpoint"
)

// KeepHistory makes the part that keeps the last 24 hours of the metrics for the page, in a file if there is a name.
// Call it before Page.
func (t *Metrics) KeepHistory(file string, log *zap.Logger) part.Part {
	t.past = history.New(t.Registry, history.Charts, file, log)
	return t.past
}

// Page returns the page that shows these metrics and the rest of a running swpd. See page.Source.
func (t *Metrics) Page(
	status func() any, sessions func() iter.Seq[*endpoint.Session], permissions func(identity string) (any, error), trail func() string,
	desk func(*http.ServeMux),
) *page.Page {
	return page.New(page.Source{Status: status, Sessions: sessions, Metrics: t.Registry, Permissions: permissions, Trail: trail, History: t.past, Desk: desk})
}
