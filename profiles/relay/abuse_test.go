package relay_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// rules is an Access for tests; what it returns may change.
type rules struct {
	allowed atomic.Pointer[func(identity, operation, name string) bool]
}

func (r *rules) set(f func(identity, operation, name string) bool) { r.allowed.Store(&f) }

func (r *rules) Allowed(identity, profile, operation, name string) bool {
	return profile != "relay" || (*r.allowed.Load())(identity, operation, name)
}

func TestPR05TopicsAreLiteralText(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		p, c := s.dial(publisher), s.dial(consumer)
		odd := []string{"*", ">", "a.*", "a.b", "a", " ", "a b", "a\r\nb", "\x00", "$JS.API.x", "$SYS.x", ".", "..", "a..b", strings.Repeat("x", relay.MaxTopic)}
		consumers := map[string]*relay.Consumer{}
		for _, topic := range odd {
			consumers[topic] = c.consume(topic, 1)
		}
		for i, topic := range odd {
			p.publish(topic, fmt.Sprint(i))
			synctest.Wait()
			ack(t, receive(t, consumers[topic], fmt.Sprint(i)))
			for _, other := range odd {
				nothing(t, consumers[other])
			}
		}
	})
}

func TestPR04AccessIsAskedForEachTopicAndAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		access := new(rules)
		access.set(func(identity, operation, name string) bool {
			return name == "orders" && (identity == publisher && operation == "publish" || identity == consumer && operation == "consume")
		})
		s := serve(t, kind, relay.Options{Access: access})
		p, c := s.dial(publisher), s.dial(consumer)
		p.publish("orders", "id")
		security := profiles.SecurityPolicy.Alias()
		_, err := p.send(relay.Publication{ID: []byte("other"), Topic: "order"})
		wantPeerError(t, err, security)
		_, err = c.send(relay.Publication{ID: []byte("other"), Topic: "orders"})
		wantPeerError(t, err, security)
		for _, topic := range []string{"*", "order", "orders/x"} {
			_, err = c.relay.Consume(t.Context(), c, topic, 0)
			wantRPCError(t, err, rpc.CodeUnauthorized)
		}
		_, err = p.relay.Consume(t.Context(), p, "orders", 0)
		wantRPCError(t, err, rpc.CodeUnauthorized)

		in := c.consume("orders", 0)
		ack(t, receive(t, in, "id"))
		// A right that is taken away is gone within a second.
		access.set(func(identity, operation, _ string) bool { return identity == publisher && operation == "publish" })
		time.Sleep(time.Second)
		p.publish("orders", "secret")
		_, err = in.Recv(t.Context())
		wantRPCError(t, err, rpc.CodeUnauthorized)
		synctest.Wait()
		p.wantStatus("secret", relay.Queued, 1)
	})
}

// What is published to a topic of another profile would pass for a message that the profile
// has let through.
func TestPR20TopicsOfAnotherProfileAreNotPublishedTo(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{
			Behind: behind, Partner: func(identity string) (string, bool) { return "b", identity == other }, Self: func() string { return consumer },
		})
		p, partner, self := s.dial(publisher), s.dial(other), s.dial(consumer)
		for _, row := range []struct {
			who     *peer
			topic   string
			refused bool
		}{
			{p, "slip/archivist", true},
			{p, "slip/", true},
			{p, "sdl/agent", true},
			{p, "b/slip/archivist", true},
			{p, "b/sdl/agent", true},
			{partner, "slip/archivist", true},
			{partner, "sdl/agent", false}, // its profile had stored it while the link was lost
			{partner, "b/sdl/agent", true},
			{self, "slip/archivist", true},
			{self, "sdl/agent", false}, // the same here
			{p, "slip", false},
			{p, "orders/slip/archivist", false},
			{p, "b/orders", false},
		} {
			_, err := row.who.send(relay.Publication{ID: []byte(row.topic), Topic: row.topic})
			if row.refused {
				wantPeerError(t, err, profiles.SecurityPolicy.Alias())
			} else if err != nil {
				t.Errorf("%s: %v", row.topic, err)
			}
		}
		payload := (&relay.Publish{DeliveryID: []byte("far"), Topic: []byte("slip/archivist")}).Append(nil)
		if answer := p.raw(relay.TypePublish, payload, e1.AppendExtension(nil, profiles.ExtTarget, []byte("b"))); answer.MsgType != relay.TypeErr {
			t.Errorf("by its target: %+v", answer)
		}
		if err := s.set.Relay.Keep(t.Context(), publisher, &relay.Publication{ID: []byte("own"), Topic: "slip/archivist", Payload: []byte("payload of own")}); err != nil {
			t.Error(err)
		}
		ack(t, receive(t, s.dial(consumer).consume("slip/archivist", 0), "own"))
	})
}

