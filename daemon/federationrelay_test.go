package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport/endpoint"
)

// alone starts an organisation whose partner b is away, with more in the entry of b.
func alone(t *testing.T, yaml, more string) *organisation {
	t.Helper()
	return open(t, "a", yaml+"partners: {b: {identity: spiffe://b.example/swpd, "+more+"}}\n")
}

// publishing publishes a delivery of so many octets, and returns its error.
func publishing(t *testing.T, s profiles.Session, topic, id string, octets int) error {
	t.Helper()
	_, err := relay.Send(t.Context(), s, &relay.Publication{ID: []byte(id), Topic: topic, Payload: bytes.Repeat([]byte("x"), octets)})
	return err
}

func TestWhatWaitsForAPartnerHasABound(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a := alone(t, "relay: {max_payload: 4KiB, waiting: 1}\n", "queue: {messages: 3, size: 10KiB}") // an eighth is for other publishers
		_, s := relayPeer(t, a.running, a.addrs[transport])
		full := func(what, id string, octets int) {
			t.Helper()
			err := publishing(t, s, "b/t", id, octets)
			refusedBy(t, what, err, profiles.RateLimitExceeded.Alias(), a)
			if err != nil && !strings.Contains(err.Error(), "raise partners.b.queue") {
				t.Errorf("%s: %v does not say what to do", what, err)
			}
			_, _, err = relay.Ask(t.Context(), s, []byte(id))
			refusedBy(t, what+" is kept", err, relay.CodeNotFound, a)
		}
		keep := func(id string, octets int) {
			t.Helper()
			if err := publishing(t, s, "b/t", id, octets); err != nil {
				t.Fatal(err)
			}
		}
		keep("1", 4096)
		keep("2", 4096)
		full("more octets than may wait", "3", 2048)
		keep("3", 512)
		full("a fourth", "4", 0)
		if err := publishing(t, s, "t", "5", 0); err != nil {
			t.Errorf("a delivery that stays here: %v", err)
		}
		a.counts(`swpd_partner_queue_messages{partner="b"}`, "3")
		var status Status
		if _, body := a.get("/status"); json.Unmarshal([]byte(body), &status) != nil || status.Partners[0].Queue.Messages != 3 || status.Partners[0].Queue.Octets < 8704 {
			t.Errorf("status %+v", status.Partners)
		}
		a.counts(`swpd_partner_queue_bytes{partner="b"}`, fmt.Sprint(status.Partners[0].Queue.Octets))
		a.rewrite("messages: 3", "messages: 4")
		a.reloaded()
		keep("4", 0)
		full("a fifth", "6", 0)
		// It is counted again after a restart.
		if err := a.end(); err != nil {
			t.Fatal(err)
		}
		a.again()
		_, s = relayPeer(t, a.running, a.addrs[transport])
		full("a fifth after a restart", "6", 0)
	})
}

// consumes attaches to a topic.
func consumes(t *testing.T, o *organisation, on profiles.Session, by *relay.Service, topic string, maxInFlight int) *relay.Consumer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := by.Consume(ctx, on, topic, maxInFlight)
	if err != nil {
		t.Fatalf("%s: %v\n%s", o.name, err, o.log)
	}
	t.Cleanup(c.Close)
	return c
}

