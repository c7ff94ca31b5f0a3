package events_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/endpoint/endpointtest"
)

func TestCursorSaysWhereToStart(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		store := newMemory(t)
		s := serve(t, kind, events.Options{Store: store}, endpoint.Bounds{})
		s.dial(producer).publish(t, ids(10)...)
		p := s.dial(subscriber)
		for _, after := range []uint64{0, 4, 9, 10} {
			sub := p.subscribe(t, events.SubscribeOptions{After: &after})
			if sub.Start() != after {
				t.Errorf("starts after %d, want %d", sub.Start(), after)
			}
			receive(t, sub, ids(10)[after:]...)
			sub.Close()
		}
		eleven := uint64(11)
		p.failOpen(t, events.SubscribeOptions{After: &eleven}, events.CodeInvalidCursor)

		// What is no longer held is told, not skipped in silence.
		store.forget(6)
		for after, start := range map[uint64]uint64{0: 6, 5: 6, 6: 6, 7: 7} {
			sub := p.subscribe(t, events.SubscribeOptions{After: &after})
			if sub.Start() != start {
				t.Errorf("after %d: starts after %d, want %d", after, sub.Start(), start)
			}
			sub.Close()
		}
		store.forget(10)
		zero := uint64(0)
		sub := p.subscribe(t, events.SubscribeOptions{After: &zero})
		if sub.Start() != 10 {
			t.Errorf("starts after %d, want 10", sub.Start())
		}
		s.dial(producer).publish(t, "more")
		if cursor := receive(t, sub, "more"); cursor != 11 {
			t.Errorf("cursor %d, want 11", cursor)
		}
	})
}

func TestNamedSubscriptionGoesOn(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		store := newMemory(t)
		named := events.SubscribeOptions{Name: "n"}
		s := serve(t, kind, events.Options{Store: store}, endpoint.Bounds{})
		s.dial(producer).publish(t, "before")
		sub := s.dial(subscriber).subscribe(t, named)
		if sub.Start() != 1 {
			t.Errorf("a new name starts after %d, want the present", sub.Start())
		}
		sub.Close()
		s.dial(producer).publish(t, "a", "b")

		// Where nothing was confirmed, everything comes again.
		sub = s.dial(subscriber).subscribe(t, named)
		cursor := receive(t, sub, "a", "b")
		sub.Close()
		sub = s.dial(subscriber).subscribe(t, named)
		receive(t, sub, "a", "b")
		sub.Close()

		// A cursor confirms; then the name alone goes on after it, also after a
		// restart.
		sub = s.dial(subscriber).subscribe(t, events.SubscribeOptions{Name: "n", After: &cursor})
		sub.Close()
		s.dial(producer).publish(t, "c")
		s = serve(t, kind, events.Options{Store: store}, endpoint.Bounds{})
		sub = s.dial(subscriber).subscribe(t, named)
		receive(t, sub, "c")
		sub.Close()

		// The same name of another identity is another one.
		other := s.dial("spiffe://test.invalid/other").subscribe(t, named)
		s.dial(producer).publish(t, "d")
		receive(t, other, "d")

		// A forgotten name is new again.
		p := s.dial(subscriber)
		sub, err := events.Open(t.Context(), oneLane{p, p.lane(t)}, named)
		if err != nil {
			t.Fatal(err)
		}
		receive(t, sub, "c", "d")
		sub.Forget()
		if err := endpointtest.CallSync(t.Context(), p.lane(t)); err != nil {
			t.Fatal(err)
		}
		store.update(func() {
			if len(store.records) != 1 {
				t.Errorf("%d names are stored, want that of the other identity", len(store.records))
			}
		})
	})
}

