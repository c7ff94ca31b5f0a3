package check

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/slimwire/swp/daemon/config"
)

// secrets warns of values in the configuration file that are probably secret, if every user
// of the machine can read the file.
func (p *Plan) secrets(c *config.Config) {
	if c.Source == "" || config.CheckPrivate(c.Source) == nil {
		return
	}
	text, err := os.ReadFile(c.Source)
	if err != nil {
		return
	}
	var keys []string
	add := func(key string, values map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if value := values[name]; value != "" && bytes.Contains(text, []byte(value)) { // else it is from the environment
				keys = append(keys, key+"."+name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.MCP.Servers)) {
		s := c.MCP.Servers[name]
		add("mcp.servers."+name+".headers", s.Headers)
		add("mcp.servers."+name+".env", s.Env)
	}
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Agents)) {
		add("a2a.agents."+name+".headers", c.A2A.Agents[name].Headers)
	}
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Workers)) {
		add("a2a.workers."+name+".env", c.A2A.Workers[name].Env)
	}
	if len(keys) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("every user of this machine can read %s, with %s; if one is secret, run: chmod 640 %[1]s", c.Source, some(keys)))
	}
}
