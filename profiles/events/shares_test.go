package events

import (
	"fmt"
	"testing"

	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
)

// The subscriptions of a connection have one bound for the callers of its peer.
func TestRS32SubscriptionsOfOneCallerLeavePlacesForAnother(t *testing.T) {
	fairtest.Places(t, "events: subscriptions of callers", "places of 16", func(t *testing.T) (func(string) bool, func(string)) {
		b, err := New(Options{Subscriptions: 16})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		open, n := map[string][]*subscription{}, 0
		take := func(who string) bool {
			n++
			s := &subscription{bus: b, key: subscriptionKey{id: fmt.Sprint(n)}}
			s.reader.rights = rights{identity: profiles.OnBehalf("spiffe://partner.invalid/swpd", who)}
			if b.subs.add(s) != nil {
				return false
			}
			open[who] = append(open[who], s)
			return true
		}
		return take, func(who string) {
			s := open[who][0]
			open[who] = open[who][1:]
			b.subs.remove(s)
			s.cancel(nil)
			b.work.Done()
		}
	})
}