func TestTL11AnotherPublisherIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		p := s.dial(publisher)
		payload := (&relay.Publish{DeliveryID: []byte("id"), Topic: []byte("orders")}).Append(nil)
		answer := p.raw(relay.TypePublish, payload, e1.AppendExtension(nil, relay.ExtPublisher, []byte(other)))
		var m relay.Err
		if err := m.Decode(answer.Payload); err != nil || string(m.Code) != profiles.SecurityPolicy.Alias() {
			t.Errorf("answer of type %d, code %s, %v", answer.MsgType, m.Code, err)
		}
		s.wantDetail(t, relay.DetailPublisher, 1)
		_, _, err := relay.Ask(t.Context(), p, []byte("id"))
		wantPeerError(t, err, relay.CodeNotFound)
	})
}

func TestPR14OneOfManyAtOnceIsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		p := s.dial(publisher)
		c := s.dial(consumer).consume("orders", 0)
		var fresh atomic.Int32
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				r, err := p.send(relay.Publication{ID: []byte("id"), Topic: "orders", Payload: []byte("payload of id")})
				if err != nil {
					t.Errorf("publish: %v", err)
				} else if !r.Duplicate {
					fresh.Add(1)
				}
			})
		}
		all.Wait()
		if fresh.Load() != 1 {
			t.Errorf("custody was taken %d times", fresh.Load())
		}
		ack(t, receive(t, c, "id"))
		time.Sleep(time.Hour)
		nothing(t, c)
	})
}

// TestPR15RelaysThatFeedEachOtherStop has two relays pass on what the other one
// publishes.
func TestPR15RelaysThatFeedEachOtherStop(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		a, b := serve(t, kind, relay.Options{}), serve(t, kind, relay.Options{})
		var passed atomic.Int32
		var forwarders sync.WaitGroup
		forward := func(from, to *server) {
			in, out := from.dial(other).consume("orders", 0), to.dial(other)
			forwarders.Go(func() {
				for {
					d, err := in.Recv(t.Context())
					if err != nil {
						return
					}
					pub := relay.Forward(d)
					if _, err := out.send(pub); err != nil {
						_ = d.Nack(false, "refused")
						continue
					}
					passed.Add(1)
					_ = d.Ack()
				}
			})
			t.Cleanup(in.Close)
		}
		forward(a, b)
		forward(b, a)
		a.dial(publisher).publish("orders", "id")
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := passed.Load(); n != profiles.MaxHops-1 {
			t.Errorf("passed on %d times, want %d", n, profiles.MaxHops-1)
		}
	})
}

