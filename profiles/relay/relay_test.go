package relay_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/store/sqlstore"
)

func TestADeliveryIsMadeAndAcknowledged(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		p := s.dial(publisher)
		p.publish("orders", "before")
		p.wantStatus("before", relay.Queued, 1)
		c := s.dial(consumer).consume("orders", 0)
		ack(t, receive(t, c, "before"))
		p.publish("orders", "after")
		d := receive(t, c, "after")
		p.wantStatus("after", relay.Queued, 1)
		ack(t, d)
		synctest.Wait()
		p.wantStatus("before", relay.Acked, 1)
		p.wantStatus("after", relay.Acked, 1)
		time.Sleep(time.Hour)
		nothing(t, c)
	})
}

func TestRelay0001AConsumerThatDropsGetsItAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		p := s.dial(publisher)
		p.publish("orders", "one")
		p.publish("orders", "two")
		gone := s.dial(consumer)
		c := gone.consume("orders", 0)
		receive(t, c, "one")
		receive(t, c, "two")
		gone.leave()
		synctest.Wait()
		p.wantStatus("one", relay.Retry, 2)

		p.wantStatus("two", relay.Queued, 1) // it was the turn of the first

		again := s.dial(consumer)
		c = again.consume("orders", 0)
		d := receive(t, c, "two")
		nothing(t, c) // the first backoff
		time.Sleep(time.Second)
		ack(t, receive(t, c, "one"))

		// Nor is what was detached from forgotten.
		c.Close()
		ack(t, d)
		synctest.Wait()
		p.wantStatus("two", relay.Acked, 1)
		c = again.consume("orders", 0)
		time.Sleep(time.Hour)
		nothing(t, c)
	})
}

func TestRelay0001DeliveriesOutliveTheRelay(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		dir := t.TempDir()
		db := newStore(t, sqlstore.Options{Dir: dir})
		s := serve(t, kind, relay.Options{Store: db})
		p := s.dial(publisher)
		for i := range 4 {
			p.publish("orders", fmt.Sprint(i))
		}
		c := s.dial(consumer).consume("orders", 2)
		ack(t, receive(t, c, "0"))
		receive(t, c, "1") // unanswered
		receive(t, c, "2") // unanswered
		synctest.Wait()
		s.stop()
		_ = db.Close()

		db = newStore(t, sqlstore.Options{Dir: dir})
		s = serve(t, kind, relay.Options{Store: db})
		p = s.dial(publisher)
		p.wantStatus("0", relay.Acked, 1)
		p.wantStatus("3", relay.Queued, 1)
		c = s.dial(consumer).consume("orders", 0)
		seen := map[string]bool{}
		for range 3 {
			d := receiveAny(t, c)
			seen[string(d.ID)] = true
			ack(t, d)
		}
		if !seen["1"] || !seen["2"] || !seen["3"] {
			t.Errorf("delivered after the restart: %v", seen)
		}
		time.Sleep(time.Hour)
		nothing(t, c)
		for i := range 4 {
			r, err := p.send(relay.Publication{ID: []byte(fmt.Sprint(i)), Topic: "orders", Payload: []byte("payload of " + fmt.Sprint(i))})
			if err != nil || !r.Duplicate {
				t.Errorf("%d published again: %+v, %v", i, r, err)
			}
		}
	})
}

func TestRelay0002ADeliveryIDIsOneDelivery(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		p := s.dial(publisher)
		c := s.dial(consumer).consume("orders", 0)
		p.publish("orders", "id")
		began := time.Now()
		again := relay.Publication{ID: []byte("id"), Topic: "orders", Payload: []byte("payload of id")}
		wantDuplicate := func(attempts uint32) {
			t.Helper()
			if r, err := p.send(again); err != nil || r != (relay.Receipt{Duplicate: true, Attempts: attempts}) {
				t.Errorf("published again: %+v, %v, want a duplicate in attempt %d", r, err, attempts)
			}
		}
		wantDuplicate(1)
		d := receive(t, c, "id")
		wantDuplicate(1)
		nack(t, d, true)
		synctest.Wait()
		wantDuplicate(2)
		time.Sleep(time.Second)
		ack(t, receive(t, c, "id"))
		synctest.Wait()
		wantDuplicate(2)

		// Time to live and hops make no other delivery of it, topic and payload do.
		relived := again
		relived.TTL, relived.Hops = time.Hour, 3
		if r, err := p.send(relived); err != nil || !r.Duplicate {
			t.Errorf("published again with another ttl_ms: %+v, %v", r, err)
		}
		for what, pub := range map[string]relay.Publication{
			"payload": {ID: []byte("id"), Topic: "orders", Payload: []byte("payload of another")},
			"topic":   {ID: []byte("id"), Topic: "order", Payload: []byte("payload of id")},
			"border":  {ID: []byte("id"), Topic: "orderspay", Payload: []byte("load of id")},
		} {
			_, err := p.send(pub)
			wantPeerError(t, err, relay.CodeConflict)
			if err == nil {
				t.Errorf("another %s was accepted", what)
			}
		}
		nothing(t, c)

		// The same id of another publisher is another delivery.
		s.dial(other).publish("orders", "id")
		if d := receiveAny(t, c); d.Publisher != other || string(d.ID) != "id" {
			t.Errorf("delivery %q of %q", d.ID, d.Publisher)
		} else {
			ack(t, d)
		}

		time.Sleep(24*time.Hour - time.Since(began) - time.Millisecond)
		wantDuplicate(2)
		time.Sleep(time.Millisecond)
		p.publish("orders", "id")
		ack(t, receive(t, c, "id"))
	})
}

