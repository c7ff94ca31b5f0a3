package agdisc

import (
	"bytes"
	"context"
	"iter"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Ask sends a GET and returns the card that it is answered with, or nil if the
// peer says that it is still the one with the etag given. An empty etag asks for
// the card as such. The Card is the caller's own; its ETag is empty if the peer
// told none.
//
// The error is a *profiles.PeerError if the peer has no card, an *profiles.Error if
// either side refused a message, as InvalidProfilePayload an answer that is none
// to this question, or the context's.
func Ask(ctx context.Context, on profiles.Caller, agentID, etag string) (*Card, error) {
	m := Get{AgentID: []byte(agentID), IfNoneMatch: []byte(etag)}
	ask := e1.Envelope{ProfileID: ProfileID, MsgType: TypeGet, Payload: m.Append(make([]byte, 0, m.Size()))}
	var card *Card
	err := profiles.Ask(ctx, on, ask, func(answer *e1.Envelope) (err error) {
		switch answer.MsgType {
		case TypeDoc:
			card, err = readDoc(answer, agentID)
			return err
		case TypeNotModified:
			return readNotModified(answer.Payload, agentID, etag)
		}
		return refusals.Read(answer)
	})
	return card, err
}

func readDoc(env *e1.Envelope, agentID string) (*Card, error) {
	var m Doc
	if err := m.Decode(env.Payload); err != nil {
		return nil, err
	}
	if string(m.AgentID) != agentID {
		return nil, profiles.Errorf(profiles.InvalidProfilePayload, "agdisc: card of another agent, %.80q, want %.80q", m.AgentID, agentID)
	}
	card := m.card(agentID, env.Extensions)
	return &card, nil
}

// card returns the card in an answer, in separate memory.
func (m *Doc) card(agentID string, ext e1.Extensions) Card {
	return Card{
		AgentID: agentID, Revision: string(m.SchemaRevision), ETag: string(m.ETag), Payload: bytes.Clone(m.CardPayload),
		MaxAge: time.Duration(min(m.MaxAgeMs, uint64(maxAge/time.Millisecond))) * time.Millisecond,
		Stale:  profiles.StaleOf(ext, ExtStale),
	}
}

func readNotModified(payload []byte, agentID, etag string) error {
	var m NotModified
	if err := m.Decode(payload); err != nil {
		return err
	}
	if string(m.AgentID) != agentID || string(m.ETag) != etag {
		return profiles.Errorf(profiles.InvalidProfilePayload, "agdisc: not modified: agent_id or etag is not the one that was sent")
	}
	return nil
}

// Entries lists the agents of a peer, page by page as they are wanted. call calls
// MethodList with params as JSON, and reads its result. An error is the last thing that is
// yielded: that of call, profiles.ErrNext, or an *profiles.Error of InvalidProfilePayload for
// a page above a bound.
func Entries(call func(params, result any) error) iter.Seq2[Entry, error] {
	return profiles.Pages(func(at string) ([]Entry, string, error) {
		var page ListResult
		if err := call(ListParams{After: at}, &page); err != nil {
			return nil, "", err
		}
		list, err := page.behind(at)
		return list, page.Next, err
	})
}

// behind returns the entries of a page that begins behind an agent_id, up to the first that is
// out of order.
func (r *ListResult) behind(last string) ([]Entry, error) {
	if len(r.Agents) > profiles.MaxList {
		return nil, profiles.Errorf(profiles.InvalidProfilePayload, "agdisc: %s: %d agents on a page, want at most %d", MethodList, len(r.Agents), profiles.MaxList)
	}
	for i, e := range r.Agents {
		if n := max(len(e.AgentID), len(e.Revision)); n > MaxText {
			return nil, profiles.Errorf(profiles.InvalidProfilePayload, "agdisc: %s: a text of %d octets, want at most %d", MethodList, n, MaxText)
		}
		if e.AgentID <= last {
			return r.Agents[:i], profiles.ErrNext
		}
		last = e.AgentID
	}
	if r.Next != "" && (len(r.Agents) == 0 || r.Next < last) {
		return r.Agents, profiles.ErrNext
	}
	return r.Agents, nil
}
