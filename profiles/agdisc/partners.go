package agdisc

import (
	"strings"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Bounds for one partner. What exceeds them is neither listed nor kept.
const (
	MaxPartnerAgents = 1024     // in its list, and as many cards
	MaxPartnerOctets = 64 << 20 // of list and cards together
)

// ExtStale is the extension of a DOC or a NOT_MODIFIED with the milliseconds for which the
// partner of the agent has been unreachable: the card may be outdated.
const ExtStale = 16

// Partners are the agents that partners list, as partner/agent, and the cards that
// partners answered with. Both are answered while a partner is unreachable, too. It
// implements Source, and is safe for concurrent use.
type Partners struct {
	profiles.PartnerLists[Entry]
	cards profiles.PartnerAnswers[keptCard]
}

// keptCard is a card with the end of its max_age.
type keptCard struct {
	Card
	until time.Time
}

// NewPartners returns Partners without agents.
func NewPartners() *Partners {
	return &Partners{cards: profiles.PartnerAnswers[keptCard]{
		Most: MaxPartnerAgents, MostOctets: MaxPartnerOctets,
		Size: func(c keptCard) int { return len(c.AgentID) + len(c.Revision) + len(c.ETag) + len(c.Payload) },
	}}
}

// Set replaces the list of a partner. Agents with a slash in their id are left out,
// because they belong to partners of the partner, and so are agents whose texts are too
// long for the profile. Cards of agents that are not listed are
// dropped. The caller keeps list.
func (p *Partners) Set(partner string, list []Entry) {
	own, listed, octets := make([]Entry, 0, len(list)), make(map[string]bool, len(list)), 0
	for _, e := range list {
		e = Entry{AgentID: partner + "/" + e.AgentID, Revision: e.Revision, Card: e.Card, Behind: true}
		size := len(e.AgentID) + len(e.Revision)
		if len(own) == MaxPartnerAgents || strings.Count(e.AgentID, "/") > 1 || max(len(e.AgentID), len(e.Revision)) > MaxText || octets+size > MaxPartnerOctets {
			continue
		}
		own, octets = append(own, e), octets+size
		listed[e.AgentID] = true
	}
	p.PartnerLists.Set(partner, own)
	p.cards.Listed(partner, 0, octets, func(agentID string) bool { return listed[agentID] })
}

// Forget drops everything about a partner.
func (p *Partners) Forget(partner string) {
	p.PartnerLists.Forget(partner)
	p.cards.Forget(partner)
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

// Card implements Source: the partner is asked for it.
func (p *Partners) Card(string, func(Card, error)) bool { return false }

// keep is Keep of the Crossing. A final refusal drops the card.
func (p *Partners) keep(agentID, caller string, _, answer *e1.Envelope) {
	var m Doc
	refused := refusals.Refused(answer)
	switch {
	case answer.MsgType == TypeDoc && m.Decode(answer.Payload) == nil:
		card := m.card(agentID, answer.Extensions)
		p.cards.Keep(agentID, caller, keptCard{card, time.Now().Add(card.MaxAge)})
	case refused != nil && !refused.Retryable() && refused.Code != CodeInternal:
		p.cards.Drop(agentID)
	}
}

// kept is Kept of the Crossing.
func (p *Partners) kept(agentID, caller string, req *e1.Envelope, away time.Duration) (answer e1.Envelope, ok bool) {
	var in Get
	card, ok := p.cards.Get(agentID, caller)
	if !ok || in.Decode(req.Payload) != nil {
		return answer, false
	}
	card.AgentID = string(in.AgentID) // without the partner, if the request has a target
	card.MaxAge = max(0, min(card.MaxAge, time.Until(card.until)))
	answer = card.answer(string(in.IfNoneMatch))
	answer.Extensions = profiles.AppendStale(nil, ExtStale, away+card.Stale)
	return answer, true
}

// crossing says how requests for cards of partners are forwarded.
func (s *Service) crossing() *profiles.Crossing {
	c := names.Crossing(&refusals, map[uint64]profiles.Errand{TypeGet: {Operation: "get", By: []uint64{TypeDoc, TypeNotModified}}})
	about := c.Fits
	c.Fits = func(asked, answer *e1.Envelope) error {
		var m Get
		if err := m.Decode(asked.Payload); err != nil || answer.MsgType != TypeNotModified {
			return about(asked, answer)
		}
		return readNotModified(answer.Payload, string(m.AgentID), string(m.IfNoneMatch))
	}
	if s.partners != nil {
		c.Keep, c.Kept = s.partners.keep, s.partners.kept
	}
	return c
}
