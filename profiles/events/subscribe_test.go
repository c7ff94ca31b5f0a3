package events_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/endpoint/endpointtest"
)

const (
	producer   = "spiffe://test.invalid/producer"
	subscriber = "spiffe://test.invalid/subscriber"
)

func TestEvents0002Ordering(t *testing.T) {
	s := serve(t, "pipe", events.Options{}, endpoint.Bounds{})
	sub := s.dial(subscriber).subscribe(t, events.SubscribeOptions{})
	s.dial(producer).publish(t, ids(100)...)
	receive(t, sub, ids(100)...)
}

func TestEvents0003CorrelationPropagation(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		s := serve(t, kind, events.Options{Store: newMemory(t)}, endpoint.Bounds{})
		sub := s.dial(subscriber).subscribe(t, events.SubscribeOptions{})
		r := record("a")
		r.MsgID, r.TaskID, r.RPCID, r.Severity = bytes.Repeat([]byte{0xff}, 64), []byte{0}, []byte("\xfe\xff"), []byte(" Info")
		pub := s.dial(producer).publisher(t)
		defer pub.Close()
		if err := pub.Publish(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		d, err := sub.Recv(t.Context())
		if err != nil || len(d.Events) != 1 {
			t.Fatalf("%d events, error %v", len(d.Events), err)
		}
		if got, want := publish(d.Events[0]), publish(r); !bytes.Equal(got, want) {
			t.Errorf("%x delivered, want %x", got, want)
		}
	})
}

func TestSubscriptionsGetWhatTheirFilterMatches(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		s := serve(t, kind, events.Options{Store: newMemory(t)}, endpoint.Bounds{})
		p := s.dial(subscriber)
		all, warn, task := p.subscribe(t, events.SubscribeOptions{}),
			p.subscribe(t, events.SubscribeOptions{Filter: "severity:warn,severity:error"}),
			p.subscribe(t, events.SubscribeOptions{Filter: "task:0a0b,type:t"})
		pub := s.dial(producer).publisher(t)
		defer pub.Close()
		for _, e := range []struct{ id, severity, eventType, task string }{
			{"1", "info", "t", "\x0a\x0b"}, {"2", "warn", "t", "x"}, {"3", "error", "u", "\x0a\x0b"}, {"4", "debug", "t", "\x0a\x0b"},
		} {
			r := record(e.id)
			r.Severity, r.EventType, r.TaskID = []byte(e.severity), []byte(e.eventType), []byte(e.task)
			if err := pub.Publish(t.Context(), &r); err != nil {
				t.Fatal(err)
			}
		}
		receive(t, all, "1", "2", "3", "4")
		receive(t, warn, "2", "3")
		receive(t, task, "1", "4")
		p.failOpen(t, events.SubscribeOptions{Filter: "severity:fatal"}, events.CodeInvalidFilter)
	})
}

