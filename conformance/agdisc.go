package conformance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
)

// agdiscProfiles are the AGDISC profile and, for agents that peers declare, the
// A2A profile. The application has the cards that the script gives it, and asks
// peers for theirs.
func agdiscProfiles(s *stage) ([]*profiles.Profile, error) {
	agents, err := a2a.New(a2a.Options{Now: s.clock.now, After: s.clock.after})
	if err != nil {
		return nil, err
	}
	s.onClose(agents.Close)
	cache := agdisc.NewCache(agdisc.CacheOptions{Now: s.clock.now, Timeout: never})
	s.onClose(cache.Close)
	desk := &cardDesk{s: s, cards: make(map[string]agdisc.Card)}
	s.app.opens = desk.opens
	service := agdisc.New(agdisc.Options{Sources: []agdisc.Source{desk, agdisc.NewSessions(declared{agents}, cache, nil)}})
	return []*profiles.Profile{witnessed(s, service.Profile()), witnessed(s, agents.Profile())}, nil
}

// declared are the agents that peers have declared.
type declared struct{ *a2a.Service }

// AgentIDs implements agdisc.Agents.
func (d declared) AgentIDs() (ids []string) {
	for _, agent := range d.Agents() {
		ids = append(ids, agent.ID)
	}
	return ids
}

// cardDesk is the application: it has cards, and asks for others. It implements
// agdisc.Source.
type cardDesk struct {
	s     *stage
	mu    sync.Mutex
	cards map[string]agdisc.Card
}

// Agents implements agdisc.Source.
func (d *cardDesk) Agents() []agdisc.Entry { return nil }

// Card implements agdisc.Source.
func (d *cardDesk) Card(agentID string, found func(agdisc.Card, error)) bool {
	d.mu.Lock()
	card, ok := d.cards[agentID]
	d.mu.Unlock()
	if ok {
		found(card, nil)
	}
	return ok
}

// opens takes what the script has the application say: an AGDISC_DOC is a card
// that it has from now on, an AGDISC_GET a question to the peer.
func (d *cardDesk) opens(_ context.Context, conn string, env *e1.Envelope) (opened bool, err error) {
	switch env.MsgType {
	case agdisc.TypeDoc:
		return true, d.take(env.Payload)
	case agdisc.TypeGet:
		var in agdisc.Get
		if err := in.Decode(env.Payload); err != nil {
			return false, err
		}
		agentID, etag := string(in.AgentID), string(in.IfNoneMatch)
		return true, d.s.asks(conn, func(ctx context.Context, on profiles.Session) error {
			card, err := agdisc.Ask(ctx, on, agentID, etag)
			d.learn(agentID, etag, card, err)
			return err
		})
	}
	return false, nil
}

func (d *cardDesk) take(payload []byte) error {
	var m agdisc.Doc
	if err := m.Decode(payload); err != nil {
		return err
	}
	card := agdisc.Card{
		AgentID: string(m.AgentID), Revision: string(m.SchemaRevision), ETag: string(m.ETag), Payload: m.CardPayload,
		MaxAge: time.Duration(m.MaxAgeMs) * time.Millisecond,
	}
	if card.ETag == "" {
		card.ETag = agdisc.HashOf(card.Payload)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cards[card.AgentID] = card
	return nil
}

// learn is the application that is told what came of its question. Of an answer
// that is refused it is told nothing.
func (d *cardDesk) learn(agentID, etag string, card *agdisc.Card, err error) {
	var none *profiles.PeerError
	switch {
	case errors.As(err, &none):
		m := agdisc.Err{Code: []byte(none.Code), Message: []byte(none.Message)}
		d.s.app.record(agdisc.ProfileID, agdisc.TypeErr, m.Append(nil))
	case err != nil:
	case card == nil:
		m := agdisc.NotModified{AgentID: []byte(agentID), ETag: []byte(etag)}
		d.s.app.record(agdisc.ProfileID, agdisc.TypeNotModified, m.Append(nil))
	default:
		m := agdisc.Doc{
			AgentID: []byte(card.AgentID), SchemaRevision: []byte(card.Revision), CardPayload: card.Payload,
			ETag: []byte(card.ETag), MaxAgeMs: uint64(card.MaxAge.Milliseconds()),
		}
		d.s.app.record(agdisc.ProfileID, agdisc.TypeDoc, m.Append(nil))
	}
}
