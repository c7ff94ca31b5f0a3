package relay

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/slimwire/swp/profiles"
)

// Held is a delivery that a partner does not accept now, and that is published to it again
// later.
type Held struct {
	DeliveryID []byte   `json:"delivery_id"` // base64 in JSON
	Partner    string   `json:"partner"`
	Refusal    *Refusal `json:"refusal"` // what the partner has answered last, or why it cannot be asked
}

// maxHeld limits the topics of which an onward knows why the partner accepts no deliveries.
const maxHeld = 256

// hold records why the partner does not accept a delivery of a topic now. With a nil error
// it has accepted it, and a refusal for good stops no other one.
func (f *onward) hold(topic string, err error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	switch _, known := f.held[topic]; {
	case err == nil, f.refuses(err):
		delete(f.held, topic)
	case known || len(f.held) < maxHeld:
		if f.held == nil {
			f.held = make(map[string]*Refusal)
		}
		f.held[topic] = f.obstacle(err)
	}
}

// obstacle describes an error after which a delivery is published again.
func (f *onward) obstacle(err error) *Refusal {
	if _, said := errors.AsType[*profiles.PeerError](err); said {
		return f.refusalOf(err)
	}
	return &Refusal{Code: profiles.RateLimitExceeded.Alias(), Message: "partner " + f.partner + " has not answered in time"}
}

// heldUp returns why a delivery of a topic waits for a partner; nil if it does not, as far
// as is known.
func (s *Service) heldUp(partner, topic string) *Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.links[partner]
	if f == nil {
		why := ""
		if s.opts.Away != nil {
			if why = s.opts.Away(partner); why != "" {
				why = ": " + why
			}
		}
		return &Refusal{Code: profiles.RateLimitExceeded.Alias(), Message: "partner " + partner + " cannot be reached now" + why}
	}
	return f.held[topic]
}

// Obstacle returns why a partner that is connected does not accept deliveries now, and the
// topic; ok is false if it does. Of several topics it returns one.
func (s *Service) Obstacle(partner string) (topic string, why Refusal, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.links[partner]
	if f == nil || len(f.held) == 0 {
		return "", Refusal{}, false
	}
	topic = slices.Min(slices.Collect(maps.Keys(f.held)))
	return topic, *f.held[topic], true
}

// listHeld adds a delivery to the page if it waits for a partner that does not accept it.
func (l *listing) listHeld(ctx context.Context, id string) error {
	data, err := l.s.opts.Store.Data(ctx, space, id)
	if err != nil {
		return unavailable(err)
	}
	r, err := decodeRecord(data)
	if err != nil {
		return nil // it is gone by now
	}
	partner, _, ok := l.s.behind(r.topic)
	if _, there := beyond(l.target, r.topic); !ok || !there {
		return nil
	}
	if why := l.s.heldUp(partner, r.topic); why != nil && l.size+maxDeadHead <= l.s.opts.MaxAnswer {
		l.size += maxDeadHead
		_, deliveryID := splitID(id)
		l.page.Held = append(l.page.Held, Held{[]byte(deliveryID), partner, why})
	}
	return nil
}

// FindHeld looks for a delivery of this side among the held ones that swp.relay.dead lists, which
// call calls. It returns nil if it is not listed.
func FindHeld(call func(params []byte) ([]byte, error), id []byte) (*Held, error) {
	page, err := pageOf(call, DeadParams{IDs: [][]byte{id}})
	if err != nil {
		return nil, err
	}
	for i := range page.Held {
		if h := &page.Held[i]; string(h.DeliveryID) == string(id) && h.Refusal != nil {
			return h, nil
		}
	}
	return nil, nil //nolint:nilnil // it is not listed
}
