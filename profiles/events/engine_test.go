package events_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport/endpoint"
)

// The tests of this file run on the embedded engine.

func open(t testing.TB, o sqlstore.Options) *sqlstore.Store {
	t.Helper()
	engine, err := sqlstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	return engine
}

func TestRestartKeepsEventsNamesAndDuplicates(t *testing.T) {
	for _, kind := range []string{"tls", "quic"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			var cursor uint64
			want := []string{}
			for run := range 3 {
				engine := open(t, sqlstore.Options{Dir: dir})
				s := serve(t, kind, events.Options{Store: engine, TailEntries: 2}, endpoint.Bounds{})
				name := events.SubscribeOptions{Name: "n"}
				if run == 0 {
					name.After = &cursor
				}
				named := s.dial(subscriber).subscribe(t, name)
				s.dial(producer).publish(t, ids(100*(run+1))...) // those of the runs before again
				for i := 100 * run; i < 100*(run+1); i++ {
					want = append(want, fmt.Sprint("e", i))
				}
				cursor = receive(t, named, want...) // nothing was confirmed
				if cursor != uint64(len(want)) {
					t.Errorf("cursor %d after %d events", cursor, len(want))
				}
				other := record("e0")
				other.Body = []byte("another")
				pub := s.dial(producer).publisher(t)
				if err := errors.Join(pub.Publish(t.Context(), &other), pub.Sync(t.Context())); err == nil {
					t.Error("another event under a used event_id was accepted")
				}
				pub.Close()
				_ = s.ep.Close()
				s.bus.Close()
				if err := engine.Close(); err != nil {
					t.Fatal(err)
				}
				r := record("late")
				if err := s.bus.Publish(t.Context(), "me", &r); err == nil {
					t.Error("published after the end")
				}
			}
		})
	}
}

func TestQuotaOfAnIdentityIsItsOwn(t *testing.T) {
	b := newBus(t, events.Options{Store: open(t, sqlstore.Options{Limits: store.Limits{QuotaPerOwner: 64 << 10}})})
	h := profiletest.New(t, b.Profile())
	n := 0
	for ; n < 1000; n++ {
		r := record(fmt.Sprint("e", n))
		r.Body = make([]byte, 1024)
		if x := h.Serve(events.TypePublish, publish(r)).Wait(); x.Err() != nil {
			wantRefused(t, b.Profile(), x, profiles.RateLimitExceeded, "RATE_LIMIT_EXCEEDED")
			break
		}
	}
	if n < 10 || n > 64 {
		t.Errorf("%d events of a KiB in a quota of 64", n)
	}
	r := record("e0")
	if err := b.Publish(t.Context(), "spiffe://test.invalid/other", &r); err != nil {
		t.Errorf("the quota of another identity: %v", err)
	}
	zero := uint64(0)
	if got := len(next(t, b, b.Subscribe(nil, &zero))); got != n+1 {
		t.Errorf("%d events are there, want the %d that were accepted", got, n+1)
	}
}

func TestRetentionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := open(t, sqlstore.Options{})
		defer engine.Close()
		s := serve(t, "pipe", events.Options{Store: engine, Retention: time.Hour, TailEntries: 1}, endpoint.Bounds{})
		zero := uint64(0)
		s.dial(producer).publish(t, "a", "b")
		time.Sleep(59 * time.Minute)
		s.dial(producer).publish(t, "c")
		sub := s.dial(subscriber).subscribe(t, events.SubscribeOptions{After: &zero})
		receive(t, sub, "a", "b", "c")
		sub.Close()
		time.Sleep(2 * time.Minute)
		sub = s.dial(subscriber).subscribe(t, events.SubscribeOptions{After: &zero})
		if sub.Start() != 2 {
			t.Errorf("starts after %d, want 2: the others have expired", sub.Start())
		}
		receive(t, sub, "c")
		sub.Close()
		time.Sleep(time.Hour)
		s.dial(producer).publish(t, "a") // an event_id is free again with its event
		sub = s.dial(subscriber).subscribe(t, events.SubscribeOptions{After: &zero})
		if got := receive(t, sub, "a"); sub.Start() != 3 || got != 4 {
			t.Errorf("starts after %d, cursor %d, want 3 and 4", sub.Start(), got)
		}
		sub.Close()
	})
}

