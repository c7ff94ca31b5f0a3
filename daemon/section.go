package daemon

import (
	"slices"

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
	"github.com/slimwire/swp/daemon/internal/trail"
	"github.com/slimwire/swp/daemon/internal/workers"
)

// section is a part of the configuration that reloads as a unit.
type section struct {
	part.Section

	stamp   string // State and that of the files when they were last read
	failure part.Fault
}

// look returns State and the state of the files of a configuration.
func (s *section) look(c *config.Config) string {
	var state string
	if s.State != nil {
		state = s.State(c) + ";"
	}
	if s.Files != nil {
		state += part.Stamp(s.Files(c)...)
	}
	return state
}

func (s *section) fitting(started, now *config.Config) bool {
	return s.Fits == nil || s.Fits(started, now)
}

// has reports whether a key belongs to the section.
func (s *section) has(key string) bool {
	return slices.ContainsFunc(s.Keys, func(own string) bool { return config.Within(key, own) })
}

func (s *section) trouble() string { return s.Name + " not reloaded, " + s.Stays }

// lasting are the keys of no section, which take effect at the next start, and why.
var lasting = []struct{ key, why string }{
	{"listeners", whyOpened},
	{"admin.address", whyOpened},
	{"health", whyOpened},
	{"metrics.address", whyOpened},
	{"http.address", whyOpened},
	{"data", whyStore},
	{"store", whyStore},
	{"cluster.node", whyStore},
	{"cluster.address", whyOpened},
	{"cluster.artifacts", whyStore},
	{"durability", whyStore},
	{"limits.frame_bytes", whySizes},
	{"limits.payload_bytes", whySizes},
	{"limits.extension_bytes", whySizes},
	{"sdl.socket", whyOpened},
	{"sdl.audit.enabled", whyChain},
	{"sdl.audit.fail", whyChain},
	{"sdl.audit.size", whyChain},
	{"sdl.rate.burst", whyRate},
	{"sdl.rate.per_second", whyRate},
}

const (
	whyOpened = "the address is opened at the start"
	whyChain  = "the file is opened at the start"
	whyStore  = "the store is opened at the start"
	whyRate   = "the buckets of callers are made with them"
	whySizes  = "stored data was accepted with them, and open connections keep them, so that it could not be delivered with others"
)

// sections returns all sections in the order of their application: access rules come before
// the things that they protect.
func (d *daemon) sections() []part.Section {
	return []part.Section{
		guard.Section(later(&d.guard)),
		identity.Section(later(&d.credentials), func() string { return d.credentials.State() }),
		fronts.Section(later(&d.fronts)),
		fronts.MonitorSection(later(&d.monitor)),
		served.HintsSection(later(&d.hints)),
		served.CardsSection(later(&d.cards)),
		served.VerifiersSection(later(&d.verifiers)),
		telemetry.AccessLogSection(later(&d.exchanges)),
		trail.Section(later(&d.trail)),
		mcpservers.Section(later(&d.inside)),
		workers.Section(later(&d.workers)),
		workers.AgentSection(later(&d.agents)),
		teams.Section(later(&d.teams)),
		slip.Section(later(&d.words)),
		sdlserver.Section(later(&d.sdl)),
		sdlserver.RoutesSection(later(&d.ways)),
		storage.Section(later(&d.state)),
		storage.DeskSection(later(&d.desk)),
		storage.EventsSection(func(c *config.Config) (part.Change, error) { return d.state.PrepareEvents(c) }),
		entrances.Section(later(&d.endpoints)),
		rpcbackends.Section(later(&d.backends)),
		telemetry.LogSection(later(&d.logs)),
		telemetry.TraceSection(later(&d.traces)),
		partners.Section(later(&d.partners), func() string { return d.credentials.BundlesState() }),
	}
}

// later is a section whose part is made later. The reloader knows the sections before the
// parts are made, so that it misses no change of the files that the parts read.
func later[P interface {
	Prepare(c *config.Config) (part.Change, error)
}](one *P) part.Prepare {
	return func(c *config.Config) (part.Change, error) { return (*one).Prepare(c) }
}
