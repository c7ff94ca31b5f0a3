package served

import (
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/policyhint"
)

// targets are what is declared of what acts for peers, by what a profile calls it.
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

func methodTargets(c *config.Config) targets {
	t := make(targets)
	for _, b := range c.RPC.Backends {
		for _, method := range b.Methods {
			t[method] = b.Hints.Target()
		}
	}
	return t
}

// Hints are what is declared of what acts for peers. Of what is here a section of the
// configuration replaces each kind; behind it come the partners: what is declared of one
// holds for all that is behind it. It implements policyhint.Targets.
type Hints struct {
	part.Passive
	partner                           func(name string) (*policyhint.Target, bool)
	log                               *zap.Logger
	servers, workers, agents, methods atomic.Pointer[targets]
}

// NewHints takes what a configuration declares.
func NewHints(c *config.Config, log *zap.Logger) *Hints {
	h := &Hints{log: log.Named(boundlog.Security)}
	h.SetServers(c)
	h.SetWorkers(c)
	h.SetAgents(c)
	h.SetMethods(c)
	return h
}

// Behind sets who knows what is declared of partners. It comes before anybody asks.
func (h *Hints) Behind(partner func(name string) (*policyhint.Target, bool)) { h.partner = partner }

// SetServers has what a configuration declares of MCP servers be in force.
func (h *Hints) SetServers(c *config.Config) { h.servers.Store(new(serverTargets(c))) }

// SetWorkers does so for the workers of A2A.
func (h *Hints) SetWorkers(c *config.Config) { h.workers.Store(new(workerTargets(c))) }

// SetAgents does so for the agents of A2A.
func (h *Hints) SetAgents(c *config.Config) { h.agents.Store(new(agentTargets(c))) }

// SetMethods does so for the methods of RPC.
func (h *Hints) SetMethods(c *config.Config) { h.methods.Store(new(methodTargets(c))) }

// Target implements policyhint.Targets. Kinds of workers and of agents are never the same.
func (h *Hints) Target(profile, name string) (*policyhint.Target, bool) {
	var of []*atomic.Pointer[targets]
	switch profile {
	case "mcp":
		of = []*atomic.Pointer[targets]{&h.servers}
	case "a2a":
		of = []*atomic.Pointer[targets]{&h.workers, &h.agents}
	case "rpc":
		of = []*atomic.Pointer[targets]{&h.methods}
	}
	for _, targets := range of {
		if target, ok := (*targets.Load())[name]; ok {
			return target, true
		}
	}
	first, _, behind := strings.Cut(name, "/")
	if !behind {
		return nil, false
	}
	return h.partner(first)
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