func TestRelay0003AttemptsAreMadeAtTheBackoffInstants(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		const attempts = 9
		s := serve(t, kind, relay.Options{MaxAttempts: attempts})
		p := s.dial(publisher)
		r := s.rawConsumer(consumer, "orders", 0)
		began := time.Now()
		p.publish("orders", "id")
		// Nobody answers: each attempt takes the ack timeout and is followed by a
		// pause, which doubles up to a minute.
		for n := uint32(1); n <= attempts; n++ {
			time.Sleep(30*time.Second - time.Millisecond)
			p.wantStatus("id", map[bool]relay.State{true: relay.Queued, false: relay.Retry}[n == 1], n)
			time.Sleep(time.Millisecond + min(time.Second<<(n-1), time.Minute))
			synctest.Wait()
		}
		p.wantStatus("id", relay.DeadState, attempts)
		time.Sleep(time.Hour)
		seen := r.seen()
		if len(seen) != attempts {
			t.Fatalf("%d attempts, want %d", len(seen), attempts)
		}
		want, ids := began, map[string]bool{}
		for i, a := range seen {
			if !a.at.Equal(want) {
				t.Errorf("attempt %d is made after %v, want %v", i+1, a.at.Sub(began), want.Sub(began))
			}
			want = want.Add(30*time.Second + min(time.Second<<i, time.Minute))
			if ids[string(a.env.MsgID)] {
				t.Errorf("attempt %d has the msg_id of another", i+1)
			}
			ids[string(a.env.MsgID)] = true
			from, _ := a.env.Extensions.Lookup(relay.ExtPublisher)
			hops, _ := a.env.Extensions.LookupUvarint(profiles.ExtHops)
			if string(a.publish.DeliveryID) != "id" || string(a.publish.Topic) != "orders" || string(from) != publisher || hops != 1 {
				t.Errorf("attempt %d: %+v of %q, %d hops", i+1, a.publish, from, hops)
			}
		}
	})
}

func TestOtherLimitsHoldForAttemptsThatComeLater(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		o := relay.Options{Store: newStore(t, sqlstore.Options{}), MaxAttempts: 9}
		s := serve(t, kind, o)
		p := s.dial(publisher)
		s.rawConsumer(consumer, "orders", 0)
		p.publish("orders", "id")
		synctest.Wait()
		o.MaxAttempts = 2
		if err := s.set.Relay.SetLimits(o); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		p.wantStatus("id", relay.DeadState, 2)
		o.MaxAttempts = -1
		if s.set.Relay.SetLimits(o) == nil {
			t.Error("attempts below 0 are taken")
		}
	})
}

func TestPausesAreJittered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const attempts = 6
		s := serve(t, "pipe", relay.Options{MaxAttempts: attempts, Jitter: 0.5})
		r := s.rawConsumer(consumer, "orders", 0)
		s.dial(publisher).publish("orders", "id")
		time.Sleep(time.Hour)
		seen := r.seen()
		if len(seen) != attempts {
			t.Fatalf("%d attempts, want %d", len(seen), attempts)
		}
		plain := 0
		for i := 1; i < attempts; i++ {
			least := 30*time.Second + time.Second<<(i-1)
			gap := seen[i].at.Sub(seen[i-1].at)
			if gap < least || gap > least+time.Second<<(i-1)/2 {
				t.Errorf("gap %d is %v, want %v and up to half the pause more", i, gap, least)
			}
			if gap == least {
				plain++
			}
		}
		if plain == attempts-1 {
			t.Error("no gap has a jitter")
		}
	})
}

// receiveAny returns the next delivery, whichever it is.
func receiveAny(t testing.TB, c *relay.Consumer) *relay.Delivery {
	t.Helper()
	ctx, cancel := patient()
	defer cancel()
	d, err := c.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