func TestHowLongEventsAreStoredChangesForLaterEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := open(t, sqlstore.Options{})
		defer engine.Close()
		s := serve(t, "pipe", events.Options{Store: engine, Retention: 2 * time.Hour, TailEntries: 1}, endpoint.Bounds{})
		s.dial(producer).publish(t, "a")
		s.bus.SetRetention(10 * time.Hour)
		s.dial(producer).publish(t, "b", "c")
		time.Sleep(3 * time.Hour)
		zero := uint64(0)
		sub := s.dial(subscriber).subscribe(t, events.SubscribeOptions{After: &zero})
		receive(t, sub, "b", "c")
		sub.Close()
	})
}

func TestLargeEventsOutOfTheStoreKeepTheirPlace(t *testing.T) {
	effort.Unwatched(t)
	engine := open(t, sqlstore.Options{Dir: t.TempDir()})
	s := serve(t, "tls", events.Options{Store: engine, TailEntries: 1}, endpoint.Bounds{})
	sizes := []int{10, 60 << 10, 2 << 20, 10, 10, 64 << 10, 65 << 10, 3 << 20, 10}
	var want []string
	for i, size := range sizes {
		r := record(fmt.Sprint(i))
		r.Body = make([]byte, size)
		if err := s.bus.Publish(t.Context(), "me", &r); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprint(i))
	}
	zero := uint64(0)
	p := s.dial(subscriber)
	for range 3 {
		receive(t, p.subscribe(t, events.SubscribeOptions{After: &zero}), want...)
	}
	if got := fmt.Sprint(next(t, s.bus, s.bus.Subscribe(nil, &zero))); got != fmt.Sprint(want) {
		t.Errorf("events %s, want %v", got, want)
	}
}

func TestRS08NothingGrowsWithWhatPeersChoose(t *testing.T) {
	effort.Unwatched(t)
	total := 20_000
	if effort.Long() {
		total = 200_000
	}
	b := newBus(t, events.Options{TailEntries: 1000})
	h := profiletest.New(t, b.Profile())
	h.Serve(events.TypeSubscribe, subscribe("type:none"))
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			r := record(fmt.Sprint("id", i))
			r.EventType = []byte(fmt.Sprint("type", i))
			if err := b.Publish(t.Context(), fmt.Sprint("spiffe://test.invalid/", i%5000), &r); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(0, total/2)
	before := heap()
	fill(total/2, total)
	if after := heap(); after > before+4<<20 {
		t.Errorf("%d octets more in use after %d more events, want no growth", after-before, total/2)
	}
}

func TestTypesAreThoseOfTheLastEvents(t *testing.T) {
	engine := open(t, sqlstore.Options{})
	if types, err := events.Types(t.Context(), engine, "b/", 3); err != nil || len(types) > 0 {
		t.Errorf("types %q of no events, %v", types, err)
	}
	s := serve(t, "tls", events.Options{Store: engine}, endpoint.Bounds{})
	pub := s.dial(producer).publisher(t)
	for i, kind := range []string{"b/first", "b/second", "b/second", "bb/third"} {
		r := record(fmt.Sprint("e", i))
		r.EventType = []byte(kind)
		if err := pub.Publish(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
	}
	if err := pub.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]string{3: "[b/second]", 4: "[b/first b/second]"} {
		if types, err := events.Types(t.Context(), engine, "b/", most); err != nil || fmt.Sprint(types) != want {
			t.Errorf("of the last %d events: %q, %v, want %s", most, types, err, want)
		}
	}
}
