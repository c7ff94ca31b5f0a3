package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

func TestConsumersTakeTurnsWithinTheirMaxInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		p := s.dial(publisher)
		// One that answers nothing has what it asked for and no more; the others
		// share the rest, and nobody waits for it.
		stuck := s.rawConsumer(consumer, "orders", 3)
		a, b := s.dial(consumer).consume("orders", 2), s.dial(other).consume("orders", 5)
		const n = 60
		for i := range n {
			p.publish("orders", fmt.Sprint(i))
		}
		synctest.Wait()
		if seen := stuck.seen(); len(seen) != 3 {
			t.Fatalf("%d deliveries to who asked for 3", len(seen))
		}
		took := map[*relay.Consumer]int{}
		for range n - 3 {
			c, d := either(t, a, b)
			took[c]++
			ack(t, d)
			a, b = b, a
		}
		if took[a] < n/3 || took[b] < n/3 {
			t.Errorf("one took %d, the other %d of %d", took[a], took[b], n)
		}
		nothing(t, a)
		nothing(t, b)
		if seen := stuck.seen(); len(seen) != 3 {
			t.Errorf("%d deliveries to who has answered none", len(seen))
		}
		// What it does not answer goes to the others.
		time.Sleep(31 * time.Second)
		for range 3 {
			_, d := either(t, a, b)
			ack(t, d)
		}
	})
}

// either returns the next delivery of two consumers, in virtual time, and whose it
// is.
func either(t *testing.T, a, b *relay.Consumer) (*relay.Consumer, *relay.Delivery) {
	t.Helper()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		synctest.Wait()
		for _, c := range []*relay.Consumer{a, b} {
			if d, err := c.Recv(over); err == nil {
				return c, d
			}
		}
	}
	t.Fatal("nobody gets a delivery")
	return nil, nil
}

func TestMaxInFlightIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{MaxInFlight: 4, IdentityInFlight: 10, InFlight: 14})
		p := s.dial(publisher)
		for i := range 20 {
			p.publish("orders", fmt.Sprint(i))
		}
		greedy := s.rawConsumer(consumer, "orders", 1000)
		synctest.Wait()
		if n := len(greedy.seen()); n != 4 {
			t.Errorf("%d deliveries, want the bound of 4", n)
		}
		c := s.dial(consumer)
		second := c.consume("a", 4)
		third := c.consume("b", 2)
		_, err := c.relay.Consume(t.Context(), c, "c", 1)
		wantRPCError(t, err, rpc.CodeUnavailable)
		s.dial(other).consume("d", 4)
		_, err = s.dial("spiffe://test.invalid/third").relay.Consume(t.Context(), s.dial("spiffe://test.invalid/third"), "e", 1)
		wantRPCError(t, err, rpc.CodeUnavailable)
		// What is let go is there again.
		second.Close()
		third.Close()
		synctest.Wait()
		c.consume("c", 4)
		for _, params := range []string{`{"topic":"t","max_in_flight":-1}`, `{"topic":""}`, `{}`, ``, `{"topic":7}`, `[`, `{"topic":"` + string(bytes.Repeat([]byte("x"), 257)) + `"}`} {
			_, err := rpc.Call(t.Context(), c, relay.MethodAttach, []byte(params))
			wantRPCError(t, err, rpc.CodeInvalidRequest)
		}
	})
}

func TestRS05ConsumerThatDoesNotReadHoldsUpNobody(t *testing.T) {
	effort.Unwatched(t)
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		p := s.dial(publisher)
		// It attaches, and then nobody reads its connection any more.
		deaf := s.rawConsumer(consumer, "orders", 128)
		deaf.stall = make(chan struct{})
		defer deaf.leave()
		defer close(deaf.stall)
		c := s.dial(other).consume("orders", 16)
		const n, size = 100, 200 << 10
		payload := bytes.Repeat([]byte("x"), size)
		var published sync.WaitGroup
		published.Go(func() {
			for i := range n {
				if _, err := p.send(relay.Publication{ID: fmt.Append(nil, i), Topic: "orders", Payload: payload}); err != nil {
					t.Errorf("publish: %v", err)
				}
			}
		})
		seen := map[string]bool{}
		for len(seen) < n {
			d := receiveAny(t, c)
			seen[string(d.ID)] = true
			ack(t, d)
		}
		published.Wait()
	})
}