// next receives a delivery.
func next(t *testing.T, c *relay.Consumer) *relay.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d, err := c.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConsumersAttachAtAPartner(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := pair(t, transport, "relay: {backoff: 1ms}\n")
		here, s := relayPeer(t, a.running, a.addrs[transport])
		_, there := relayPeer(t, b.running, b.addrs[0])
		for topic, on := range map[string]profiles.Session{"b/t": s, "t": profiles.Toward(s, "b")} {
			c := consumes(t, a, on, here, topic, 1)
			for i, end := range []func(*relay.Delivery) error{
				(*relay.Delivery).Ack,
				func(d *relay.Delivery) error { return d.Nack(false, "useless") },
				func(d *relay.Delivery) error {
					if err := d.Nack(true, "busy"); err != nil {
						return err
					}
					return next(t, c).Ack()
				},
			} {
				id := fmt.Sprint(topic, i)
				if _, err := relay.Send(t.Context(), there, &relay.Publication{ID: []byte(id), Topic: "t", Payload: []byte(id), TTL: time.Hour}); err != nil {
					t.Fatal(err)
				}
				d := next(t, c)
				if string(d.Payload) != id || string(d.ID) != id || d.Topic != topic || d.Hops != 2 || !strings.HasPrefix(d.Publisher, "spiffe://b.example/") || d.TTL <= 0 || d.TTL > time.Hour {
					t.Errorf("delivery %+v", d)
				}
				b.counts("swpd_relay_in_flight", "1")
				if err := end(d); err != nil {
					t.Error(err)
				}
				becomes(t, there, id, []relay.State{relay.Acked, relay.DeadState, relay.Acked}[i])
			}
			b.counts("swpd_relay_consumers", "1")
			c.Close()
			b.counts("swpd_relay_consumers", "0")
		}
		a.counts("swpd_relay_taken_total", "0")
		_, err := here.Consume(t.Context(), profiles.Marked(s, func(env *e1.Envelope) {
			env.Extensions = e1.AppendExtensionUvarint(env.Extensions, profiles.ExtHops, profiles.MaxHops)
		}), "b/t", 1)
		if err == nil || !strings.Contains(err.Error(), "passed on 8 times already") {
			t.Errorf("attached over too many endpoints: %v", err)
		}
	})
}

func TestPR15ALostConsumerOfAPartnersTopicCountsForOneDelivery(t *testing.T) {
	t.Parallel()
	a, b := pair(t, 1, "relay: {backoff: 1ms, max_attempts: 1}\n")
	_, there := relayPeer(t, b.running, b.addrs[0])
	here, s := relayPeer(t, a.running, a.addrs[0])
	c := consumes(t, a, s, here, "b/t", 3)
	for _, id := range []string{"first", "second", "third"} {
		if err := publishing(t, there, "t", id, 10); err != nil {
			t.Fatal(err)
		}
		if d := next(t, c); string(d.ID) != id {
			t.Fatalf("%q came, want %q", d.ID, id)
		}
	}
	s.Close(profiles.OK)
	becomes(t, there, "first", relay.DeadState)
	here, s = relayPeer(t, a.running, a.addrs[0])
	c = consumes(t, a, s, here, "b/t", 3)
	for _, id := range []string{"second", "third"} {
		becomesOf(t, there, c, id, relay.Acked)
	}
}

// To a partner all consumers here are one peer, with one lane: they share what it holds.
func TestManyConsumersShareALinkWithoutWaitingForEachOther(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		const many = 200 // more than QUIC has streams
		a, b := pair(t, transport, "")
		here, s := relayPeer(t, a.running, a.addrs[0])
		_, there := relayPeer(t, b.running, b.addrs[0])
		stuck := consumes(t, a, s, here, "b/t", 3)
		topics := make([]*relay.Consumer, many)
		for i := range topics {
			topics[i] = consumes(t, a, s, here, fmt.Sprint("b/t", i), 1)
		}
		for i := range 3 {
			if err := publishing(t, there, "t", fmt.Sprint("stuck", i), 100); err != nil {
				t.Fatal(err)
			}
			next(t, stuck)
		}
		other, on := relayPeer(t, a.running, a.addrs[1])
		free := consumes(t, a, on, other, "b/t", 2)
		for i := range many {
			for _, topic := range []string{"t", fmt.Sprint("t", i)} {
				if err := publishing(t, there, topic, topic+fmt.Sprint("/", i), 100); err != nil {
					t.Fatal(err)
				}
			}
			delivered(t, topics[i], 1)
			delivered(t, free, 1)
		}
		if err := publishing(t, s, "b/x", "x", 1); err != nil {
			t.Error(err)
		}
		becomes(t, s, "x", relay.Queued)
	})
}

func TestAConsumerAtAPartnerGoesOnWhenTheLinkIsCut(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		b := open(t, "b", "relay: {backoff: 1ms, max_attempts: 20}\n")
		a := open(t, "a", "")
		link, address := newTunnel(t, b.addrs[0])
		b.trusting("a", a)
		a.trusting("b", b, address)
		a.connected("b")
		here, s := relayPeer(t, a.running, a.addrs[transport])
		_, there := relayPeer(t, b.running, b.addrs[0])
		c := consumes(t, a, s, here, "b/t", 4)
		came := make(map[string]bool)
		for i := range 12 {
			if err := publishing(t, there, "t", fmt.Sprint(i), 10); err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; len(came) < 12; i++ {
			d := next(t, c)
			if i%4 == 1 && i < 12 {
				link.cut() // what is not answered comes again
			}
			came[string(d.ID)] = true
			_ = d.Ack()
		}
		for i := range 12 {
			becomesOf(t, there, c, fmt.Sprint(i), relay.Acked)
		}
	})
}

