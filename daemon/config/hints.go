package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/slimwire/swp/profiles/policyhint"
)

// Hints are declarations of the operator about the endpoint, a server, a worker or a back end. A
// property without a declaration is unknown, and satisfies no MUST of a peer.
type Hints struct {
	ExternalNetwork *bool  `yaml:"external_network"` // uses networks outside those of the operator
	PII             *bool  `yaml:"pii"`              // it keeps or passes on personal data
	Region          List   `yaml:"region"`           // in which it may act
	Cost            string `yaml:"cost"`             // of one action, at most
}

// Target returns the checked declaration in the form of the profile.
func (h *Hints) Target() *policyhint.Target {
	t := &policyhint.Target{ExternalNetwork: h.ExternalNetwork, PII: h.PII, Regions: h.Region}
	if c, err := policyhint.ParseCost(h.Cost); err == nil {
		t.Cost = &c
	}
	return t
}

func (h *Hints) check(p *problems, key string) {
	for i, region := range h.Region {
		if _, err := policyhint.ParseRegions(region); err != nil || strings.Contains(region, ",") {
			p.addItem(key+".region", i, "%.80q is no region, want lower-case letters, digits and hyphens, such as eu-west-1", region)
		}
	}
	if h.Cost == "" {
		return
	}
	if _, err := policyhint.ParseCost(h.Cost); err != nil {
		p.add(key+".cost", "%.80q: %v", h.Cost, err)
	}
}

func (c *Config) checkHints(p *problems) {
	c.Endpoint.Hints.check(p, "endpoint.hints")
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Agents)) {
		a := c.A2A.Agents[name]
		a.Hints.check(p, "a2a.agents."+name+".hints")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Teams)) {
		t := c.Teams[name]
		t.Hints.check(p, "teams."+name+".hints")
	}
	for _, name := range slices.Sorted(maps.Keys(c.MCP.Servers)) {
		s := c.MCP.Servers[name]
		s.Hints.check(p, "mcp.servers."+name+".hints")
	}
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Workers)) {
		w := c.A2A.Workers[name]
		w.Hints.check(p, "a2a.workers."+name+".hints")
	}
	for _, name := range slices.Sorted(maps.Keys(c.RPC.Backends)) {
		b := c.RPC.Backends[name]
		b.Hints.check(p, "rpc.backends."+name+".hints")
	}
}
