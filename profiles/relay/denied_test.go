package relay_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/profiles/relay"
)

// A delivery in custody is made, unless its publisher is denied when it is its turn. The
// publisher is told.
func TestTL19DeliveriesOfADeniedPublisherAreDead(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		var deny atomic.Bool
		s := serve(t, kind, relay.Options{Denied: func(identity string) bool { return identity == publisher && deny.Load() }})
		heard := newNotices(true)
		p := s.dialWith(publisher, relay.Options{Notice: heard.notice})
		p.publish("orders", "first")
		c := s.dial(consumer).consume("orders", 0)
		first := receive(t, c, "first")
		deny.Store(true)
		p.publish("orders", "second") // taken: only the access rules refuse a publication
		synctest.Wait()
		nothing(t, c)
		if n := heard.wait(t); string(n.DeliveryID) != "second" || n.Reason != relay.Rejected {
			t.Errorf("told of %+v", n)
		}
		if list := p.dead(relay.DeadParams{}); len(list) != 1 || string(list[0].DeliveryID) != "second" || list[0].Attempts != 0 {
			t.Errorf("listed: %+v", list)
		}
		ack(t, first)
		synctest.Wait()
		p.wantStatus("first", relay.Acked, 1)
		deny.Store(false)
		p.publish("orders", "third")
		ack(t, receive(t, c, "third"))
	})
}