// becomesOf is becomes while a consumer acknowledges what comes again.
func becomesOf(t *testing.T, s profiles.Session, c *relay.Consumer, id string, want relay.State) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			d, err := c.Recv(ctx)
			if err != nil {
				return
			}
			_ = d.Ack()
		}
	}()
	becomes(t, s, id, want)
	cancel()
	<-ended
}

func TestAConsumerAtAPartnerGoesOnWhenThatIsStartedAgain(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		yaml := "relay: {backoff: 1ms, max_attempts: 20}\n"
		b, a := open(t, "b", yaml), open(t, "a", "")
		b.trusting("a", a)
		a.trusting("b", b, b.addrs[transport])
		a.connected("b")
		here, s := relayPeer(t, a.running, a.addrs[transport])
		c := consumes(t, a, s, here, "b/t", 4)
		_, there := relayPeer(t, b.running, b.addrs[0])
		if err := publishing(t, there, "t", "1", 1); err != nil {
			t.Fatal(err)
		}
		d := next(t, c)
		was := b.addrs[transport]
		if err := b.end(); err != nil {
			t.Fatal(err)
		}
		b.again()
		a.rewrite(was, b.addrs[transport])
		a.reloaded()
		_, there = relayPeer(t, b.running, b.addrs[0])
		if err := publishing(t, there, "t", "2", 1); err != nil {
			t.Fatal(err)
		}
		_ = d.Ack() // if its attempt is over it comes again
		becomesOf(t, there, c, "1", relay.Acked)
		becomesOf(t, there, c, "2", relay.Acked)
	})
}

func TestConsumersThreeHopsAwayAreServed(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		row := inARow(t, transport, "", "", "")
		a, c := row[0], row[2]
		here, s := relayPeer(t, a.running, a.addrs[transport])
		_, there := relayPeer(t, c.running, c.addrs[0])
		got := consumes(t, a, profiles.Toward(s, "b/c"), here, "t", 2)
		if err := publishing(t, s, "b/c/t", "far", 1); err != nil {
			t.Fatal(err)
		}
		if d := next(t, got); profiles.Link(d.Publisher) != row[1].identity || d.Hops != 5 || d.Ack() != nil {
			t.Errorf("what went there and back: %+v", d)
		}
		if err := publishing(t, there, "t", "near", 1); err != nil {
			t.Fatal(err)
		}
		if d := next(t, got); string(d.ID) != "near" || d.Hops != 3 || d.Ack() != nil {
			t.Errorf("delivery of c: %+v", d)
		}
		becomes(t, there, "near", relay.Acked)
		becomes(t, s, "far", relay.Acked)
		got.Close()
		c.counts("swpd_relay_consumers", "0")
	})
}

func TestAConsumerAtAPartnerIsHeldToTheRulesOfBoth(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		b := open(t, "b", "access: {rules: [{identity: '**', profile: rpc}, {identity: '**', profile: relay, operation: publish}, {identity: '**', profile: relay, operation: consume, name: [open, later]}]}\n")
		a := open(t, "a", "access: {rules: [{identity: '**', profile: relay, operation: consume, name: ['b/open', 'b/closed', 'b/later']}]}\n")
		b.trusting("a", a)
		a.trusting("b", b, b.addrs[transport])
		a.connected("b")
		here, s := relayPeer(t, a.running, a.addrs[transport])
		for topic, want := range map[string]*organisation{"b/closed": b, "b/other": a, "open": a} {
			_, err := here.Consume(t.Context(), s, topic, 1)
			if said := (*rpc.Error)(nil); !errors.As(err, &said) || said.Code != rpc.CodeUnauthorized || said.Endpoint != want.identity {
				t.Errorf("%s: %v, want unauthorized by %s", topic, err, want.name)
			}
		}
		a.await("refused by partner")
		_, there := relayPeer(t, b.running, b.addrs[0])
		for topic, deny := range map[string]func(){
			"open":  func() { a.rewrite("'b/open', ", ""); a.reloaded() },
			"later": func() { b.rewrite(", later]", "]"); b.reloaded() },
		} {
			c := consumes(t, a, s, here, "b/"+topic, 1)
			deny()
			time.Sleep(1100 * time.Millisecond) // rules are asked again after a second
			if err := publishing(t, there, topic, topic, 1); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := c.Recv(ctx)
			if said := (*rpc.Error)(nil); !errors.As(err, &said) || said.Code != rpc.CodeUnauthorized {
				t.Errorf("%s, denied later: %v", topic, err)
			}
		}
	})
}

