package events

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// table holds the subscriptions of peers.
type table struct {
	mu         sync.Mutex
	subs       map[subscriptionKey]*subscription
	sessions   map[profiles.Session]*fair.Shares // subscriptions of each, by caller
	identities map[string]int
	lanes      map[profiles.Lane]*turn
	named      map[string]*subscription
	closed     bool
}

// subscriptionKey identifies a subscription: its id is valid on its connection only.
type subscriptionKey struct {
	session profiles.Session
	id      string
}

// turn is the lock that the subscriptions of one stream hold while they send.
type turn struct {
	slot chan struct{} // of one
	n    int           // subscriptions; guarded by the table
}

func (t *table) init() {
	t.subs = make(map[subscriptionKey]*subscription)
	t.sessions = make(map[profiles.Session]*fair.Shares)
	t.identities = make(map[string]int)
	t.lanes = make(map[profiles.Lane]*turn)
	t.named = make(map[string]*subscription)
}

// add enters a subscription, within the bounds, and makes its context, which the caller
// cancels. An older subscription with the same name, on any connection, ends. The caller
// must call Done of the Bus's work once.
func (t *table) add(s *subscription) error {
	o := &s.bus.opts
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return errEnding
	case t.subs[s.key] != nil:
		return profiles.Errorf(profiles.DuplicateMsgID, "events: the msg_id is that of a subscription")
	case t.identities[s.reader.rights.identity] >= o.IdentitySubscriptions:
		return profiles.Busy(DetailBound, "events: too many subscriptions of this identity")
	}
	places := t.sessions[s.key.session]
	if places == nil {
		own := fair.NewOwn(o.Subscriptions)
		places = &own
	}
	if fault := places.Take(s.sharer(), 1).Refuse(errSubscriptions); fault != nil {
		return fault
	}
	t.sessions[s.key.session] = places
	s.bus.work.Add(1)
	s.ctx, s.cancel = context.WithCancelCause(s.bus.ctx)
	t.subs[s.key] = s
	t.identities[s.reader.rights.identity]++
	if s.turn = t.lanes[s.lane]; s.turn == nil {
		s.turn = &turn{slot: make(chan struct{}, 1)}
		t.lanes[s.lane] = s.turn
	}
	s.turn.n++
	if s.name != "" {
		if older := t.named[s.name]; older != nil {
			older.cancel(errReplaced)
		}
		t.named[s.name] = s
	}
	return nil
}

var errSubscriptions = profiles.Busy(DetailBound, "events: too many subscriptions on this connection")

// sharer returns the caller that the subscription is of, in the shares of its session; "" is the
// peer itself.
func (s *subscription) sharer() string { return profiles.For(s.reader.rights.identity) }

func (t *table) get(key subscriptionKey) *subscription {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.subs[key]
}

// all returns the subscriptions.
func (t *table) all() []*subscription {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.subs))
}

// remove removes a subscription. It may be called more than once.
func (t *table) remove(s *subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.subs[s.key] != s {
		return
	}
	delete(t.subs, s.key)
	places := t.sessions[s.key.session]
	if places.Give(s.sharer(), 1); places.Used() == 0 {
		delete(t.sessions, s.key.session)
	}
	decrement(t.identities, s.reader.rights.identity)
	if s.turn.n--; s.turn.n == 0 {
		delete(t.lanes, s.lane)
	}
	if t.named[s.name] == s {
		delete(t.named, s.name)
	}
}

func decrement[K comparable](m map[K]int, key K) {
	if m[key]--; m[key] == 0 {
		delete(m, key)
	}
}

// close ends every subscription and refuses new ones.
func (t *table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, s := range t.subs {
		s.cancel(errClosed)
	}
}
