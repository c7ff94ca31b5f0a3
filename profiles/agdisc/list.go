package agdisc

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/slimwire/swp/profiles"
)

// MethodList is the RPC that lists agents: those whose card the caller may get, and its own. Its
// params are a ListParams as JSON, its result a ListResult.
const MethodList = "swp.agents.list"

// ListParams say where a page of the listing begins. Empty params are the first
// page.
type ListParams struct {
	After string `json:"after,omitempty"` // agent_ids that come after it, in order of their octets
	Limit int    `json:"limit,omitempty"` // default and bound is profiles.MaxList
}

// ListResult is a page of the listing.
type ListResult struct {
	Agents []Entry `json:"agents"`
	Next   string  `json:"next,omitempty"` // the After of the next page; empty: this is the last one

	// Unlisted names partners whose agents the caller might get, but that have not listed
	// their agents yet. Only on the first page.
	Unlisted []string `json:"unlisted,omitempty"`

	// Kinds are the kinds of tasks that the caller may ask for here, sorted, at most
	// profiles.MaxList. Only on the first page.
	Kinds []string `json:"kinds,omitempty"`
}

// refreshTime limits the wait of a caller for the lists of partners.
const refreshTime = profiles.BehindWait

// List serves MethodList for a peer. Pages name each agent once that is there
// from the first to the last of them. An agent that is listed need not have a
// card. The first page waits for partners whose lists are too old, up to a bound. The error
// is an *profiles.Error.
func (s *Service) List(ctx context.Context, peer *profiles.Peer, params []byte) ([]byte, error) {
	var in ListParams
	if err := profiles.ReadListing(Name, params, &in, &in.Limit); err != nil {
		return nil, err
	}
	out := ListResult{Agents: []Entry{}}
	if in.After == "" {
		out.Unlisted = s.update(ctx, peer.Identity)
		if s.kinds != nil {
			kinds := s.kinds(peer.Identity)
			out.Kinds = kinds[:min(len(kinds), profiles.MaxList)]
		}
	}
	for _, entry := range s.after(in.After) {
		if entry.Behind && s.partner != nil && s.partner(peer.Identity) {
			continue
		}
		entry.Own = s.own(peer, entry.AgentID)
		if !entry.Own && !profiles.Would(s.access, peer.Identity, s.profile.Name, "get", entry.AgentID) {
			continue
		}
		if len(out.Agents) == in.Limit {
			out.Next = out.Agents[in.Limit-1].AgentID
			break
		}
		out.Agents = append(out.Agents, entry)
	}
	return json.Marshal(out)
}

// update updates the lists of the partners whose agents an identity might get, and returns
// the names of those that have listed nothing yet.
func (s *Service) update(ctx context.Context, identity string) (unlisted []string) {
	if s.refresh == nil || s.partner != nil && s.partner(identity) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	return s.refresh(ctx, func(partner string) bool {
		rules, ok := s.access.(profiles.Reacher)
		return !ok || rules.Reaches(identity, Name, partner)
	})
}

// own reports whether an agent is on a session of the peer's identity. The list
// tells the peer that its Handshake was accepted, because a Handshake has no
// answer.
func (s *Service) own(peer *profiles.Peer, agentID string) bool {
	for _, source := range s.sources {
		if sessions, ok := source.(*Sessions); ok {
			if session, here := sessions.agents.Session(agentID); here && session.Peer().Identity == peer.Identity {
				return true
			}
		}
	}
	return false
}

// after returns the agents of all sources behind an agent_id, in order.
func (s *Service) after(agentID string) []Entry {
	var all []Entry
	for _, source := range s.sources {
		all = append(all, source.Agents()...)
	}
	// Stable, so that the first source of an agent counts.
	slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Compare(a.AgentID, b.AgentID) })
	all = slices.CompactFunc(all, func(a, b Entry) bool { return a.AgentID == b.AgentID })
	i, found := slices.BinarySearchFunc(all, agentID, func(e Entry, id string) int { return cmp.Compare(e.AgentID, id) })
	if found {
		i++
	}
	return all[i:]
}

// list is swp.agents.list.
func (s *Service) list(ctx context.Context, req *profiles.Request, params []byte, _ func(item []byte) error) ([]byte, error) {
	return s.List(ctx, req.Peer(), params)
}