func TestAConsumerIsToldWhyThereIsNoWayToAPartner(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		b, a := open(t, "b", ""), open(t, "a", "")
		b.trusting("a", a)
		a.trusting("b", b, b.addrs[transport]+"], profiles: [mcp")
		a.connected("b")
		refused := func(by *relay.Service, on profiles.Session, topic, want string, retryable bool) {
			t.Helper()
			_, err := by.Consume(t.Context(), on, topic, 1)
			if said := (*rpc.Error)(nil); !errors.As(err, &said) || !strings.Contains(said.Message, want) || said.Retryable != retryable {
				t.Errorf("%s: %v, want %q", topic, err, want)
			}
		}
		here, s := relayPeer(t, a.running, a.addrs[transport])
		refused(here, s, "b/t", "partner b does not know of profile relay", false)
		refused(here, profiles.Toward(s, "c"), "t", "there is no partner c", false)
		without := alone(t, "", "")
		here, s = relayPeer(t, without.running, without.addrs[transport])
		refused(here, s, "b/t", "partner b cannot be reached now", true)
	})
}

func TestWhyAPartnerTakesNoDeliveriesIsToldOnBothSidesOfTheQueue(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := pairOf(t, transport, ruleAll+"relay: {backoff: 10ms}\n", ruleAll+"relay: {waiting: 1}\n")
		_, s := relayPeer(t, a.running, a.addrs[transport])
		held := func(on profiles.Session, id string) *relay.Held {
			t.Helper()
			h, err := relay.FindHeld(func(params []byte) ([]byte, error) { return rpc.Call(t.Context(), on, relay.MethodDead, params) }, []byte(id))
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		for _, id := range []string{"1", "2"} {
			if err := publishing(t, s, "b/t", id, 1); err != nil {
				t.Fatal(err)
			}
			if id == "1" {
				b.until("custody", func() bool { return b.metric("swpd_relay_taken_total") == "1" })
			}
		}
		for _, on := range []profiles.Session{s, profiles.Toward(s, "b")} {
			a.until("a reason", func() bool { return held(on, "2") != nil })
			if h := held(on, "2"); h.Partner != "b" || h.Refusal.Code != profiles.RateLimitExceeded.Alias() || h.Refusal.Endpoint != b.identity || !strings.Contains(h.Refusal.Message, "the topic is full") {
				t.Errorf("%+v %+v", h, h.Refusal)
			}
		}
		if h := held(s, "1"); h != nil {
			t.Errorf("the partner has custody: %+v", h)
		}
		queue := func() (status Status) {
			_, body := a.get("/status")
			if err := json.Unmarshal([]byte(body), &status); err != nil {
				t.Fatal(err)
			}
			return status
		}
		if q := queue().Partners[0].Queue; q.Held == nil || q.Held.Topic != "b/t" || !strings.Contains(q.Held.Message, "the topic is full") {
			t.Errorf("status: %+v", q)
		}
		if body := a.warned(); !strings.Contains(body, "partner b accepts no deliveries of a topic now: b/t: ") {
			t.Errorf("warnings: %s", body)
		}
		there, p := relayPeer(t, b.running, b.addrs[transport])
		c := consumes(t, b, p, there, "t", 1)
		for range 2 {
			if err := next(t, c).Ack(); err != nil {
				t.Fatal(err)
			}
		}
		becomes(t, s, "2", relay.Acked)
		if h := held(s, "2"); h != nil || queue().Partners[0].Queue.Held != nil {
			t.Errorf("afterwards: %+v, %+v", h, queue().Partners[0].Queue)
		}
	})
}