func TestADeliveryIsProcessedOnceWhileItsConsumerIsAtIt(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		p := s.dial(publisher)
		c := s.dial(consumer).consume("orders", 0)
		p.publish("orders", "id")
		d := receive(t, c, "id")
		time.Sleep(100 * time.Second) // three attempts and a bit
		nothing(t, c)
		if string(d.Payload) != "payload of id" {
			t.Errorf("payload %q after three attempts", d.Payload)
		}
		ack(t, d)
		if err := d.Ack(); !errors.Is(err, profiles.ErrFinished) {
			t.Errorf("second Ack: %v", err)
		}
		synctest.Wait()
		p.wantStatus("id", relay.Acked, 4)
		time.Sleep(time.Hour)
		nothing(t, c)
	})
}

func TestAnAnswerMayHaveAMsgIDOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		p, q := s.dial(publisher), s.dial(other)
		r := s.rawConsumer(consumer, "orders", 0)
		p.publish("orders", "same")
		q.publish("orders", "same")
		p.publish("orders", "alone")
		synctest.Wait()
		send := func(msgType uint64, payload []byte, from string) {
			t.Helper()
			var ext e1.Extensions
			if from != "" {
				ext = e1.AppendExtension(nil, relay.ExtPublisher, []byte(from))
			}
			if err := r.lane.Send(t.Context(), e1.Envelope{ProfileID: relay.ProfileID, MsgType: msgType, Payload: payload, Extensions: ext}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		ackOf := func(id string) []byte { return (&relay.Ack{DeliveryID: []byte(id)}).Append(nil) }
		send(relay.TypeAck, ackOf("never heard of"), "")
		send(relay.TypeAck, ackOf("same"), "") // whose is not clear
		p.wantStatus("same", relay.Queued, 1)
		q.wantStatus("same", relay.Queued, 1)
		send(relay.TypeAck, ackOf("same"), other)
		p.wantStatus("same", relay.Queued, 1)
		q.wantStatus("same", relay.Acked, 1)
		send(relay.TypeAck, ackOf("same"), "") // now it is
		p.wantStatus("same", relay.Acked, 1)
		s.mu.Lock()
		if s.codes[profiles.OK] == 0 || s.codes[profiles.NotFound] != 0 {
			t.Errorf("verdicts %v, want an ACK of nothing to be ignored", s.codes)
		}
		s.mu.Unlock()

		nackOf := func(id string, retryable bool) []byte {
			return (&relay.Nack{DeliveryID: []byte(id), Retryable: retryable, Reason: []byte("busy")}).Append(nil)
		}
		wantState := func(answer e1.Envelope, state relay.State, attempts uint32) {
			t.Helper()
			var m relay.Status
			if err := m.Decode(answer.Payload); err != nil || string(m.DeliveryID) != "alone" || relay.State(m.State) != state || m.Attempts != attempts {
				t.Errorf("answer of type %d, %+v, %v, want %s in attempt %d", answer.MsgType, m, err, state, attempts)
			}
		}
		wantState(r.raw(relay.TypeNack, nackOf("alone", true), nil), relay.Retry, 2)
		time.Sleep(time.Second)
		synctest.Wait()
		wantState(r.raw(relay.TypeNack, nackOf("alone", false), nil), relay.DeadState, 2)
		if answer := r.raw(relay.TypeNack, nackOf("alone", false), nil); answer.MsgType != relay.TypeErr {
			t.Errorf("NACK of what this consumer does not have: answered with type %d", answer.MsgType)
		}
		// Nor can somebody answer for it who does not have it.
		q.publish("orders", "another's")
		synctest.Wait()
		if answer := p.raw(relay.TypeNack, nackOf("another's", false), nil); answer.MsgType != relay.TypeErr {
			t.Errorf("NACK of another consumer's delivery: answered with type %d", answer.MsgType)
		}
		q.wantStatus("another's", relay.Queued, 1)
	})
}

func TestWhatAConsumerMayAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		status := func(state relay.State) e1.Envelope {
			m := relay.Status{DeliveryID: []byte("id"), State: []byte(state), Attempts: 1}
			return e1.Envelope{MsgType: relay.TypeStatus, Payload: m.Append(nil)}
		}
		for name, test := range map[string]struct {
			answer e1.Envelope
			state  relay.State
		}{
			"ack":                   {e1.Envelope{MsgType: relay.TypeAck, Payload: (&relay.Ack{DeliveryID: []byte("id")}).Append(nil)}, relay.Acked},
			"status duplicate":      {status(relay.Duplicate), relay.Acked}, // a relay that has it already
			"status acked":          {status(relay.Acked), relay.Acked},
			"status queued":         {status(relay.Queued), relay.Retry},
			"ack of another":        {e1.Envelope{MsgType: relay.TypeAck, Payload: (&relay.Ack{DeliveryID: []byte("other")}).Append(nil)}, relay.Retry},
			"error":                 {e1.Envelope{MsgType: relay.TypeErr, Payload: (&relay.Err{Code: []byte("NOT_FOUND")}).Append(nil)}, relay.Retry},
			"nack":                  {e1.Envelope{MsgType: relay.TypeNack, Payload: (&relay.Nack{DeliveryID: []byte("id"), Retryable: true}).Append(nil)}, relay.Retry},
			"nack, not again":       {e1.Envelope{MsgType: relay.TypeNack, Payload: (&relay.Nack{DeliveryID: []byte("id")}).Append(nil)}, relay.DeadState},
			"what cannot be read":   {e1.Envelope{MsgType: relay.TypeAck, Payload: []byte{0xff}}, relay.Retry},
			"status without a word": {status(""), relay.Retry},
		} {
			s := serve(t, kind, relay.Options{})
			p := s.dial(publisher)
			r := s.rawConsumer(consumer, "orders", 0)
			p.publish("orders", "id")
			synctest.Wait()
			if err := r.seen()[0].w.Finish(test.answer); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			attempts := map[relay.State]uint32{relay.Acked: 1, relay.DeadState: 1, relay.Retry: 2}[test.state]
			state, n, err := relay.Ask(t.Context(), p, []byte("id"))
			if err != nil || state != test.state || n != attempts {
				t.Errorf("%s: %s, attempt %d, %v, want %s, attempt %d", name, state, n, err, test.state, attempts)
			}
			s.stop()
		}
	})
}

func TestDetachingGivesBackWhatWasNotSent(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		p := s.dial(publisher)
		one := s.dial(consumer)
		c := one.consume("orders", 8)
		for i := range 8 {
			p.publish("orders", fmt.Sprint(i))
		}
		first := receive(t, c, "0")
		c.Close()
		synctest.Wait()
		ack(t, first)
		// Those that had come and were not received were given back by the consumer.
		again := s.dial(other).consume("orders", 8)
		time.Sleep(2 * time.Second)
		for range 7 {
			ack(t, receiveAny(t, again))
		}
		nothing(t, again)
		p.wantStatus("0", relay.Acked, 1)
		if _, err := c.Recv(t.Context()); !errors.Is(err, profiles.ErrFinished) {
			t.Errorf("Recv after Close: %v", err)
		}
		// The topic can be consumed again on the same connection.
		c = one.consume("orders", 1)
		if _, err := one.relay.Consume(t.Context(), one, "orders", 1); err == nil && kind == "pipe" {
			t.Error("one topic is consumed twice on one stream")
		}
		p.publish("orders", "more")
		_, d := either(t, c, again)
		ack(t, d)
	})
}

