package daemon

import (
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
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

// declared are the targets in force, each of which a section of the configuration
// replaces. It implements policyhint.Targets.
type declared struct{ servers, workers, agents, methods atomic.Pointer[targets] }

func (d *declared) set(c *config.Config) {
	d.servers.Store(new(serverTargets(c)))
	d.workers.Store(new(workerTargets(c)))
	d.agents.Store(new(agentTargets(c)))
	d.methods.Store(new(methodTargets(c)))
}

// Target implements policyhint.Targets. Kinds of workers and of agents are never the same.
func (d *declared) Target(profile, name string) (*policyhint.Target, bool) {
	var of []*atomic.Pointer[targets]
	switch profile {
	case "mcp":
		of = []*atomic.Pointer[targets]{&d.servers}
	case "a2a":
		of = []*atomic.Pointer[targets]{&d.workers, &d.agents}
	case "rpc":
		of = []*atomic.Pointer[targets]{&d.methods}
	}
	for _, targets := range of {
		if target, ok := (*targets.Load())[name]; ok {
			return target, true
		}
	}
	return nil, false
}

// allTargets are those here, and behind them the partners: what is declared of one
// holds for all that is behind it.
type allTargets struct {
	*declared
	partners *partners
}

// Target implements policyhint.Targets.
func (a allTargets) Target(profile, name string) (*policyhint.Target, bool) {
	if target, ok := a.declared.Target(profile, name); ok {
		return target, true
	}
	first, _, behind := strings.Cut(name, "/")
	partners := a.partners.declared.Load()
	if !behind || partners == nil {
		return nil, false
	}
	target, ok := (*partners)[first]
	return target, ok
}

// hintOptions configure POLICYHINT.
func hintOptions(here *declared, links *partners, log *zap.Logger) policyhint.Options {
	log = log.Named(boundlog.Security)
	return policyhint.Options{
		Targets: allTargets{here, links},
		Told: func(peer *profiles.Peer, v *policyhint.ViolationError) {
			log.Warn("a peer says that a hint stopped something", zap.String("peer", peer.Identity),
				zap.String("key", v.Key), zap.String("scope", v.Scope), zap.String("reason", v.Reason))
		},
	}
}