// A name that no endpoint on the way has for a partner is one of the last; an address is not.
func TestADeliveryToAnAddressThatLeadsNowhereIsDead(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := pair(t, transport, "")
		here, s := relayPeer(t, a.running, a.addrs[transport])
		far := profiles.Toward(s, "b/c")
		if err := publishing(t, far, "t", "1", 1); err != nil {
			t.Fatal(err)
		}
		becomes(t, s, "1", relay.DeadState)
		refusedThere(t, s, "1", relay.Refusal{Code: "NOT_FOUND", Message: "there is no partner c", Endpoint: "spiffe://b.example/swpd"})
		b.counts("swpd_relay_taken_total", "0")
		if _, err := here.Consume(t.Context(), far, "t", 1); err == nil || !strings.Contains(err.Error(), "there is no partner c") {
			t.Errorf("a consumer: %v", err)
		}
	})
}

// refusedThere wants a dead delivery to say which endpoint behind b has refused it, and why.
func refusedThere(t *testing.T, s profiles.Session, id string, want relay.Refusal) {
	t.Helper()
	dead, err := relay.FindDead(func(params []byte) ([]byte, error) { return rpc.Call(t.Context(), s, relay.MethodDead, params) }, []byte(id))
	switch {
	case err != nil || dead == nil || dead.Refusal == nil:
		t.Errorf("dead: %+v, %v, want the refusal %+v", dead, err, want)
	case *dead.Refusal != want || dead.Partner != "b" || dead.Reason != relay.Rejected:
		t.Errorf("dead: %+v refused %+v, want %+v", dead, *dead.Refusal, want)
	}
}

// mourner is a publisher that notes which of its deliveries are dead.
type mourner struct {
	*endpoint.Session
	told chan relay.Notice
}

func mourning(t *testing.T, o *organisation, transport int) *mourner {
	t.Helper()
	m := &mourner{told: make(chan relay.Notice, 10)}
	_, m.Session = relayPeerWith(t, o.running, o.addrs[transport], relay.Options{Notice: func(_ *profiles.Peer, n relay.Notice) bool {
		m.told <- n
		return true
	}})
	return m
}

// hears wants a notice.
func (m *mourner) hears(t *testing.T, id string, reason relay.Reason) {
	t.Helper()
	select {
	case n := <-m.told:
		if string(n.DeliveryID) != id || n.Reason != reason {
			t.Errorf("told that %q is dead: %s, want %q: %s", n.DeliveryID, n.Reason, id, reason)
		}
	case <-time.After(patience):
		t.Fatalf("nobody has told that %q is dead", id)
	}
}

// lists wants a dead delivery to be listed.
func (m *mourner) lists(t *testing.T, on profiles.Session, id, topic string, reason relay.Reason) {
	t.Helper()
	d, err := relay.FindDead(func(params []byte) ([]byte, error) { return rpc.Call(t.Context(), on, relay.MethodDead, params) }, []byte(id))
	if err != nil || d == nil || d.Topic != topic || d.Reason != reason || d.Partner != "b" || d.Size != 10 || d.Died < d.Taken || d.Taken == 0 {
		t.Errorf("dead %q: %+v, %v", id, d, err)
	}
	result, err := rpc.Call(t.Context(), on, relay.MethodDead, nil)
	if err != nil || !strings.Contains(string(result), fmt.Sprintf(`"topic":%q,"reason_code":%q`, topic, reason)) {
		t.Errorf("listed: %s, %v", result, err)
	}
}

// rejects has a consumer at an organisation reject what comes next.
func rejects(t *testing.T, o *organisation, topic string) {
	t.Helper()
	by, s := relayPeer(t, o.running, o.addrs[0])
	c := consumes(t, o, s, by, topic, 1)
	defer c.Close()
	if err := next(t, c).Nack(false, "useless"); err != nil {
		t.Error(err)
	}
}

