package tooldisc

import (
	"context"
	"strings"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Limits of the list of one partner; entries beyond are omitted.
const (
	MaxPartnerTools  = 10_000
	MaxPartnerOctets = 64 << 20
)

// SetPartner replaces the tools of a partner, which are listed as partner/tool_id: to
// identities that may call or get them, but never to partners. Invalid tools are omitted, and
// so is a duplicate version. unread are the servers that the partner could not read.
func (s *Service) SetPartner(partner string, tools []Tool, unread []Unread) {
	list := make([]*entry, 0, len(tools))
	octets := 0
	known := make(map[[2]string]bool, len(tools))
	for _, t := range tools {
		t.ID = partner + "/" + t.ID
		named := [2]string{t.ID, t.Version}
		if known[named] {
			continue
		}
		known[named] = true
		e, err := newEntry(t, "", nil)
		if err != nil || len(list) == MaxPartnerTools || octets+e.Octets() > MaxPartnerOctets {
			continue
		}
		e.partner = partner
		list, octets = append(list, e), octets+e.Octets()
	}
	s.partners.Set(partner, list)
	s.answers.Listed(partner, len(list), octets, func(string) bool { return false }) // the list has them now, or they are gone
	behind := make([]Unread, len(unread))
	for i, u := range unread {
		behind[i] = Unread{strings.TrimSuffix(partner+"/"+u.Name, "/"), u.Reason}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind[partner] = behind
	s.publish()
}

// PartnerAway says that a partner is not there any more: its tools are listed all the
// same, and answers say for how long they may be out of date.
func (s *Service) PartnerAway(partner string) { s.partners.Away(partner) }

// ForgetPartner drops what a partner has listed.
func (s *Service) ForgetPartner(partner string) {
	s.partners.Forget(partner)
	s.answers.Forget(partner)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.behind, partner)
	s.publish()
}

// withheld reports whether a tool of a partner is left out of lists.
func (s *Service) withheld(e *entry) bool {
	return e.partner != "" && s.opts.Withheld != nil && s.opts.Withheld(e.partner, strings.TrimPrefix(e.ID, e.partner+"/"))
}

// stale is for how many milliseconds the partners of some tools are away, of several the
// longest time, and 0 if all are there.
func (s *Service) stale(tools map[string]bool) (ms uint64) {
	for partner := range tools {
		ms = max(ms, uint64(s.partners.Stale(partner)))
	}
	return ms
}

// askPartners updates the tools of the partners of which an identity may see some, within ctx, and
// returns the partners whose tools are not known.
func (s *Service) askPartners(ctx context.Context, identity string) []Unread {
	if s.opts.Partners == nil || s.opts.Partner != nil && s.opts.Partner(identity) {
		return nil
	}
	return s.opts.Partners(ctx, func(partner string) bool { return s.reaches(identity, partner) })
}

// keep is Keep of the Crossing. A final refusal drops all versions of the tool.
func (s *Service) keep(id, caller string, req, answer *e1.Envelope) {
	var in GetReq
	var out GetResp
	refused := refusals.Refused(answer)
	switch {
	case answer.MsgType == TypeGetResp && in.Decode(req.Payload) == nil && out.Decode(answer.Payload) == nil:
		t := out.Tool.tool()
		t.ID, t.Stale = id, profiles.StaleOf(answer.Extensions, ExtStale)
		if e, err := newEntry(t, "", nil); err == nil {
			s.answers.Keep(id, about(in.Version, caller), e)
		}
	case refused != nil && refused.Code == CodeNotFound:
		s.answers.Drop(id)
	}
}

// about is the detail of a question by which its answer is kept.
func about(version []byte, caller string) string { return string(version) + "\x00" + caller }

// kept is Kept of the Crossing: from the list of the partner, or from an answer to the
// same question.
func (s *Service) kept(id, caller string, req *e1.Envelope, away time.Duration) (answer e1.Envelope, ok bool) {
	var in GetReq
	if req.MsgType != TypeGetReq || in.Decode(req.Payload) != nil {
		return answer, false
	}
	partner, _, _ := strings.Cut(id, "/")
	e := s.catalogue.Load().find(id, string(in.Version))
	if e == nil || e.partner != partner {
		if e, ok = s.answers.Get(id, about(in.Version, caller)); !ok {
			return answer, false
		}
	}
	out := GetResp{Tool: e.descriptor()}
	out.Tool.ToolID = in.ToolID // without the partner, if the request has a target
	return e1.Envelope{
		MsgType: TypeGetResp, Payload: out.Append(make([]byte, 0, out.Size())),
		Extensions: profiles.AppendStale(nil, ExtStale, away+e.Stale),
	}, true
}
