package config

import (
	"maps"
	"slices"
	"strings"
)

// Clashes returns the problems of the names of a configuration that is put together from
// several correct ones: a Problems, or nil.
func (c *Config) Clashes() error {
	p := &problems{origins: map[string]origin{"": {}}}
	c.checkNames(p)
	return p.err()
}

// checkNames refuses equal names in two sections that rules and peers could not
// distinguish.
func (c *Config) checkNames(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(c.Partners)) {
		key := "partners." + name
		if _, taken := c.MCP.Servers[name]; taken {
			p.add(key, "has the name of mcp.servers.%s; rules could not tell one from the other, so rename one", name)
		}
		for _, backend := range slices.Sorted(maps.Keys(c.RPC.Backends)) {
			for _, method := range c.RPC.Backends[backend].Methods {
				if strings.HasPrefix(method, name+"/") {
					p.add(key, "has the name that the method %.80q of rpc.backends.%s begins with; rename one", method, backend)
				}
			}
		}
		if _, taken := c.A2A.Agents[name]; taken {
			p.add("a2a.agents."+name, "has the name of partners.%s; rules could not tell one from the other, so rename one", name)
		}
		if _, taken := c.Teams[name]; taken {
			p.add("teams."+name, "has the name of partners.%s; rules could not tell one from the other, so rename one", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Agents)) {
		if _, taken := c.Teams[name]; taken {
			p.add("teams."+name, "has the name of a2a.agents.%s; peers could not name either, so rename one", name)
		}
		for _, worker := range slices.Sorted(maps.Keys(c.A2A.Workers)) {
			for _, kind := range c.A2A.Workers[worker].Kinds {
				if strings.HasPrefix(kind, name+"/") {
					p.add("a2a.agents."+name, "has the name that the kind %.80q of a2a.workers.%s begins with; rename one", kind, worker)
				}
			}
		}
	}
}
