package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Named returns the names in the configuration that begin with a prefix, by their kind.
func (c *Config) Named(prefix string) map[string][]string {
	found := make(map[string][]string)
	add := func(kind string, names ...string) {
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				found[kind] = append(found[kind], name)
			}
		}
	}
	for _, w := range c.A2A.Workers {
		add("kind of a2a.workers", w.Kinds...)
	}
	for _, b := range c.RPC.Backends {
		add("method of rpc.backends", b.Methods...)
	}
	add("agent_id of a2a.agents", slices.Collect(maps.Keys(c.A2A.Agents))...)
	add("agent_id of teams", slices.Collect(maps.Keys(c.Teams))...)
	add("agent_id of agdisc.cards", slices.Collect(maps.Keys(c.AGDISC.Cards))...)
	for i := range c.TOOLDISC.Tools {
		add("tool_id of tooldisc.tools", c.TOOLDISC.Tools[i].ToolID)
	}
	return found
}

// Captured are the local names of one kind that the name of a partner makes unreachable, because they begin with it.
type Captured struct {
	partner, kind string
	some          []string
	number        int
}

// Text is the warning without the names, which callers may have chosen.
func (c Captured) Text() string {
	return fmt.Sprintf("partners.%s captures local names, which now belong to the partner: %s (%d)", c.partner, c.kind, c.number)
}

// Names is the end of the warning: some of the names.
func (c Captured) Names() string { return ": " + strings.Join(c.some, ", ") }

func (c Captured) String() string { return c.Text() + c.Names() }

// CapturedBy describes the local names that a partner captures, by their kind.
func CapturedBy(partner string, found map[string][]string) (list []Captured) {
	for _, kind := range slices.Sorted(maps.Keys(found)) {
		names := slices.Compact(slices.Sorted(slices.Values(found[kind])))
		if len(names) == 0 {
			continue
		}
		some := make([]string, 0, 3)
		for _, name := range names[:min(3, len(names))] {
			some = append(some, fmt.Sprintf("%.40q", name))
		}
		list = append(list, Captured{partner, kind, some, len(names)})
	}
	return list
}
