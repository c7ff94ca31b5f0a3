package fronts

import (
	"slices"

	"github.com/slimwire/swp/daemon/internal/health"
	"github.com/slimwire/swp/daemon/internal/identity"
)

// Health returns the states of the certificates.
func (f *Fronts) Health() []health.Seen {
	shown, anchors := f.Certificates()
	return identity.HealthOf(slices.Concat(shown, anchors), f.o.Now())
}

// Health returns the states of the certificates.
func (m *Monitor) Health() []health.Seen {
	shown, anchors := m.Certificates()
	return identity.HealthOf(slices.Concat(shown, anchors), m.o.Now())
}
