package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/slimwire/swp/slip/slipstream"
)

// SLIP configures profile 1025, nSLIP and SLIP v1.
type SLIP struct {
	Agents map[string]string `yaml:"agents"` // agent_ids by their numbers in nSLIP
	Forms  map[string]string `yaml:"forms"`  // text or binary: the form of nSLIP, by agent_id
	Relay  List              `yaml:"relay"`  // patterns of agent_ids whose messages are kept while they are away
	TTL    time.Duration     `yaml:"ttl"`    // of kept messages; 0 = relay.ttl
	UCR    string            `yaml:"ucr"`    // file with the anchors of this installation
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
		oneOf(p, "slip.forms."+agent, s.Forms[agent], FormText, FormBinary)
	}
	checkPatterns(p, "slip.relay", s.Relay)
	if s.TTL > c.Relay.Retention {
		p.add("slip.ttl", "is %v, want at most relay.retention, %v", s.TTL, c.Relay.Retention)
	}
	if s.TTL > 0 && len(s.Relay) == 0 {
		p.add("slip.ttl", "is set while slip.relay is not, so that nothing is kept; set slip.relay")
	}
	readable(p, "slip.ucr", s.UCR)
}

func checkSLIPAgent(p *problems, key, agent string) {
	if !slipstream.IsAgent(agent) {
		p.add(key, "%.100q is no agent_id of SLIP, want letters, digits, '.', '_' and '-'", agent)
	}
}