func TestAPublisherIsToldWhatBecameOfItAtAPartner(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		row := inARow(t, transport, "", "relay: {ttl: 1s}\n", "")
		a, b, c := row[0], row[1], row[2]
		p, other := mourning(t, a, transport), mourning(t, b, 0)
		if err := publishing(t, p, "b/t", "1", 10); err != nil {
			t.Fatal(err)
		}
		rejects(t, b, "t")
		p.hears(t, "1", relay.Rejected)
		becomes(t, p, "1", relay.DeadState)
		p.lists(t, p, "1", "b/t", relay.Rejected)
		p.lists(t, profiles.Toward(p, "b"), "1", "t", relay.Rejected)
		// Nobody comes for it. The ids of others are theirs.
		if err := publishing(t, other, "t", "2", 10); err != nil {
			t.Fatal(err)
		}
		if _, err := relay.Send(t.Context(), p, &relay.Publication{ID: []byte("2"), Topic: "b/t", Payload: make([]byte, 10), TTL: time.Second}); err != nil {
			t.Fatal(err)
		}
		other.hears(t, "2", relay.TTLExpired)
		p.hears(t, "2", relay.TTLExpired)
		p.lists(t, p, "2", "b/t", relay.TTLExpired)
		// Behind the partner.
		if err := publishing(t, profiles.Toward(p, "b/c"), "t", "3", 10); err != nil {
			t.Fatal(err)
		}
		rejects(t, c, "t")
		p.hears(t, "3", relay.Rejected)
		p.lists(t, p, "3", "b/c/t", relay.Rejected)
		// The partner of the partner refuses it.
		if err := publishing(t, profiles.Toward(p, "b/c/d"), "t", "5", 10); err != nil {
			t.Fatal(err)
		}
		p.hears(t, "5", relay.Rejected)
		refusedThere(t, p, "5", relay.Refusal{Code: "NOT_FOUND", Message: "there is no partner d", Endpoint: "spiffe://c.example/swpd"})
		// What is over well is asked for.
		if err := publishing(t, p, "b/t", "4", 10); err != nil {
			t.Fatal(err)
		}
		by, s := relayPeer(t, b.running, b.addrs[0])
		if err := next(t, consumes(t, b, s, by, "t", 1)).Ack(); err != nil {
			t.Error(err)
		}
		becomes(t, p, "4", relay.Acked)
		select {
		case n := <-p.told:
			t.Errorf("told of %+v", n)
		default:
		}
	})
}

func TestAPublisherIsToldAfterALostLinkAndARestart(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		b, a := open(t, "b", ""), open(t, "a", "")
		b.trusting("a", a)
		a.trusting("b", b, b.addrs[transport])
		a.connected("b")
		p := mourning(t, a, transport)
		send := func(id string) {
			t.Helper()
			if err := publishing(t, p, "b/t", id, 10); err != nil {
				t.Fatal(err)
			}
			a.until("custody there", func() bool { return a.metric(`swpd_partner_queue_messages{partner="b"}`) == "0" })
			becomes(t, p, id, relay.Queued)
		}
		send("1")
		// The link is lost, and it dies meanwhile.
		was := b.addrs[transport]
		a.rewrite(was, "swp+tls://127.0.0.1:1")
		a.reloaded()
		a.until("the loss of b", func() bool { return !a.up("b") })
		rejects(t, b, "t")
		if _, _, err := relay.Ask(t.Context(), p, []byte("1")); err == nil || !strings.Contains(err.Error(), "cannot be asked now") {
			t.Errorf("while the partner is away: %v", err)
		}
		a.rewrite("swp+tls://127.0.0.1:1", was)
		a.reloaded()
		p.hears(t, "1", relay.Rejected)
		p.lists(t, p, "1", "b/t", relay.Rejected)
		// This side is started again, and nobody is there to be told.
		a.connected("b")
		send("2")
		if err := a.end(); err != nil {
			t.Fatal(err)
		}
		rejects(t, b, "t")
		a.again()
		a.connected("b")
		a.until("the notice", func() bool { return a.metric("swpd_relay_waiting") == "2" })
		// The partner is started again ahead of the publisher: it is kept here.
		if err := b.end(); err != nil {
			t.Fatal(err)
		}
		p = mourning(t, a, transport)
		becomes(t, p, "2", relay.DeadState)
		p.hears(t, "2", relay.Rejected)
		p.lists(t, p, "2", "b/t", relay.Rejected)
	})
}

