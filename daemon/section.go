package daemon

import (
	"strings"
	"sync/atomic"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/entrances"
	"github.com/slimwire/swp/daemon/internal/fronts"
	"github.com/slimwire/swp/daemon/internal/guard"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/mcpservers"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/partners"
	"github.com/slimwire/swp/daemon/internal/rpcbackends"
	"github.com/slimwire/swp/daemon/internal/sdlserver"
	"github.com/slimwire/swp/daemon/internal/served"
	"github.com/slimwire/swp/daemon/internal/slip"
	"github.com/slimwire/swp/daemon/internal/storage"
	"github.com/slimwire/swp/daemon/internal/teams"
	"github.com/slimwire/swp/daemon/internal/telemetry"
	"github.com/slimwire/swp/daemon/internal/workers"
)

// section is one that the reloader takes up.
type section struct {
	part.Section

	stamp   string                 // what the files looked like when they were read last
	failure atomic.Pointer[string] // why the section cannot be used as it is now; nil if it can
}

// look describes the files of a configuration.
func (s *section) look(c *config.Config) string {
	if s.Files == nil {
		return ""
	}
	return part.Stamp(s.Files(c)...)
}

func (s *section) fitting(started, now *config.Config) bool {
	return s.Fits == nil || s.Fits(started, now)
}

// has reports whether a key is one that the section takes up.
func (s *section) has(key string) bool {
	for _, own := range s.Keys {
		if key == own || strings.HasPrefix(key, own+".") {
			return true
		}
	}
	return false
}

func (s *section) trouble() string { return s.Name + " not reloaded, " + s.Stays }

// sections are all of them, in the order in which they are taken up: rules come ahead of
// what they are about.
func (d *daemon) sections() []part.Section {
	return []part.Section{
		guard.Section(later(&d.guard)),
		identity.Section(later(&d.credentials)),
		fronts.Section(later(&d.fronts)),
		served.CardsSection(later(&d.cards)),
		served.VerifiersSection(later(&d.verifiers)),
		telemetry.AccessLogSection(later(&d.exchanges)),
		mcpservers.Section(later(&d.inside)),
		workers.Section(later(&d.workers)),
		workers.AgentSection(later(&d.agents)),
		teams.Section(later(&d.teams)),
		slip.Section(later(&d.words)),
		sdlserver.Section(later(&d.sdl)),
		storage.Section(later(&d.state)),
		entrances.Section(later(&d.endpoints)),
		rpcbackends.Section(later(&d.backends)),
		telemetry.LogSection(later(&d.logs)),
		partners.Section(later(&d.partners)),
	}
}

// later has a part prepare a section. The reloader knows the sections ahead of the parts,
// so as to miss no change of the files that these read when they are made.
func later[P interface {
	Prepare(c *config.Config) (part.Change, error)
}](one *P) part.Prepare {
	return func(c *config.Config) (part.Change, error) { return (*one).Prepare(c) }
}
