package events_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/transport/endpoint"
)

const identity = "spiffe://profiletest/peer" // of the peer of a Harness

// wantRefused wants a message to be refused, and its EVT_ERR to have that code.
func wantRefused(t testing.TB, p *profiles.Profile, x *profiletest.Exchange, code profiles.Code, answer string) {
	t.Helper()
	fault := x.Wait().Err()
	if fault == nil || fault.Code != code {
		t.Fatalf("error %v, want %v", fault, code)
	}
	env, ok := fault.Answer, fault.Answer.MsgType != 0
	if !ok {
		env, ok = p.Refusal(x.Request(), fault)
	}
	var m events.Err
	if !ok || m.Decode(env.Payload) != nil || string(m.Code) != answer {
		t.Errorf("EVT_ERR %q, %v, want %s", m.Code, ok, answer)
	}
}

func wantAccepted(t testing.TB, x *profiletest.Exchange) {
	t.Helper()
	if err := x.Wait().Err(); err != nil || len(x.Answers()) > 0 {
		t.Errorf("error %v, %d answers, want accepted without an answer", err, len(x.Answers()))
	}
}

// each runs a test with live events and with stored ones.
func each(t *testing.T, test func(t *testing.T, opts events.Options)) {
	t.Run("live", func(t *testing.T) { test(t, events.Options{}) })
	t.Run("durable", func(t *testing.T) { test(t, events.Options{Store: newMemory(t)}) })
}