// Deliveries that consumers have and have not answered take no memory of the link.
func TestUnansweredDeliveriesTakeNoMemoryOfTheLink(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		const octets, each = 1 << 20, 8
		b := open(t, "b", "relay: {max_attempts: 1, ack_timeout: 1h}\n")
		a := open(t, "a", "limits: {in_flight_bytes_per_connection: 10MiB}\n")
		b.trusting("a", a)
		a.trusting("b", b, b.addrs[transport])
		a.connected("b")
		_, there := relayPeer(t, b.running, b.addrs[0])
		var all []*relay.Delivery
		for i := range 3 {
			here, s := relayPeer(t, a.running, a.addrs[transport])
			c := consumes(t, a, s, here, "b/t", each)
			for j := range each {
				if err := publishing(t, there, "t", fmt.Sprint(i, "/", j), octets); err != nil {
					t.Fatal(err)
				}
				d := next(t, c)
				if len(d.Payload) != octets {
					t.Errorf("%d octets", len(d.Payload))
				}
				all = append(all, d)
			}
		}
		b.counts("swpd_relay_failed_attempts_total", "0")
		for _, d := range all {
			if err := d.Ack(); err != nil {
				t.Error(err)
			}
			becomes(t, there, string(d.ID), relay.Acked)
		}
	})
}

// underConditions returns two partners with credentials, which declare other things of b.
func underConditions(t *testing.T, transport int) (a, b *organisation) {
	t.Helper()
	near, _ := credYAML(t, true)
	there, _ := credYAML(t, false)
	a, b = pairOf(t, transport, near, there+"endpoint: {hints: {region: eu-west-1}}\n")
	a.configure(func(text string) string {
		return strings.Replace(text, "b: {identity:", "b: {hints: {region: eu, cost: '1'}, identity:", 1)
	})
	if got := a.reloads(); len(got.Problems) > 0 {
		t.Fatalf("%+v", got)
	}
	a.connected("b")
	return a, b
}

// A delivery that waits for a partner goes there later under what it was accepted under: as its
// publisher, with its hints, and with its credentials, if they are still of use.
func TestConditionsOfStoredDeliveriesGoToPartners(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := underConditions(t, transport)
		if err := b.end(); err != nil {
			t.Fatal(err)
		}
		a.until("the loss of b", func() bool { return !a.up("b") })
		publish := func(ctx context.Context, s *session, id string) {
			t.Helper()
			if _, err := relay.Send(ctx, s.Session, &relay.Publication{ID: []byte(id), Topic: "b/t", Payload: []byte(id)}); err != nil {
				t.Fatalf("%s: %v", id, err)
			}
		}
		s := a.mustDial(a.addrs[transport])
		publish(t.Context(), s, "plain")
		publish(s.present(t, "kept"), s, "under a chain")
		revoked := s.present(t, "revoked")
		publish(revoked, s, "under a revoked chain")
		if err := cred.End(t.Context(), opened(t, s.Session), confirmed, []byte("revoked"), ""); err != nil {
			t.Fatal(err)
		}
		for _, hint := range []string{"MUST region=eu", "SHOULD region=mars", "MUST cost_limit=2"} { // the last one not by the partner
			hinted := a.mustDial(a.addrs[transport])
			hinted.put(t, hinted.Session, hint)
			publish(t.Context(), hinted, hint)
		}
		was := b.addrs[transport]
		b.again()
		a.rewrite(was, b.addrs[transport])
		a.reloaded()
		a.connected("b")
		for id, want := range map[string]relay.State{
			"plain": relay.Acked, "under a chain": relay.Acked, "under a revoked chain": relay.DeadState,
			"MUST region=eu": relay.Acked, "SHOULD region=mars": relay.Acked, "MUST cost_limit=2": relay.DeadState,
		} {
			if want == relay.Acked {
				there := b.mustDial(b.addrs[transport])
				c, err := there.relays.Consume(t.Context(), there.Session, "t", 16)
				if err != nil {
					t.Fatal(err)
				}
				becomesOf(t, s.Session, c, id, want)
				c.Close()
				continue
			}
			becomes(t, s.Session, id, want)
		}
		hints, chains := make(map[string]int), 0
		for _, r := range b.trail() {
			if r.Entry.Profile == relay.Name && r.Operation == "publish" && r.Outcome == "ok" && r.Identity == a.identity {
				hints[r.Hints]++
				if r.Chain != "" {
					chains++
				}
				if r.For == "" {
					t.Errorf("a delivery of nobody: %+v", r)
				}
			}
		}
		if diff := cmp.Diff(map[string]int{"": 2, "region=eu;MUST": 1, "region=mars;SHOULD": 1}, hints); diff != "" || chains != 1 {
			t.Errorf("at the partner %d deliveries were under a chain, and under hints %s", chains, diff)
		}
	})
}