func TestNameWithoutItsPlaceIsToldTheGap(t *testing.T) {
	store := newMemory(t)
	s := serve(t, "pipe", events.Options{Store: store}, endpoint.Bounds{})
	p := s.dial(subscriber)
	p.subscribe(t, events.SubscribeOptions{Name: "n"}).Close()
	s.dial(producer).publish(t, ids(5)...)
	store.forget(3)
	p.failOpen(t, events.SubscribeOptions{Name: "n"}, events.CodeGap)
	p.failOpen(t, events.SubscribeOptions{Name: "n"}, events.CodeGap) // until the subscriber decides
	zero := uint64(0)
	sub := p.subscribe(t, events.SubscribeOptions{Name: "n", After: &zero})
	if sub.Start() != 3 {
		t.Errorf("starts after %d, want 3", sub.Start())
	}
	receive(t, sub, "e3", "e4")
	sub.Close()
	p.subscribe(t, events.SubscribeOptions{Name: "n"}).Close()
}

// A repair of a damaged store leaves out events in the middle and at the end.
func TestST04ReadersAreToldAHoleAndPassIt(t *testing.T) {
	store := newMemory(t)
	s := serve(t, "pipe", events.Options{Store: store}, endpoint.Bounds{})
	s.dial(producer).publish(t, ids(10)...)
	p := s.dial(subscriber)
	three := uint64(3)
	p.subscribe(t, events.SubscribeOptions{Name: "n", After: &three}).Close()

	store.lose(4, 5, 9, 10)
	s = serve(t, "pipe", events.Options{Store: store}, endpoint.Bounds{}) // as after a restart: nothing is in memory
	p = s.dial(subscriber)
	for after, start := range map[uint64]uint64{0: 0, 2: 2, 3: 5, 4: 5, 5: 5, 6: 6, 8: 10, 9: 10, 10: 10} {
		sub := p.subscribe(t, events.SubscribeOptions{After: &after})
		if sub.Start() != start {
			t.Errorf("after %d: starts after %d, want %d", after, sub.Start(), start)
		}
		sub.Close()
	}

	// One that meets the hole on its way goes on after it.
	var got []string
	var jumps []uint64
	for after, last := uint64(0), uint64(0); last < 10; {
		sub := p.subscribe(t, events.SubscribeOptions{After: &after})
		if sub.Start() > after {
			jumps = append(jumps, after, sub.Start())
			after = sub.Start()
		}
		for last = after; last < 10; last = after {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			d, err := sub.Recv(ctx)
			cancel()
			if refused, ok := errors.AsType[*profiles.PeerError](err); ok && refused.Code == events.CodeSlowConsumer && refused.Retryable() {
				break
			}
			if err != nil {
				t.Fatalf("after %d: %v", after, err)
			}
			for _, e := range d.Events {
				got = append(got, string(e.EventID))
			}
			after = d.Cursor
		}
		sub.Close()
	}
	if want := []string{"e0", "e1", "e2", "e5", "e6", "e7"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := []uint64{3, 5, 8, 10}; !slices.Equal(jumps, want) {
		t.Errorf("told the jumps %v, want %v", jumps, want)
	}

	// So does one of this process.
	feed := s.bus.Subscribe(nil, &three)
	if d, err := feed.Recv(t.Context()); err == nil {
		t.Errorf("the hole is passed over in silence: %+v", d)
	}
	if d, err := feed.Recv(t.Context()); err != nil || len(d.Events) == 0 || string(d.Events[0].EventID) != "e5" {
		t.Errorf("after the hole: %+v, %v", d, err)
	}

	// A name has no cursor to jump from: its subscriber decides.
	p.failOpen(t, events.SubscribeOptions{Name: "n"}, events.CodeGap)
	sub := p.subscribe(t, events.SubscribeOptions{Name: "n", After: &three})
	receive(t, sub, "e5", "e6", "e7")
	sub.Close()
	ten := uint64(10)
	sub = p.subscribe(t, events.SubscribeOptions{Name: "n", After: &ten})
	s.dial(producer).publish(t, "more")
	receive(t, sub, "more")
}

func TestNewestSubscriptionOfANameTakesOver(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		s := serve(t, kind, events.Options{Store: newMemory(t)}, endpoint.Bounds{})
		named := events.SubscribeOptions{Name: "n"}
		older := s.dial(subscriber).subscribe(t, named)
		other := s.dial("spiffe://test.invalid/other").subscribe(t, named)
		newer := s.dial(subscriber).subscribe(t, named)
		_, err := older.Recv(t.Context())
		wantPeerError(t, err, events.CodeReplaced)
		s.dial(producer).publish(t, "a")
		receive(t, newer, "a")
		receive(t, other, "a")
	})
}