func TestPR16AFullQueueRefusesAtOnceAndKeepsWhatItHas(t *testing.T) {
	for name, limits := range map[string]store.Limits{
		"deliveries": {Waiting: 10}, "ids": {Remembered: 10}, "octets of a publisher": {QuotaPerOwner: 4000},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, kind string) {
				s := serve(t, kind, relay.Options{Store: newStore(t, sqlstore.Options{Limits: limits})})
				p := s.dial(publisher)
				kept := 0
				for ; kept < 100; kept++ {
					id := fmt.Sprintf("%02d", kept)
					began := time.Now()
					_, err := p.send(relay.Publication{ID: []byte(id), Topic: "orders", Payload: []byte("payload of " + id)})
					if took := time.Since(began); took != 0 {
						t.Errorf("answered after %v", took)
					}
					if err != nil {
						wantPeerError(t, err, profiles.RateLimitExceeded.Alias())
						if said := err.Error(); !strings.Contains(said, "relay.waiting") || !strings.Contains(said, "its operator can raise") {
							t.Errorf("%q does not say what is full and who can change it", said)
						}
						_, _, err = relay.Ask(t.Context(), p, []byte(id))
						wantPeerError(t, err, relay.CodeNotFound)
						break
					}
				}
				if kept < 5 || kept == 100 {
					t.Fatalf("%d were accepted", kept)
				}
				// Everything that was accepted is delivered, the oldest first.
				c := s.dial(consumer).consume("orders", 1)
				for i := range kept {
					ack(t, receive(t, c, fmt.Sprintf("%02d", i)))
				}
				synctest.Wait()
				if name == "ids" {
					time.Sleep(24 * time.Hour)
				}
				p.publish("orders", "afterwards")
				ack(t, receive(t, c, "afterwards"))
			})
		})
	}
}

func TestDeliveriesOverRealTransports(t *testing.T) {
	for _, kind := range []string{"tls", "quic"} {
		t.Run(kind, func(t *testing.T) {
			s := serve(t, kind, relay.Options{Backoff: time.Millisecond})
			heard := newNotices(true)
			p := s.dialWith(publisher, relay.Options{Notice: heard.notice})
			c := s.dial(consumer).consume("orders", 4)
			for i := range 20 {
				p.publish("orders", fmt.Sprint(i))
			}
			for i := range 20 {
				ack(t, receive(t, c, fmt.Sprint(i)))
			}
			large := bytes.Repeat([]byte("x"), 1<<20)
			if _, err := p.send(relay.Publication{ID: []byte("large"), Topic: "orders", Payload: large}); err != nil {
				t.Fatal(err)
			}
			d := receiveAny(t, c)
			if !bytes.Equal(d.Payload, large) {
				t.Errorf("%d octets came", len(d.Payload))
			}
			nack(t, d, true)
			nack(t, receiveAny(t, c), false)
			if n := heard.wait(t); string(n.DeliveryID) != "large" || n.Reason != relay.Rejected {
				t.Errorf("notice %+v", n)
			}
		})
	}
}

// What the relay keeps for an agent is for those who may use its agent_id, whatever a rule says
// of topics.
func TestPR20TopicsOfAnotherProfileAreReadByTheirAgentsOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		may := new(atomic.Bool)
		may.Store(true)
		s := serve(t, kind, relay.Options{
			Behind: behind,
			MayUse: func(identity, agentID string) bool {
				return identity == consumer && agentID == "archivist" && may.Load()
			},
		})
		c, o := s.dial(consumer), s.dial(other)
		for _, topic := range []string{"slip/archivist", "sdl/archivist"} {
			_, err := o.relay.Consume(t.Context(), o, topic, 0)
			wantRPCError(t, err, rpc.CodeUnauthorized)
			_, err = c.relay.Consume(t.Context(), c, topic+"/x", 0)
			wantRPCError(t, err, rpc.CodeUnauthorized)
			_, err = c.relay.Consume(t.Context(), c, "b/"+topic+"x", 0)
			wantRPCError(t, err, rpc.CodeUnauthorized)
		}
		o.consume("orders/slip/archivist", 0)
		in := c.consume("slip/archivist", 0)
		if err := s.set.Relay.Keep(t.Context(), publisher, &relay.Publication{ID: []byte("1"), Topic: "slip/archivist", Payload: []byte("payload of 1")}); err != nil {
			t.Fatal(err)
		}
		ack(t, receive(t, in, "1"))
		// A right that is taken away is gone within a second.
		may.Store(false)
		time.Sleep(time.Second)
		if err := s.set.Relay.Keep(t.Context(), publisher, &relay.Publication{ID: []byte("2"), Topic: "slip/archivist"}); err != nil {
			t.Fatal(err)
		}
		_, err := in.Recv(t.Context())
		wantRPCError(t, err, rpc.CodeUnauthorized)
	})
}
