package agdisc

import (
	"slices"
	"sync"
	"time"
)

// MaxPartnerAgents is how many agents of one partner are listed.
const MaxPartnerAgents = 1024

// Partners are the agents that partners list, as partner/agent. They are listed while a
// partner is away, too; their cards are the partner's to give. It implements Source, and
// is safe for concurrent use. The zero value has none.
type Partners struct {
	mu    sync.Mutex
	lists map[string]*partnerList
}

type partnerList struct {
	entries []Entry
	away    time.Time // since when; zero: it is there
}

// Set has a partner list agents, in place of those before. Agents with a slash in their
// id are left out: they are those of its partners. The list is the caller's.
func (p *Partners) Set(partner string, list []Entry) {
	own := make([]Entry, 0, len(list))
	for _, e := range list {
		if len(own) < MaxPartnerAgents && !hasSlash(e.AgentID) {
			own = append(own, Entry{AgentID: partner + "/" + e.AgentID, Revision: e.Revision, Behind: true})
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lists == nil {
		p.lists = make(map[string]*partnerList)
	}
	p.lists[partner] = &partnerList{entries: own}
}

func hasSlash(id string) bool { return slices.Contains([]byte(id), '/') }

// Away says that a partner is not there any more.
func (p *Partners) Away(partner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lists[partner]; l != nil && l.away.IsZero() {
		l.away = time.Now()
	}
}

// Forget drops what a partner has listed.
func (p *Partners) Forget(partner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.lists, partner)
}

// Agents implements Source.
func (p *Partners) Agents() (all []Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lists {
		from := len(all)
		all = append(all, l.entries...)
		if !l.away.IsZero() {
			for i := range all[from:] {
				all[from+i].StaleMillis = max(time.Since(l.away).Milliseconds(), 1)
			}
		}
	}
	return all
}

// Card implements Source: a partner is asked for it.
func (p *Partners) Card(string, func(Card, error)) bool { return false }