func TestNamesAreBounded(t *testing.T) {
	s := serve(t, "pipe", events.Options{Store: newMemory(t), Names: 3}, endpoint.Bounds{})
	p := s.dial(subscriber)
	for _, name := range []string{"a", "b", strings.Repeat("c", 64)} {
		p.subscribe(t, events.SubscribeOptions{Name: name}).Close()
	}
	p.failOpen(t, events.SubscribeOptions{Name: "d"}, "RATE_LIMIT_EXCEEDED")
	p.failOpen(t, events.SubscribeOptions{Name: strings.Repeat("c", 65)}, "INVALID_PROFILE_PAYLOAD")
	s.dial("spiffe://test.invalid/other").subscribe(t, events.SubscribeOptions{Name: "d"})
	sub := p.subscribe(t, events.SubscribeOptions{Name: "a"})
	sub.Forget()
	if err := endpointtest.CallSync(t.Context(), p.lane(t)); err != nil {
		t.Fatal(err)
	}
	p.subscribe(t, events.SubscribeOptions{Name: "d"})
}

func TestNamesAreBoundedWhenTheyComeAtOnce(t *testing.T) {
	s := serve(t, "pipe", events.Options{Store: newMemory(t), Names: 3}, endpoint.Bounds{})
	p := s.dial(subscriber)
	var named atomic.Int64
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			sub, err := events.Open(t.Context(), p, events.SubscribeOptions{Name: fmt.Sprint(i)})
			if err == nil {
				named.Add(1)
				sub.Close()
			}
		})
	}
	all.Wait()
	if n := named.Load(); n != 3 {
		t.Errorf("%d names, want 3", n)
	}
}

func TestLiveEventsHaveNoCursor(t *testing.T) {
	s := serve(t, "pipe", events.Options{}, endpoint.Bounds{})
	p := s.dial(subscriber)
	one := uint64(1)
	p.failOpen(t, events.SubscribeOptions{Name: "n"}, events.CodeNotDurable)
	p.failOpen(t, events.SubscribeOptions{After: &one}, events.CodeNotDurable)
}

func TestBrokenExtensionsAreRefused(t *testing.T) {
	b := newBus(t, events.Options{Store: newMemory(t)})
	h := profiletest.New(t, b.Profile())
	for name, ext := range map[string]e1.Extensions{
		"empty name":     e1.AppendExtension(nil, events.ExtSubscription, nil),
		"long name":      e1.AppendExtension(nil, events.ExtSubscription, make([]byte, 65)),
		"empty cursor":   e1.AppendExtension(nil, events.ExtCursor, nil),
		"cursor, longer": e1.AppendExtension(nil, events.ExtCursor, []byte{1, 2}),
	} {
		t.Run(name, func(t *testing.T) {
			wantRefused(t, b.Profile(), h.Serve(events.TypeSubscribe, subscribe(""), ext...), profiles.InvalidProfilePayload, "INVALID_PROFILE_PAYLOAD")
		})
	}
}

