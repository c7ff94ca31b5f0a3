package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slimwire/swp/slip/slipstream"
)

// SLIP configures profile 1025, nSLIP and SLIP v1.
type SLIP struct {
	Agents map[string]string `yaml:"agents"`                     // agent_ids by their numbers in nSLIP
	Forms  map[string]string `yaml:"forms" choice:"text,binary"` // of nSLIP, by agent_id
	Relay  List              `yaml:"relay"`                      // patterns of agent_ids whose messages are kept while they are away
	TTL    time.Duration     `yaml:"ttl"`                        // of kept messages; 0 = relay.ttl
	UCR    string            `yaml:"ucr"`                        // file with the anchors of this installation

	// A2A has the agents on sessions, AGENT, and of partners, PARTNER/AGENT, for which swpd
	// speaks SLIP-A2A.
	A2A map[string]SlipA2A `yaml:"a2a"`
}

// Values of slip.forms.<agent_id>.
const (
	FormText   = "text"
	FormBinary = "binary"
)

// Numbers are the agents of nSLIP.
func (s *SLIP) Numbers() map[uint64]string {
	numbers := make(map[uint64]string, len(s.Agents))
	for text, agent := range s.Agents {
		if number, err := strconv.ParseUint(text, 10, 64); err == nil { // checkSLIP refuses other keys
			numbers[number] = agent
		}
	}
	return numbers
}

func (c *Config) resolveSLIP(dir string) {
	if file := &c.SLIP.UCR; *file != "" && !filepath.IsAbs(*file) {
		*file = filepath.Join(dir, *file)
	}
}

func (c *Config) checkSLIP(p *problems) {
	s := &c.SLIP
	for _, text := range slices.Sorted(maps.Keys(s.Agents)) {
		key := "slip.agents." + text
		if number, err := strconv.ParseUint(text, 10, 64); err != nil || strconv.FormatUint(number, 10) != text {
			p.add(key, "%.40q is no number of an agent, want one from 0 to 18446744073709551615", text)
		}
		checkSLIPAgent(p, key, s.Agents[text])
	}
	for _, agent := range slices.Sorted(maps.Keys(s.Forms)) {
		checkSLIPAgent(p, "slip.forms."+agent, agent)
	}
	checkPatterns(p, "slip.relay", s.Relay)
	if s.TTL > c.Relay.Retention {
		p.add("slip.ttl", "is %v, want at most relay.retention, %v", s.TTL, c.Relay.Retention)
	}
	if s.TTL > 0 && len(s.Relay) == 0 {
		p.add("slip.ttl", "is set while slip.relay is not, so that nothing is kept; set slip.relay")
	}
	readable(p, "slip.ucr", s.UCR)
	c.checkSLIPAgents(p)
}

// checkSLIPAgents checks the agents with SLIP-A2A that are not in this process. One name of
// each is enough: that which callers and rules have for it.
func (c *Config) checkSLIPAgents(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(c.SLIP.A2A)) {
		conf, key := c.SLIP.A2A[name], "slip.a2a."+name
		partner, agent, behind := strings.Cut(name, "/")
		_, url := c.A2A.Agents[name]
		_, team := c.Teams[name]
		_, known := c.Partners[partner]
		switch {
		case strings.TrimSpace(name) == "" || behind && strings.TrimSpace(agent) == "":
			p.add(key, "names no agent; want the agent_id of one that connects, or PARTNER/AGENT")
		case behind && !known:
			p.add(key, "there is no partners.%.64s; name a partner, or the agent_id of an agent that connects", partner)
		case url:
			p.add(key, "is an agent at a URL; set a2a.agents.%s.slip instead", name)
		case team:
			p.add(key, "is a team; name its members, which read its messages")
		}
		conf.check(p, key, false)
	}
}

func checkSLIPAgent(p *problems, key, agent string) {
	if !slipstream.IsAgent(agent) {
		p.add(key, "%.100q is no agent_id of SLIP, want letters, digits, '.', '_' and '-'", agent)
	}
}