func TestPR05NamesAreLiteral(t *testing.T) {
	store := newMemory(t)
	s := serve(t, "pipe", events.Options{Store: store}, endpoint.Bounds{ErrorBudget: 1000})
	p := s.dial(subscriber)
	names := []string{"*.x", ">", "a b", "\r\n", "\x00", "$JS.API.x", "$SYS.x", "../../x", "%", "_", "'; DROP TABLE log; --"}
	var subs []*events.Subscription
	for _, name := range names {
		subs = append(subs, p.subscribe(t, events.SubscribeOptions{Filter: "type:" + name, Name: name}))
	}
	pub := s.dial(producer).publisher(t)
	defer pub.Close()
	for i, name := range append([]string{"other"}, names...) {
		r := record(fmt.Sprint(name, i)) // an event_id of the same octets
		r.EventType = []byte(name)
		if err := pub.Publish(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range names {
		receive(t, subs[i], fmt.Sprint(name, i+1))
	}
	// A name is inside the space of its identity, whatever it contains.
	store.update(func() {
		prefix := fmt.Sprintf("events.names/%c%s", len(subscriber), subscriber)
		for key := range store.records {
			if !strings.HasPrefix(key, prefix) {
				t.Errorf("record %q of %q", key, subscriber)
			}
		}
		if len(store.records) != len(names) {
			t.Errorf("%d records, want %d", len(store.records), len(names))
		}
	})
	for _, filter := range []string{"", ",", "type:", "type:" + strings.Repeat("x", 4096), "type:a,,"} {
		if filter != "" {
			p.failOpen(t, events.SubscribeOptions{Filter: filter}, events.CodeInvalidFilter)
		}
	}
	r := record("long")
	r.EventType = bytes.Repeat([]byte("x"), 4096)
	refused(t, r.Validate(), events.DetailSize)
}

func TestPR06SubscriptionsAreBounded(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		s := serve(t, kind, events.Options{Store: newMemory(t)}, endpoint.Bounds{})
		p := s.dial(subscriber)
		var subs []*events.Subscription
		open := func() *events.Subscription {
			// On one lane: QUIC would grant 128 streams.
			sub, err := events.Open(t.Context(), oneLane{p, p.lane(t)}, events.SubscribeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return sub
		}
		for range 256 {
			subs = append(subs, open())
		}
		_, err := events.Open(t.Context(), oneLane{p, p.lane(t)}, events.SubscribeOptions{})
		wantPeerError(t, err, "RATE_LIMIT_EXCEEDED")
		s.dial(subscriber).subscribe(t, events.SubscribeOptions{}) // another connection is another matter
		subs[0].Close()
		if err := endpointtest.CallSync(t.Context(), p.lane(t)); err != nil {
			t.Fatal(err)
		}
		subs[0] = open()
		s.dial(producer).publish(t, "a")
		for _, sub := range subs {
			receive(t, sub, "a")
		}
		p.leave()
		s.await(t, "all 257 ended", func() bool { return s.details[""]+s.details["gone"] >= 257 })
		s.bus.Close() // waits for every delivery
	})
}

func TestSubscriptionsOfAnIdentityAreBounded(t *testing.T) {
	s := serve(t, "pipe", events.Options{IdentitySubscriptions: 3}, endpoint.Bounds{})
	a, b := s.dial(subscriber), s.dial(subscriber)
	a.subscribe(t, events.SubscribeOptions{})
	a.subscribe(t, events.SubscribeOptions{})
	sub := b.subscribe(t, events.SubscribeOptions{})
	b.failOpen(t, events.SubscribeOptions{}, "RATE_LIMIT_EXCEEDED")
	s.dial("spiffe://test.invalid/other").subscribe(t, events.SubscribeOptions{})
	sub.Close()
	if err := endpointtest.CallSync(t.Context(), b.lane(t)); err != nil {
		t.Fatal(err)
	}
	a.subscribe(t, events.SubscribeOptions{})
}

// oneLane is a session whose lanes are all the same one.
type oneLane struct {
	profiles.Session
	lane profiles.Lane
}

func (o oneLane) Open(context.Context) (profiles.Lane, error) { return keptOpen{o.lane}, nil }

type keptOpen struct{ profiles.Lane }

func (keptOpen) Close() error { return nil }

// lane returns the lane that a test uses for everything.
func (p *peer) lane(t testing.TB) profiles.Lane {
	t.Helper()
	if p.shared == nil {
		lane, err := p.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p.shared = lane
	}
	return p.shared
}

func TestPR06ForeignSubscriptionIsNotFound(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		s := serve(t, kind, events.Options{}, endpoint.Bounds{})
		mine, theirs := s.dial(subscriber), s.dial(subscriber) // even of the same identity
		sub := theirs.subscribe(t, events.SubscribeOptions{})
		for _, id := range []string{sub.ID(), strings.Repeat("00", 16), "*", strings.ToUpper(sub.ID())} {
			m := events.Unsubscribe{SubscriptionID: []byte(id)}
			call, err := mine.Call(t.Context(), e1.Envelope{ProfileID: events.ProfileID, MsgType: events.TypeUnsubscribe, Payload: m.Append(nil)})
			if err != nil {
				t.Fatal(err)
			}
			env, err := call.Recv(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var answer events.Err
			if err := answer.Decode(env.Payload); err != nil || string(answer.Code) != events.CodeNotFound ||
				string(answer.Message) != "no such subscription on this connection" {
				t.Errorf("id %q: answer %q %q, error %v, want NOT_FOUND, the same for all", id, answer.Code, answer.Message, err)
			}
			call.Close()
		}
		s.await(t, "NOT_FOUND as code", func() bool { return s.codes[profiles.NotFound] == 4 })
		s.dial(producer).publish(t, "a")
		receive(t, sub, "a")
	})
}

