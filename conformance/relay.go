package conformance

import (
	"strings"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// relayWaiting is how many deliveries a topic holds: so few that the vectors fill
// it.
const relayWaiting = 4

// relayProfiles are the RELAY profile, and RPC with its methods. Its times are the
// defaults, without jitter: the vectors name the instants. Publishers and
// consumers are peers.
func relayProfiles(s *stage) ([]*profiles.Profile, error) {
	db, err := s.storeWith(sqlstore.Options{Limits: store.Limits{Waiting: relayWaiting}})
	if err != nil {
		return nil, err
	}
	service, err := relay.New(relay.Options{Store: &ledger{Store: db, s: s, items: make(map[string]string), dead: make(map[string]bool)}, Jitter: -1, Heartbeat: never, Now: s.clock.now, After: s.clock.after})
	if err != nil {
		return nil, err
	}
	s.onClose(service.Close)
	calls, err := rpc.New(rpc.Options{Brought: service.Profile().Methods})
	if err != nil {
		return nil, err
	}
	return []*profiles.Profile{witnessed(s, service.Profile()), witnessed(s, calls)}, nil
}

// ledger is the store of a relay. The application gets the stored outcome of a
// delivery: the script goes on when it has. After its end what is left of
// attempts is nobody's concern.
type ledger struct {
	relay.Store
	s *stage

	mu    sync.Mutex
	items map[string]string // delivery_id by the id of the item
	dead  map[string]bool   // items
}

// Add notes which delivery an item is.
func (l *ledger) Add(space, queue, id, mark, owner string, data []byte, expires, keep time.Time, done func(store.AddResult)) {
	l.Store.Add(space, queue, id, mark, owner, data, expires, keep, func(r store.AddResult) {
		if r.Fresh {
			_, deliveryID, _ := strings.Cut(id, owner)
			l.mu.Lock()
			l.items[id] = deliveryID
			delete(l.dead, id)
			l.mu.Unlock()
		}
		done(r)
	})
}

// Ack tells that a delivery is processed.
func (l *ledger) Ack(space, id string, lease uint64, done func(bool, error)) {
	l.Store.Ack(space, id, lease, l.recorded(id, done, func(deliveryID []byte, dead bool) (uint64, []byte) {
		if dead {
			return 0, nil
		}
		return relay.TypeAck, (&relay.Ack{DeliveryID: deliveryID}).Append(nil)
	}))
}

// Nack tells that an attempt of a delivery has failed.
func (l *ledger) Nack(space, id string, lease uint64, due time.Time, counts bool, done func(bool, error)) {
	l.Store.Nack(space, id, lease, due, counts, l.recorded(id, done, func(deliveryID []byte, dead bool) (uint64, []byte) {
		if dead || !counts {
			return 0, nil
		}
		return relay.TypeNack, (&relay.Nack{DeliveryID: deliveryID, Retryable: true}).Append(nil)
	}))
}

// Move tells that a delivery is dead, and later that its publisher knows.
func (l *ledger) Move(space, id string, lease uint64, queue string, data []byte, expires time.Time, done func(bool, error)) {
	l.Store.Move(space, id, lease, queue, data, expires, l.recorded(id, done, func(deliveryID []byte, dead bool) (uint64, []byte) {
		if dead {
			return relay.TypeStatus, (&relay.Status{DeliveryID: deliveryID, State: []byte(relay.DeadState)}).Append(nil)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.dead[id] = true
		return relay.TypeNack, (&relay.Nack{DeliveryID: deliveryID}).Append(nil)
	}))
}

// recorded returns a callback that records what was stored, if it was and there is a message for it.
func (l *ledger) recorded(id string, done func(bool, error), what func(deliveryID []byte, dead bool) (msgType uint64, payload []byte)) func(bool, error) {
	return func(held bool, err error) {
		if held && err == nil && !l.s.app.over() {
			l.mu.Lock()
			deliveryID, dead := l.items[id], l.dead[id]
			l.mu.Unlock()
			if msgType, payload := what([]byte(deliveryID), dead); payload != nil {
				l.s.app.record(relay.ProfileID, msgType, payload)
			}
		}
		done(held, err)
	}
}