func TestDrainLetsConsumersGo(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		p := s.dial(publisher)
		one := s.dial(consumer)
		c := one.consume("orders", 0)
		p.publish("orders", "id")
		d := receive(t, c, "id")
		s.set.Relay.Drain()
		_, err := c.Recv(t.Context())
		wantRPCError(t, err, rpc.CodeUnavailable)
		p.publish("orders", "later") // custody is still taken
		ack(t, d)
		synctest.Wait()
		p.wantStatus("id", relay.Acked, 1)
		p.wantStatus("later", relay.Queued, 1)
		_, err = one.relay.Consume(t.Context(), one, "orders", 0)
		wantRPCError(t, err, rpc.CodeUnavailable)
	})
}

func TestADrainedSessionLetsItsConsumersGo(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		one := s.dial(consumer)
		c := one.consume("orders", 0)
		for session := range s.ep.Sessions() {
			session.Drain()
		}
		p, others := s.dial(publisher), s.dial(other).consume("orders", 0)
		_, err := c.Recv(t.Context())
		wantRPCError(t, err, rpc.CodeUnavailable)
		<-one.Context().Done() // nothing holds it
		p.publish("orders", "id")
		ack(t, receive(t, others, "id"))
	})
}

func TestAConnectionIsKeptWhileAConsumerWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		c := s.dial(consumer).consume("orders", 0)
		time.Sleep(24 * time.Hour)
		s.dial(publisher).publish("orders", "id")
		ack(t, receive(t, c, "id"))
	})
}

func TestLargeDeliveriesGoThrough(t *testing.T) {
	effort.Unwatched(t)
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		p := s.dial(publisher)
		c := s.dial(consumer).consume("orders", 0)
		const most = 8<<20 - 8<<10 - 300
		for _, size := range []int{0, 1, 16<<10 - 600, 16 << 10, 1 << 20, most} {
			pub := relay.Publication{ID: fmt.Append(nil, size), Topic: "orders", Payload: bytes.Repeat([]byte("x"), size)}
			if _, err := p.send(pub); err != nil {
				t.Fatalf("%d octets: %v", size, err)
			}
			d := receiveAny(t, c)
			if !bytes.Equal(d.Payload, pub.Payload) {
				t.Errorf("%d octets came, want %d", len(d.Payload), size)
			}
			nack(t, d, true)
			time.Sleep(time.Second)
			if d = receiveAny(t, c); !bytes.Equal(d.Payload, pub.Payload) {
				t.Errorf("%d octets came the second time, want %d", len(d.Payload), size)
			}
			ack(t, d)
			synctest.Wait()
			p.wantStatus(fmt.Sprint(size), relay.Acked, 2)
		}
	})
}

func TestConsumingNeedsARelay(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		plain := s.dial(consumer)
		// The consumer's own end relays nothing.
		for session := range s.ep.Sessions() {
			_, err := s.set.Relay.Consume(t.Context(), session, "orders", 0)
			wantRPCError(t, err, rpc.CodeInvalidRequest)
		}
		alone, err := relay.New(relay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer alone.Close()
		if _, err := alone.Consume(t.Context(), plain, "orders", 0); err == nil {
			t.Error("consumed without Options.Open")
		}
	})
}

func TestRS27ConsumersOfOneIdentityLeavePlacesForAnother(t *testing.T) {
	fairtest.Places(t, "relay: places of consumers", "places of 16", func(t *testing.T) (func(string) bool, func(string)) {
		s := serve(t, "pipe", relay.Options{IdentityInFlight: 16, InFlight: 16})
		peers, attached, n := map[string]*peer{}, map[string][]*relay.Consumer{}, 0
		take := func(who string) bool {
			if peers[who] == nil {
				peers[who] = s.dial(who)
			}
			n++
			c, err := peers[who].relay.Consume(t.Context(), peers[who], fmt.Sprint("topic ", n), 1)
			if err != nil {
				wantRPCError(t, err, rpc.CodeUnavailable)
				return false
			}
			attached[who] = append(attached[who], c)
			return true
		}
		return take, func(who string) {
			last := len(attached[who]) - 1
			attached[who][last].Close()
			for s.set.Relay.Stats().Consumers != len(attached[fairtest.Alice])+len(attached[fairtest.Mallory])-1 {
				time.Sleep(time.Millisecond)
			}
			attached[who] = attached[who][:last]
		}
	})
}