func TestUnsubscribedGetsNothingMore(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		s := serve(t, kind, events.Options{}, endpoint.Bounds{})
		p := s.dial(subscriber)
		lane := oneLane{p, p.lane(t)}
		one, err := events.Open(t.Context(), lane, events.SubscribeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		two, err := events.Open(t.Context(), lane, events.SubscribeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer two.Close()
		s.dial(producer).publish(t, "a")
		receive(t, one, "a")
		receive(t, two, "a")
		one.Close()
		if err := endpointtest.CallSync(t.Context(), p.lane(t)); err != nil {
			t.Fatal(err)
		}
		s.dial(producer).publish(t, "b")
		receive(t, two, "b")
	})
}

func TestDeniedTypesDoNotExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		access := rules{"publish open": true, "publish secret": true, "subscribe open": true}
		s := serve(t, "pipe", events.Options{Access: access, Store: newMemory(t)}, endpoint.Bounds{})
		zero := uint64(0)
		p := s.dial(identity)
		live, stored := p.subscribe(t, events.SubscribeOptions{Filter: "type:*"}), p.subscribe(t, events.SubscribeOptions{After: &zero})
		pub := p.publisher(t)
		defer pub.Close()
		send := func(list ...string) { // id.type
			t.Helper()
			for _, id := range list {
				r := record(id)
				r.EventType = []byte(id[2:])
				if err := pub.Publish(t.Context(), &r); err != nil {
					t.Fatal(err)
				}
			}
			if err := pub.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		send("1.secret", "2.open", "3.secret")
		receive(t, live, "2.open")
		receive(t, stored, "2.open")

		// A rule that is gone or there holds within a second.
		access["subscribe open"], access["subscribe secret"] = false, true
		time.Sleep(time.Second)
		send("4.open", "5.secret")
		receive(t, live, "5.secret")
		receive(t, stored, "5.secret")
	})
}

// Nothing would ever come, and the subscriber would not know why.
func TestASubscriptionToWhatNoRuleLetsThroughIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, "pipe", events.Options{Access: rules{"subscribe orders.new": true}, Store: newMemory(t)}, endpoint.Bounds{})
		p, stranger := s.dial(identity), s.dial(subscriber)
		for _, filter := range []string{"", "severity:error", "type:orders.new", "type:orders.*", "type:*", "type:orders.new,type:o*,severity:warn+"} {
			p.subscribe(t, events.SubscribeOptions{Filter: filter})
			stranger.failOpen(t, events.SubscribeOptions{Filter: filter}, "SECURITY_POLICY")
		}
		for _, filter := range []string{"type:orders", "type:order.*", "type:orders.new.*", "type:orders.new,type:orders.old"} {
			p.failOpen(t, events.SubscribeOptions{Filter: filter}, "SECURITY_POLICY")
			p.failOpen(t, events.SubscribeOptions{Filter: filter, Name: "n"}, "SECURITY_POLICY")
		}
	})
}

func TestARuleTakenAwayEndsASubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		access := rules{"publish test.type": true, "subscribe open": true, "subscribe other": true}
		s := serve(t, "pipe", events.Options{Access: access, Store: newMemory(t)}, endpoint.Bounds{ErrorBudget: 2})
		p := s.dial(identity)
		var ended []*events.Subscription
		for _, o := range []events.SubscribeOptions{{Filter: "type:open"}, {Filter: "type:op*"}, {Filter: "type:open,type:other"}, {Filter: "type:open", Name: "n"}} {
			ended = append(ended, p.subscribe(t, o))
		}
		all := p.subscribe(t, events.SubscribeOptions{})
		synctest.Wait()
		access["subscribe open"] = false
		s.bus.Profile().Review()
		for _, sub := range ended {
			_, err := sub.Recv(t.Context())
			wantPeerError(t, err, "SECURITY_POLICY")
		}
		synctest.Wait()
		access["subscribe open"] = true
		time.Sleep(time.Second) // virtual: until rules are asked again
		p.publish(t, "a")       // the connection was charged nothing
		synctest.Wait()
		access["subscribe open"], access["subscribe other"] = false, false
		s.bus.Profile().Review()
		for {
			if _, err := all.Recv(t.Context()); err != nil {
				wantPeerError(t, err, "SECURITY_POLICY")
				break
			}
		}
	})
}

func TestAnswersOfAccessAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(map[string]int)
		s := serve(t, "pipe", events.Options{Access: asking(asked)}, endpoint.Bounds{})
		sub := s.dial(subscriber).subscribe(t, events.SubscribeOptions{})
		for i := range 300 {
			for _, name := range []string{"same", fmt.Sprint("type", i)} {
				r := record(fmt.Sprint(name, i))
				r.EventType = []byte(name)
				if err := s.bus.Publish(t.Context(), "me", &r); err != nil {
					t.Fatal(err)
				}
				receive(t, sub, fmt.Sprint(name, i))
			}
		}
		synctest.Wait()
		if n := asked["same"]; n > 10 {
			t.Errorf("asked %d times within a second for the same type", n)
		}
	})
}

