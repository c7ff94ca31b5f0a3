package relay_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/store/sqlstore"
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

// Deliveries that nobody consumes are dead too when their publisher is denied, with those that
// wait for a later attempt, and those of other publishers are not.
func TestTL19DeliveriesThatNobodyConsumesAreDeadWhenTheirPublisherIsDenied(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		const most = 300 // more than are read and made dead at once
		var deny atomic.Bool
		denied := func(identity string) bool { return profiles.Link(identity) == publisher && deny.Load() }
		db := newStore(t, sqlstore.Options{})
		s := serve(t, kind, relay.Options{Store: db, Denied: denied})
		heard := newNotices(true)
		p, q := s.dialWith(publisher, relay.Options{Notice: heard.notice}), s.dial(other)
		q.publish("orders", "of another")
		for n := range most {
			p.publish("orders", fmt.Sprint(n))
		}
		p.publish("late", "late")
		c := s.dial(consumer)
		nack(t, receive(t, c.consume("late", 1), "late"), true)
		c.leave()
		s.set.Relay.Profile().Review() // nobody is denied yet
		synctest.Wait()
		if list := p.dead(relay.DeadParams{}); len(list) > 0 {
			t.Fatalf("dead before: %+v", list)
		}

		deny.Store(true)
		s.set.Relay.Profile().Review()
		for range most + 1 {
			if n := heard.wait(t); n.Reason != relay.Rejected {
				t.Errorf("told of %+v", n)
			}
		}
		list := p.dead(relay.DeadParams{IDs: [][]byte{[]byte("late")}})
		if len(list) != 1 || list[0].Attempts != 1 || list[0].Reason != relay.Rejected {
			t.Errorf("listed: %+v", list)
		}
		if dead := s.set.Relay.Stats().Dead[relay.Rejected]; dead != most+1 {
			t.Errorf("%d are dead, want %d", dead, most+1)
		}
		deny.Store(false)
		p.publish("orders", "allowed again")
		c = s.dial(consumer)
		orders := c.consume("orders", 0)
		if d := receiveAny(t, orders); string(d.ID) == "of another" {
			ack(t, d)
		} else {
			t.Errorf("delivered: %+v", d)
		}
		ack(t, receive(t, orders, "allowed again"))
		synctest.Wait()
		s.stop()

		// Denied while the relay does not run.
		s = serve(t, kind, relay.Options{Store: db, Denied: denied})
		p = s.dialWith(publisher, relay.Options{Notice: heard.notice})
		p.publish("orders", "before the start")
		s.stop()
		deny.Store(true)
		s = serve(t, kind, relay.Options{Store: db, Denied: denied})
		s.dialWith(publisher, relay.Options{Notice: heard.notice}).dead(relay.DeadParams{})
		if n := heard.wait(t); string(n.DeliveryID) != "before the start" || n.Reason != relay.Rejected {
			t.Errorf("told of %+v", n)
		}
	})
}