// While delivery is slower than events expire, the subscription ends rather
// than to leave some out.
func TestSubscriptionThatLosesItsPlaceIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(t)
		b := newBus(t, events.Options{Store: store, TailEntries: 1})
		feed := b.Subscribe(nil, nil)
		for i := range 10 {
			r := record(fmt.Sprint(i))
			if err := b.Publish(t.Context(), "me", &r); err != nil {
				t.Fatal(err)
			}
		}
		store.forget(5)
		if d, err := feed.Recv(t.Context()); err == nil || profiles.AsError(err).Detail != events.DetailSlow {
			t.Errorf("%d events, error %v, want it cut off", len(d.Events), err)
		}
		store.forget(10) // nothing at all is left where something is due
		nine := uint64(9)
		r := record("more")
		if err := b.Publish(t.Context(), "me", &r); err != nil {
			t.Fatal(err)
		}
		if d, err := b.Subscribe(nil, &nine).Recv(t.Context()); err == nil || profiles.AsError(err).Detail != events.DetailSlow {
			t.Errorf("%d events, error %v, want it cut off", len(d.Events), err)
		}
	})
}

func TestPR07NothingIsLostOverReconnections(t *testing.T) {
	total := effort.Rounds(5_000)
	if effort.Long() {
		total = 100_000
	}
	for _, kind := range []string{"pipe", "tls", "quic"} {
		t.Run(kind, func(t *testing.T) {
			soak(t, serve(t, kind, events.Options{Store: newMemory(t), TailEntries: 256}, endpoint.Bounds{}), total)
		})
	}
}

// soak has 10 producers publish while a subscriber reconnects up to 50 times, each
// time in the middle of what it is sent.
func soak(t *testing.T, s *server, total int) {
	const producers = 10
	reconnections := effort.Rounds(50)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	zero := uint64(0)
	sub := s.dial(subscriber).subscribe(t, events.SubscribeOptions{Name: "soak", After: &zero})

	var publishing sync.WaitGroup
	for p := range producers {
		publishing.Go(func() { produce(ctx, t, s, p, total/producers) })
	}
	defer publishing.Wait()

	var (
		r      = rand.New(rand.NewPCG(7, 7))
		last   [producers]int // events had of each producer
		cursor uint64
		peer   *peer
	)
	got, again, part := 0, 0, 0
	for got < total {
		d, err := sub.Recv(ctx)
		if err != nil {
			t.Fatalf("after %d of %d events: %v", got, total, err)
		}
		for i := range d.Events {
			var p, n int
			if _, err := fmt.Sscanf(string(d.Events[i].EventID), "%d.%d", &p, &n); err != nil {
				t.Fatal(err)
			}
			if n != last[p] {
				t.Fatalf("producer %d: event %d after %d", p, n, last[p]-1)
			}
			last[p]++
			got++
		}
		cursor = d.Cursor
		if part < reconnections && got >= part*total/(reconnections+10) {
			part++
			if peer != nil {
				peer.leave() // hangs up, whatever is under way
			}
			peer = s.dial(subscriber)
			after := &cursor
			if r.IntN(3) == 0 { // the name knows, if it was told
				confirm := s.dial(subscriber)
				confirm.subscribe(t, events.SubscribeOptions{Name: "soak", After: &cursor}).Close()
				confirm.leave()
				after = nil
				again++
			}
			sub = peer.subscribe(t, events.SubscribeOptions{Name: "soak", After: after})
		}
	}
	if part != reconnections {
		t.Errorf("%d reconnections, want %d", part, reconnections)
	}
	t.Logf("%d events, %d reconnections, %d of them by name alone", got, part, again)
}

// produce publishes n events of one producer, some of them twice.
func produce(ctx context.Context, t *testing.T, s *server, p, n int) {
	peer := s.dial(fmt.Sprintf("%s%d", producer, p))
	pub := peer.publisher(t)
	defer pub.Close()
	body := make([]byte, 4<<10) // so that a batch is 64 events at most
	for i := range n {
		r := record(fmt.Sprintf("%d.%d", p, i))
		r.Body = body
		for range 1 + i%7/6 {
			if err := pub.Publish(ctx, &r); err != nil {
				t.Error(err)
				return
			}
		}
		if i%400 == 399 || i == n-1 {
			if err := pub.Sync(ctx); err != nil {
				t.Error(err)
				return
			}
		}
	}
}
