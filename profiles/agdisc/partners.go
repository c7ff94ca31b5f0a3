package agdisc

import (
	"strings"

	"github.com/slimwire/swp/profiles"
)

// MaxPartnerAgents is how many agents of one partner are listed.
const MaxPartnerAgents = 1024

// Partners are the agents that partners list, as partner/agent. They are listed while a
// partner is away, too; their cards are the partner's to give. It implements Source, and
// is safe for concurrent use. The zero value has none.
type Partners struct{ profiles.PartnerLists[Entry] }

// Set has a partner list agents, in place of those before. Agents with a slash in their
// id are left out: they are those of its partners. The list is the caller's.
func (p *Partners) Set(partner string, list []Entry) {
	own := make([]Entry, 0, len(list))
	for _, e := range list {
		if len(own) < MaxPartnerAgents && !strings.Contains(e.AgentID, "/") {
			own = append(own, Entry{AgentID: partner + "/" + e.AgentID, Revision: e.Revision, Behind: true})
		}
	}
	p.PartnerLists.Set(partner, own)
}

// Agents implements Source.
func (p *Partners) Agents() (all []Entry) {
	for entries, stale := range p.All {
		for _, e := range entries {
			e.StaleMillis = stale
			all = append(all, e)
		}
	}
	return all
}

// Card implements Source: a partner is asked for it.
func (p *Partners) Card(string, func(Card, error)) bool { return false }
