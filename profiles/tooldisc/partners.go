package tooldisc

import (
	"context"

	"github.com/slimwire/swp/profiles"
)

// Bounds on what is listed of one partner; what is beyond them is left out.
const (
	MaxPartnerTools  = 10_000
	MaxPartnerOctets = 64 << 20
)

// SetPartner has the tools that a partner lists be listed as partner/tool_id, in place of
// those before: to who may call or get a tool of that name, but to no partner. A tool that
// no peer would take is left out.
func (s *Service) SetPartner(partner string, tools []Tool) {
	list := make([]*entry, 0, len(tools))
	octets := 0
	for _, t := range tools {
		t.ID = partner + "/" + t.ID
		e, err := newEntry(t, "", nil)
		if octets += len(t.ID) + len(t.Name) + len(t.Payload); err != nil || len(list) == MaxPartnerTools || octets > MaxPartnerOctets {
			continue
		}
		e.partner = partner
		list = append(list, e)
	}
	s.partners.Set(partner, list)
	s.publishNow()
}

// PartnerAway says that a partner is not there any more: its tools are listed all the
// same, and answers say for how long they may be out of date.
func (s *Service) PartnerAway(partner string) { s.partners.Away(partner) }

// ForgetPartner drops what a partner has listed.
func (s *Service) ForgetPartner(partner string) {
	s.partners.Forget(partner)
	s.publishNow()
}

func (s *Service) publishNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish()
}

// stale is for how many milliseconds the partners of some tools are away, of several the
// longest time, and 0 if all are there.
func (s *Service) stale(tools map[string]bool) (ms uint64) {
	for partner := range tools {
		ms = max(ms, uint64(s.partners.Stale(partner)))
	}
	return ms
}

// askPartners has the tools of partners be known of which an identity may see some.
func (s *Service) askPartners(ctx context.Context, identity string) {
	if s.opts.Partners == nil || s.opts.Partner != nil && s.opts.Partner(identity) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Wait)
	defer cancel()
	s.opts.Partners(ctx, func(partner string) bool {
		rules, ok := s.opts.Access.(profiles.Reacher)
		return !ok || rules.Reaches(identity, "mcp", partner) || rules.Reaches(identity, Name, partner)
	})
}
