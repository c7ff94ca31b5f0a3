package served

import (
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/policyhint"
)

// targets maps names in a profile to declared policy hints.
type targets map[string]*policyhint.Target

func serverTargets(c *config.Config) targets {
	t := make(targets)
	for name, s := range c.MCP.Servers {
		t[name] = s.Hints.Target()
	}
	return t
}

func workerTargets(c *config.Config) targets {
	t := make(targets)
	for _, w := range c.A2A.Workers {
		for _, kind := range w.Kinds {
			t[kind] = w.Hints.Target()
		}
	}
	return t
}

func agentTargets(c *config.Config) targets {
	t := make(targets)
	for name, a := range c.A2A.Agents {
		for _, kind := range a2abinding.Kinds() {
			t[name+"/"+kind] = a.Hints.Target()
		}
	}
	return t
}

func teamTargets(c *config.Config) targets {
	t := make(targets)
	for name, team := range c.Teams {
		for _, kind := range a2abinding.Kinds() {
			t[name+"/"+kind] = team.Hints.Target()
		}
	}
	return t
}

func methodTargets(c *config.Config) targets {
	t := make(targets)
	for _, b := range c.RPC.Backends {
		for _, method := range b.Methods {
			t[method] = b.Hints.Target()
		}
	}
	return t
}

// Hints holds the policy hints that the configuration declares. A reload replaces the hints
// of one section at a time. Hints of a partner apply to everything that the partner serves.
// It implements policyhint.Targets.
type Hints struct {
	part.Passive
	partner func(name string) (*policyhint.Target, bool)
	agent   func(agentID string) (declared string, known bool)
	log     *zap.Logger

	endpoint                                 atomic.Pointer[policyhint.Target]
	servers, workers, agents, teams, methods atomic.Pointer[targets]
}

// NewHints reads the hints of a configuration.
func NewHints(c *config.Config, log *zap.Logger) *Hints {
	h := &Hints{log: log.Named(boundlog.Security)}
	h.endpoint.Store(c.Endpoint.Hints.Target())
	h.SetTeams(c)
	h.SetServers(c)
	h.SetWorkers(c)
	h.SetAgents(c)
	h.SetMethods(c)
	return h
}

// Behind sets the lookups of hints of partners, and of agents of sessions. Call it before the
// first use.
func (h *Hints) Behind(partner func(name string) (*policyhint.Target, bool), agent func(agentID string) (declared string, known bool)) {
	h.partner, h.agent = partner, agent
}

// HintsSection has the hints of the endpoint itself.
func HintsSection(prepare part.Prepare) part.Section {
	return part.Section{Name: "hints of the endpoint", Stays: "the old ones stay", Keys: []string{"endpoint"}, Prepare: prepare}
}

// Prepare reads the hints of the endpoint itself.
func (h *Hints) Prepare(c *config.Config) (part.Change, error) {
	target := c.Endpoint.Hints.Target()
	return part.Change{
		Fields: []zap.Field{zap.String("hints", target.String())},
		Commit: func() bool {
			h.endpoint.Store(target)
			return false
		},
	}, nil
}

// SetServers replaces the hints of MCP servers.
func (h *Hints) SetServers(c *config.Config) { h.servers.Store(new(serverTargets(c))) }

// SetWorkers replaces the hints of A2A workers.
func (h *Hints) SetWorkers(c *config.Config) { h.workers.Store(new(workerTargets(c))) }

// SetAgents replaces the hints of A2A agents.
func (h *Hints) SetAgents(c *config.Config) { h.agents.Store(new(agentTargets(c))) }

// SetTeams replaces the hints of teams.
func (h *Hints) SetTeams(c *config.Config) { h.teams.Store(new(teamTargets(c))) }

// SetMethods replaces the hints of RPC methods.
func (h *Hints) SetMethods(c *config.Config) { h.methods.Store(new(methodTargets(c))) }

// Target implements policyhint.Targets. A kind belongs to one worker, agent or team. Names
// without a declaration, and not behind a partner, belong to this endpoint itself, but for
// servers and tasks: nobody acts for an unknown one.
func (h *Hints) Target(profile, name string) (*policyhint.Target, bool) {
	var of []*atomic.Pointer[targets]
	switch profile {
	case "mcp":
		of = []*atomic.Pointer[targets]{&h.servers}
	case "a2a":
		of = []*atomic.Pointer[targets]{&h.workers, &h.agents, &h.teams}
	case "rpc":
		of = []*atomic.Pointer[targets]{&h.methods}
	}
	for _, targets := range of {
		if target, ok := (*targets.Load())[name]; ok {
			return target, true
		}
	}
	if first, _, behind := strings.Cut(name, "/"); behind || profile == "mcp" { // the name of a partner is that of its default server
		if target, ok := h.partner(first); ok {
			return target, true
		}
	}
	switch profile {
	case "mcp", "a2a":
		return nil, false
	case "slip":
		if declared, known := h.agent(name); known {
			target, err := policyhint.ParseDeclaration(declared)
			return target, err == nil
		}
	}
	return h.endpoint.Load(), true
}

// Offer implements part.Part.
func (h *Hints) Offer(o *all.Options) error {
	o.Hints = policyhint.Options{
		Targets: h,
		Told: func(peer *profiles.Peer, v *policyhint.ViolationError) {
			h.log.Warn("a peer says that a hint stopped something", zap.String("peer", peer.Identity),
				zap.String("key", v.Key), zap.String("scope", v.Scope), zap.String("reason", v.Reason))
		},
	}
	return nil
}
