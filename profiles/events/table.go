package events

import (
	"sync"

	"github.com/slimwire/swp/profiles"
)

// table holds the subscriptions of peers.
type table struct {
	mu     sync.Mutex
	subs   map[subscriptionKey]*subscription
	count  map[profiles.Session]int
	named  map[string]*subscription
	closed bool
}

// subscriptionKey says whose subscription it is: an id means nothing on another
// connection.
type subscriptionKey struct {
	session profiles.Session
	id      string
}

func (t *table) init() {
	t.subs = make(map[subscriptionKey]*subscription)
	t.count = make(map[profiles.Session]int)
	t.named = make(map[string]*subscription)
}

// add enters a subscription, of which a connection may have limit. One of the
// same name, wherever it is, ends. The caller owes the Bus one work.Done.
func (t *table) add(s *subscription, limit int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return errEnding
	case t.subs[s.key] != nil:
		return profiles.Errorf(profiles.DuplicateMsgID, "events: the msg_id is that of a subscription")
	case t.count[s.key.session] >= limit:
		return profiles.Busy(DetailBound, "events: too many subscriptions on this connection")
	}
	s.bus.work.Add(1)
	t.subs[s.key] = s
	t.count[s.key.session]++
	if s.name != "" {
		if older := t.named[s.name]; older != nil {
			older.cancel(errReplaced)
		}
		t.named[s.name] = s
	}
	return nil
}

func (t *table) get(key subscriptionKey) *subscription {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.subs[key]
}

// remove makes the place of a subscription free. It may be called more than
// once.
func (t *table) remove(s *subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.subs[s.key] != s {
		return
	}
	delete(t.subs, s.key)
	if t.count[s.key.session]--; t.count[s.key.session] == 0 {
		delete(t.count, s.key.session)
	}
	if t.named[s.name] == s {
		delete(t.named, s.name)
	}
}

// close ends every subscription and has every later add refused.
func (t *table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, s := range t.subs {
		s.cancel(errClosed)
	}
}
