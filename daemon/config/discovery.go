package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// AGDISC configures profile 10.
type AGDISC struct {
	Cards map[string]AgentCard `yaml:"cards"` // by agent_id
}

// AgentCard is the card of an agent without a session, in a file.
type AgentCard struct {
	File     string        `yaml:"file"`
	Revision string        `yaml:"revision"` // empty: the version that the card names, else its hash
	MaxAge   time.Duration `yaml:"max_age"`  // 0 = to be asked for each time
}

// TOOLDISC configures profile 11. MCP servers describe their tools themselves.
type TOOLDISC struct {
	Refresh time.Duration `yaml:"refresh"` // after which a server is read again if it does not report changes
	Idle    time.Duration `yaml:"idle"`    // time without requests after which the tools of a server are no longer watched
	Eager   bool          `yaml:"eager"`   // read all servers at the start, and follow them always
	Tools   []Tool        `yaml:"tools"`
}

// Tool is a tool that no MCP server of this endpoint has.
type Tool struct {
	ToolID     string `yaml:"tool_id"`
	Name       string `yaml:"name"` // empty: the tool_id
	Version    string `yaml:"version"`
	SchemaRef  string `yaml:"schema_ref"` // this or Schema
	Schema     string `yaml:"schema"`     // file
	Descriptor string `yaml:"descriptor"` // file; empty: none
}

func (c *Config) checkDiscovery(p *problems) {
	for _, id := range slices.Sorted(maps.Keys(c.AGDISC.Cards)) {
		key := "agdisc.cards." + id
		if id == "" {
			p.add(key, "has no name; the name of a card is the agent_id")
		}
		if card := c.AGDISC.Cards[id]; card.File == "" {
			p.add(key+".file", "missing; name the file that holds the card")
		} else {
			readable(p, key+".file", card.File)
		}
	}
	if c.TOOLDISC.Refresh <= 0 || c.TOOLDISC.Idle <= 0 {
		p.add("tooldisc", "refresh and idle are durations above 0, such as 5m")
	}
	if c.TOOLDISC.Eager && p.isSet("tooldisc.idle") {
		p.add("tooldisc.idle", "is set while tooldisc.eager has servers followed for good; remove one")
	}
	seen := make(map[[2]string]bool)
	for i := range c.TOOLDISC.Tools {
		c.checkTool(p, fmt.Sprintf("tooldisc.tools[%d]", i), &c.TOOLDISC.Tools[i], seen)
	}
}

func (c *Config) checkTool(p *problems, key string, t *Tool, seen map[[2]string]bool) {
	if t.ToolID == "" {
		p.add(key+".tool_id", "missing; give the tool a name that stays")
	}
	if t.Version == "" {
		p.add(key+".version", "missing; name the version that is described")
	}
	if server, _, ok := strings.Cut(t.ToolID, "/"); ok {
		if _, taken := c.MCP.Servers[server]; taken {
			p.add(key+".tool_id", "%.200q is a tool of the MCP server %s, which describes it itself", t.ToolID, server)
		}
	}
	if (t.SchemaRef == "") == (t.Schema == "") {
		p.add(key, "wants one of schema, a file, and schema_ref, an absolute URI or a hash")
	}
	id := [2]string{t.ToolID, t.Version}
	if seen[id] {
		p.add(key, "%.200q is described in version %.200q already", t.ToolID, t.Version)
	}
	seen[id] = true
	readable(p, key+".schema", t.Schema)
	readable(p, key+".descriptor", t.Descriptor)
}

// resolveDiscovery makes the paths absolute.
func (c *Config) resolveDiscovery(dir string) {
	absolute := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.AGDISC.Cards)) {
		card := c.AGDISC.Cards[id]
		absolute(&card.File)
		c.AGDISC.Cards[id] = card
	}
	for i := range c.TOOLDISC.Tools {
		absolute(&c.TOOLDISC.Tools[i].Schema)
		absolute(&c.TOOLDISC.Tools[i].Descriptor)
	}
}