// mine allows the types of an identity of its own only, and counts what else is asked for.
type mine struct {
	mu     sync.Mutex
	denied int
}

func (m *mine) Allowed(_, _, _, name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name != "*" && !strings.HasPrefix(name, "mine.") {
		m.denied++
		return false
	}
	return true
}

// Subscriptions that do not get an event neither read it nor ask the rules about it; those of
// one identity cost it one question together.
func TestRS30AnEventCostsNothingForSubscriptionsThatDoNotGetIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		access := new(mine)
		s := serve(t, "pipe", events.Options{Access: access, TailEntries: 4}, endpoint.Bounds{})
		p := s.dial(subscriber)
		subs := make([]*events.Subscription, 64)
		for i := range subs {
			// To every type; each has a filter that no other has.
			subs[i] = p.subscribe(t, events.SubscribeOptions{Filter: fmt.Sprintf("type:mine.%d,type:*", i)})
		}
		synctest.Wait()
		publish := func(eventType, id string) {
			t.Helper()
			r := record(id)
			r.EventType = []byte(eventType)
			if err := s.bus.Publish(t.Context(), "me", &r); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for i := range 10 { // more than the memory has room for
			publish("other.x", fmt.Sprint("o", i))
		}
		if access.denied != 1 {
			t.Errorf("the rules were asked %d times about the type of the others, want once", access.denied)
		}
		publish("mine.x", "m")
		for _, sub := range subs {
			receive(t, sub, "m")
		}
	})
}

type asking map[string]int

func (a asking) Allowed(_, _, operation, name string) bool {
	if operation == "subscribe" {
		a[name]++
	}
	return true
}

func TestSilentSubscriptionGetsASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, "pipe", events.Options{Store: newMemory(t)}, endpoint.Bounds{})
		sub := s.dial(subscriber).subscribe(t, events.SubscribeOptions{Filter: "type:other"})
		p := s.dial(producer)
		p.publish(t, ids(3)...)
		start := time.Now()
		for range 5 { // 25 minutes: longer than a connection may be idle
			d, err := sub.Recv(t.Context())
			if err != nil || len(d.Events) != 0 || d.Cursor != 3 {
				t.Fatalf("%d events, cursor %d, error %v, want none and 3", len(d.Events), d.Cursor, err)
			}
		}
		if took := time.Since(start); took != 25*time.Minute {
			t.Errorf("five signs of life in %v, want 25m", took)
		}
	})
}

func TestClosedBusEndsSubscriptions(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		s := serve(t, kind, events.Options{}, endpoint.Bounds{})
		sub := s.dial(subscriber).subscribe(t, events.SubscribeOptions{})
		feed := s.bus.Subscribe(nil, nil)
		p := s.dial(subscriber)
		s.bus.Drain()
		_, err := sub.Recv(t.Context())
		wantPeerError(t, err, "RATE_LIMIT_EXCEEDED")
		p.failOpen(t, events.SubscribeOptions{}, "RATE_LIMIT_EXCEEDED")
		p.publish(t, "while it drains")
		if d, err := feed.Recv(t.Context()); err != nil || len(d.Events) != 1 {
			t.Errorf("%d events, error %v while it drains, want one", len(d.Events), err)
		}
		s.bus.Close()
		if _, err := feed.Recv(t.Context()); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("feed: %v", err)
		}
		r := record("a")
		if err := s.bus.Publish(t.Context(), "me", &r); err == nil {
			t.Error("published on a closed Bus")
		}
	})
}

func TestADrainedSessionLetsItsSubscribersGo(t *testing.T) {
	for _, kind := range []string{"pipe", "mux"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, kind, events.Options{Store: newMemory(t)}, endpoint.Bounds{})
				one := s.dial("one")
				sub := one.subscribe(t, events.SubscribeOptions{})
				for session := range s.ep.Sessions() {
					session.Drain()
				}
				_, err := sub.Recv(t.Context())
				var fault *profiles.Error
				if !errors.As(err, &fault) || !fault.Retryable {
					t.Errorf("error %v, want it retryable", err)
				}
				<-one.Context().Done() // nothing holds it
			})
		})
	}
}