// next returns the event_ids that a feed has before one that is published now.
func next(t testing.TB, b *events.Bus, feed *events.Feed) (list []string) {
	t.Helper()
	end := record(fmt.Sprintf("end %p %d", feed, rand.Uint64()))
	if err := b.Publish(t.Context(), "spiffe://test.invalid/end", &end); err != nil {
		t.Fatal(err)
	}
	for {
		d, err := feed.Recv(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.Events {
			if string(d.Events[i].EventID) == string(end.EventID) {
				return list
			}
			list = append(list, string(d.Events[i].EventID))
		}
	}
}

func TestEventsAreAcceptedOnce(t *testing.T) {
	each(t, func(t *testing.T, opts events.Options) {
		b := newBus(t, opts)
		feed := b.Subscribe(nil, nil)
		h := profiletest.New(t, b.Profile())
		wantAccepted(t, h.Serve(events.TypePublish, publish(record("a"))))
		wantAccepted(t, h.Serve(events.TypePublish, publish(record("a"))))
		wantAccepted(t, h.Serve(events.TypeBatch, batch(record("a"), record("b"), record("b"))))
		other := record("a")
		other.Body = []byte("another")
		wantRefused(t, b.Profile(), h.Serve(events.TypePublish, publish(other)), profiles.InvalidProfilePayload, "INVALID_PROFILE_PAYLOAD")
		// The event_id of another producer is another one.
		if err := b.Publish(t.Context(), "spiffe://test.invalid/other", &other); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(next(t, b, feed)); got != "[a b a]" {
			t.Errorf("events %s, want [a b a]", got)
		}
	})
}

// A producer cannot make its events those of another one by the choice of an
// event_id.
func TestEventIDsStayWithTheirProducer(t *testing.T) {
	each(t, func(t *testing.T, opts events.Options) {
		b := newBus(t, opts)
		one, two := record("bc"), record("c")
		two.Body = []byte("another")
		if err := b.Publish(t.Context(), "a", &one); err != nil {
			t.Error(err)
		}
		if err := b.Publish(t.Context(), "ab", &two); err != nil {
			t.Error(err)
		}
	})
}

func TestSpellingsOfAnEventAreDuplicates(t *testing.T) {
	each(t, func(t *testing.T, opts events.Options) {
		b := newBus(t, opts)
		feed := b.Subscribe(nil, nil)
		h := profiletest.New(t, b.Profile())
		wantAccepted(t, h.Serve(events.TypePublish, wrap([]byte("\x0a\x01i\x12\x01t\x1a\x04info\x20\x07\x32\x01x"))))
		wantAccepted(t, h.Serve(events.TypePublish, wrap([]byte("\x32\x81\x00x\x0a\x01i\x12\x01t\x1a\x04info\x20\x87\x00"))))
		if got := next(t, b, feed); len(got) != 1 {
			t.Errorf("events %v, want one", got)
		}
	})
}

func TestLiveDuplicatesAreRememberedForAWhile(t *testing.T) {
	b := newBus(t, events.Options{TailEntries: 20_000})
	publishAs := func(producer, id string) {
		r := record(id)
		if err := b.Publish(t.Context(), producer, &r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1024 {
		publishAs("p", fmt.Sprint(i))
	}
	feed := b.Subscribe(nil, nil)
	publishAs("p", "0")
	for i := range 255 {
		publishAs(fmt.Sprint("others", i), "x")
	}
	publishAs("p", "0")
	for i := range 10_000 { // no more than a bound is remembered, whatever happens
		publishAs(fmt.Sprint("more", i), "y")
	}
	if slices.Contains(next(t, b, feed), "0") {
		t.Error("an event came twice within the last 1,024 of its producer")
	}
}

func TestPR06BatchesAreRefusedAsAWhole(t *testing.T) {
	each(t, func(t *testing.T, opts events.Options) {
		b := newBus(t, opts)
		feed := b.Subscribe(nil, nil)
		h := profiletest.New(t, b.Profile())
		severity, correlation, conflict := record("b"), record("b"), record("a")
		severity.Severity = []byte("fatal")
		correlation.MsgID = nil
		conflict.Body = []byte("another")
		for _, bad := range []events.Record{severity, correlation, conflict} {
			x := h.Serve(events.TypeBatch, batch(record("a"), record("c"), bad, record("d")))
			wantRefused(t, b.Profile(), x, profiles.InvalidProfilePayload, "INVALID_PROFILE_PAYLOAD")
		}
		if got := next(t, b, feed); len(got) != 0 {
			t.Errorf("events %v of refused batches", got)
		}
		wantAccepted(t, h.Serve(events.TypeBatch, batch()))
		wantAccepted(t, h.Serve(events.TypeBatch, batch(record("a"), record("c"), record("b"))))
		if got := fmt.Sprint(next(t, b, feed)); got != "[a c b]" {
			t.Errorf("events %s, want the order of the batch", got)
		}
	})
}

// rules allow what is listed: "operation name".
type rules map[string]bool

func (r rules) Allowed(who, profile, operation, name string) bool {
	return who == identity && profile == "events" && r[operation+" "+name]
}

// WouldSome implements profiles.Surveyor.
func (r rules) WouldSome(who, profile, operation, beginning string) bool {
	for allowed, yes := range r {
		if yes && who == identity && profile == "events" && strings.HasPrefix(allowed, operation+" "+beginning) {
			return true
		}
	}
	return false
}

func TestPublishingNeedsARule(t *testing.T) {
	each(t, func(t *testing.T, opts events.Options) {
		opts.Access = rules{"publish good": true}
		b := newBus(t, opts)
		feed := b.Subscribe(nil, nil)
		h := profiletest.New(t, b.Profile())
		good, bad := record("a"), record("b")
		good.EventType, bad.EventType = []byte("good"), []byte("bad")
		wantAccepted(t, h.Serve(events.TypePublish, publish(good)))
		wantRefused(t, b.Profile(), h.Serve(events.TypePublish, publish(bad)), profiles.SecurityPolicy, "SECURITY_POLICY")
		other := good
		other.EventID = []byte("c")
		wantRefused(t, b.Profile(), h.Serve(events.TypeBatch, batch(other, bad)), profiles.SecurityPolicy, "SECURITY_POLICY")
		if got := fmt.Sprint(next(t, b, feed)); got != "[a]" {
			t.Errorf("events %s, want [a]", got)
		}
	})
}

func TestHopsAreLimited(t *testing.T) {
	b := newBus(t, events.Options{})
	h := profiletest.New(t, b.Profile())
	hops := func(n uint64) e1.Extensions { return e1.AppendExtensionUvarint(nil, profiles.ExtHops, n) }
	wantAccepted(t, h.Serve(events.TypePublish, publish(record("a")), hops(8)...))
	wantRefused(t, b.Profile(), h.Serve(events.TypePublish, publish(record("b")), hops(9)...), profiles.InvalidProfilePayload, "INVALID_PROFILE_PAYLOAD")
	for _, value := range []string{"", "\x80", "\x01\x01"} {
		ext := e1.AppendExtension(nil, profiles.ExtHops, []byte(value))
		wantRefused(t, b.Profile(), h.Serve(events.TypePublish, publish(record("c")), ext...), profiles.InvalidProfilePayload, "INVALID_PROFILE_PAYLOAD")
	}
}

func TestProcessPublishesWhatIsValid(t *testing.T) {
	each(t, func(t *testing.T, opts events.Options) {
		b := newBus(t, opts)
		r := record("a")
		r.Severity = []byte("fatal")
		refused(t, b.Publish(t.Context(), "me", &r), events.DetailSeverity)
		r = record("a")
		r.EventType = nil
		refused(t, b.Publish(t.Context(), "me", &r), p1.DetailRequired)
		r = record("a")
		if err := b.Publish(t.Context(), "me", &r); err != nil {
			t.Error(err)
		}
	})
}

func TestFullQuotaIsRefusedRetryably(t *testing.T) {
	store := newMemory(t)
	store.quota = 2
	b := newBus(t, events.Options{Store: store})
	h := profiletest.New(t, b.Profile())
	wantAccepted(t, h.Serve(events.TypePublish, publish(record("a"))))
	x := h.Serve(events.TypeBatch, batch(record("b"), record("c"), record("d")))
	wantRefused(t, b.Profile(), x, profiles.RateLimitExceeded, "RATE_LIMIT_EXCEEDED")
	if err := x.Err(); !err.Retryable || !err.Pace || err.Detail != "store_quota" {
		t.Errorf("error %v, want it retryable, and for reasons of pace", err)
	}
	wantAccepted(t, h.Serve(events.TypePublish, publish(record("a")))) // it is there

	// With room the same batch is accepted, and what was there already stays once.
	store.update(func() { store.quota = 0 })
	wantAccepted(t, h.Serve(events.TypeBatch, batch(record("b"), record("c"), record("d"))))
	zero := uint64(0)
	if got := fmt.Sprint(next(t, b, b.Subscribe(nil, &zero))); got != "[a b c d]" {
		t.Errorf("events %s, want [a b c d]", got)
	}
}

// A producer sends events without waiting for each. If one cannot be stored, those behind it must not be stored
// before it.
func TestEventsBehindARefusedOneAreRefused(t *testing.T) {
	store, now := newMemory(t), time.Unix(1_700_000_000, 0)
	store.quota = 1
	b := newBus(t, events.Options{Store: store, Now: func() time.Time { return now }})
	h, other := profiletest.New(t, b.Profile()), profiletest.New(t, b.Profile())
	accept := func(h *profiletest.Harness, id string) {
		t.Helper()
		wantAccepted(t, h.Serve(events.TypePublish, publish(record(id))).Wait())
	}
	refuse := func(id, detail string) {
		t.Helper()
		x := h.Serve(events.TypePublish, publish(record(id))).Wait()
		wantRefused(t, b.Profile(), x, profiles.RateLimitExceeded, "RATE_LIMIT_EXCEEDED")
		if err := x.Err(); err.Detail != detail || !err.Retryable {
			t.Errorf("%s: %v, want %s, retryable", id, err, detail)
		}
	}
	accept(h, "a")
	refuse("b", "store_quota")
	store.update(func() { store.quota = 0 })
	refuse("c", events.DetailHeld)
	accept(other, "of another stream")
	accept(h, "a") // it begins again
	accept(h, "b")
	accept(h, "c")

	store.update(func() { store.quota = 1 })
	refuse("d", "store_quota")
	store.update(func() { store.quota = 0 })
	refuse("e", events.DetailHeld)
	now = now.Add(2 * time.Second) // it has given d up
	accept(h, "e")
	zero := uint64(0)
	if got := fmt.Sprint(next(t, b, b.Subscribe(nil, &zero))); got != "[a of another stream b c e]" {
		t.Errorf("events %s", got)
	}
}

func TestPendingOctetsAreBounded(t *testing.T) {
	store := newMemory(t)
	r := record("a")
	m := events.Publish{Event: r}
	size := m.Size() - 4 // of the record alone
	b := newBus(t, events.Options{Store: store, PendingOctets: 8 * size})
	h := profiletest.New(t, b.Profile())
	resume := store.stall()
	defer resume()
	var waiting []*profiletest.Exchange
	for _, id := range []string{"a", "b", "c", "e", "f", "g", "h"} { // an eighth stays free
		waiting = append(waiting, h.Serve(events.TypePublish, publish(record(id))))
	}
	wantRefused(t, b.Profile(), h.Serve(events.TypePublish, publish(record("d"))), profiles.RateLimitExceeded, "RATE_LIMIT_EXCEEDED")
	resume()
	for _, x := range waiting {
		wantAccepted(t, x)
	}
	wantAccepted(t, h.Serve(events.TypePublish, publish(record("d"))))
}

func TestAnEventAboveTheBoundOfPendingOctetsIsAcceptedAlone(t *testing.T) {
	b := newBus(t, events.Options{Store: newMemory(t), PendingOctets: 1})
	h := profiletest.New(t, b.Profile())
	for _, id := range []string{"a", "b"} {
		wantAccepted(t, h.Serve(events.TypePublish, publish(record(id))).Wait())
	}
}

// The events that wait to be stored have one bound for all producers.
func TestRS32EventsOfOneProducerLeaveRoomForAnother(t *testing.T) {
	m := events.Publish{Event: record("00000")}
	size := m.Size() - 4
	fairtest.Places(t, "events: octets that wait", "events of 16", func(t *testing.T) (func(string) bool, func(string)) {
		slow := &slowly{waits: make(map[string][]func(store.AppendResult))}
		b := newBus(t, events.Options{Store: slow, PendingOctets: 16 * size})
		n := 0
		take := func(who string) bool {
			n++
			before := len(slow.waits[who])
			x := profiletest.NewAs(t, b.Profile(), who).Serve(events.TypePublish, publish(record(fmt.Sprintf("%05d", n))))
			if len(slow.waits[who]) > before {
				return true
			}
			wantRefused(t, b.Profile(), x, profiles.RateLimitExceeded, "RATE_LIMIT_EXCEEDED")
			return false
		}
		return take, func(who string) {
			done := slow.waits[who][0]
			slow.waits[who] = slow.waits[who][1:]
			done(store.AppendResult{Err: errors.New("given up")})
		}
	})
}

// slowly is a store of events that stores nothing until the test says so.
type slowly struct {
	events.Store
	waits map[string][]func(store.AppendResult) // by owner
}

func (s *slowly) Span(context.Context, string, string) (first, last uint64, err error) {
	return 1, 0, nil
}

func (s *slowly) Append(_, _, _, owner string, _ []byte, _ time.Time, done func(store.AppendResult)) {
	s.waits[owner] = append(s.waits[owner], done)
}

// The disk stalls: nothing is acknowledged meanwhile, publishers are not read,
// so that what they hold stays with them, and afterwards everything happens
// once.
func TestST06StalledStoreHoldsUpPublishers(t *testing.T) {
	effort.Unwatched(t)
	synctest.Test(t, func(t *testing.T) {
		const total, deferred = 2000, 100
		store := newMemory(t)
		s := serve(t, "pipe", events.Options{Store: store}, endpoint.Bounds{Deferred: deferred})
		feed := s.bus.Subscribe(nil, nil)
		resume := store.stall()
		p := s.dial("spiffe://test.invalid/producer")
		pub := p.publisher(t)
		defer pub.Close()
		large := strings.Repeat("x", 16<<10)
		done := make(chan error, 1)
		sent := 0
		go func() {
			for i := range total {
				r := record(fmt.Sprint(i))
				r.Body = []byte(large)
				err := pub.Publish(context.Background(), &r)
				if errors.Is(err, events.ErrUnconfirmed) {
					if err = pub.Sync(context.Background()); err == nil {
						err = pub.Publish(context.Background(), &r)
					}
				}
				if err != nil {
					done <- err
					return
				}
				sent = i + 1
			}
			done <- pub.Sync(context.Background())
		}()
		synctest.Wait()
		if len(store.work) > deferred || sent == total {
			t.Errorf("%d events wait for the store and %d of %d were sent, want %d at most and the others held up", len(store.work), sent, total, deferred)
		}
		if pub.Confirmed() != 0 {
			t.Errorf("%d events confirmed by a store that stands still", pub.Confirmed())
		}
		resume()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if pub.Confirmed() != total || store.writes != total {
			t.Errorf("%d confirmed, %d stored, want %d", pub.Confirmed(), store.writes, total)
		}
		got := next(t, s.bus, feed)
		for i, id := range got {
			if id != fmt.Sprint(i) {
				t.Fatalf("event %d is %s", i, id)
			}
		}
		if len(got) != total {
			t.Errorf("%d events, want %d", len(got), total)
		}
	})
}

func TestRefusedEventIsToldByTheNextSync(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		store := newMemory(t)
		store.quota = 3
		s := serve(t, kind, events.Options{Store: store}, endpoint.Bounds{})
		p := s.dial("spiffe://test.invalid/producer")
		pub := p.publisher(t)
		defer pub.Close()
		for _, id := range ids(5) {
			r := record(id)
			if err := pub.Publish(t.Context(), &r); err != nil {
				t.Fatal(err)
			}
		}
		err := pub.Sync(t.Context())
		wantPeerError(t, err, "RATE_LIMIT_EXCEEDED")
		if fault := (*profiles.PeerError)(nil); errors.As(err, &fault) && !fault.Retryable() {
			t.Errorf("%v is not retryable", fault)
		}
		if pub.Confirmed() != 3 {
			t.Errorf("%d confirmed, want 3", pub.Confirmed())
		}
		r := record("more")
		wantPeerError(t, pub.Publish(t.Context(), &r), "RATE_LIMIT_EXCEEDED")
	})
}

func TestLostConfirmationConfirmsNothing(t *testing.T) {
	store := newMemory(t)
	s := serve(t, "tls", events.Options{Store: store}, endpoint.Bounds{})
	p := s.dial("spiffe://test.invalid/producer")
	pub := p.publisher(t)
	defer pub.Close()
	r := record("a")
	if err := pub.Publish(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	p.Close(profiles.OK)
	if err := pub.Sync(t.Context()); err == nil || pub.Confirmed() != 0 {
		t.Errorf("error %v, %d confirmed after the connection is gone", err, pub.Confirmed())
	}
}

func TestPublisherHasToConfirm(t *testing.T) {
	s := serve(t, "pipe", events.Options{}, endpoint.Bounds{})
	pub := s.dial("spiffe://test.invalid/producer").publisher(t)
	defer pub.Close()
	for i := range events.MaxUnconfirmed + 1 {
		r := record(fmt.Sprint(i))
		if err := pub.Publish(t.Context(), &r); errors.Is(err, events.ErrUnconfirmed) != (i == events.MaxUnconfirmed) {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if err := pub.Sync(t.Context()); err != nil || pub.Confirmed() != events.MaxUnconfirmed {
		t.Errorf("error %v, %d confirmed", err, pub.Confirmed())
	}
}

func TestPublishersAtOnce(t *testing.T) {
	each(t, func(t *testing.T, opts events.Options) {
		b := newBus(t, opts)
		feed := b.Subscribe(nil, nil)
		var publishing sync.WaitGroup
		for p := range 8 {
			publishing.Go(func() {
				for i := range 200 {
					r := record(fmt.Sprintf("%d.%d", p, i))
					if err := b.Publish(t.Context(), fmt.Sprint(p), &r); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		publishing.Wait()
		last := map[byte]int{}
		got := next(t, b, feed)
		for _, id := range got {
			var n int
			if _, err := fmt.Sscanf(id[2:], "%d", &n); err != nil || n != last[id[0]] {
				t.Fatalf("event %s after %d", id, last[id[0]])
			}
			last[id[0]]++
		}
		if len(got) != 1600 {
			t.Errorf("%d events, want 1600", len(got))
		}
	})
}
