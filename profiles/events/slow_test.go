package events_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// A peer that does not read: it is closed when a write takes too long, and
// publishers never notice.
func TestRS05PeerThatDoesNotReadIsClosed(t *testing.T) {
	effort.Unwatched(t)
	each(t, func(t *testing.T, opts events.Options) {
		synctest.Test(t, func(t *testing.T) {
			if opts.Store != nil {
				opts.Store = newMemory(t)
			}
			s := serve(t, "pipe", opts, endpoint.Bounds{})
			deaf := s.reach.Connect(subscriber)
			defer func() { _ = deaf.Close(0) }()
			stream, err := deaf.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			raw := transporttest.RawOn(t, deaf, stream)
			env := e1.Envelope{Version: 1, ProfileID: events.ProfileID, MsgType: events.TypeSubscribe, MsgID: profiles.NewMsgID(), Payload: subscribe("")}
			raw.WriteFrame(env.Append(nil))
			good := s.dial(subscriber).subscribe(t, events.SubscribeOptions{})

			const total, size = 1600, 64 << 10 // 100 MiB
			start := time.Now()
			body := bytes.Repeat([]byte("x"), size)
			for i := range total {
				r := record(fmt.Sprint(i))
				r.Body = body
				if err := s.bus.Publish(t.Context(), "me", &r); err != nil {
					t.Fatal(err)
				}
				receive(t, good, fmt.Sprint(i))
			}
			if took := time.Since(start); took > 0 {
				t.Errorf("publishing took %v of virtual time, want no wait at all", took)
			}
			s.await(t, "the deaf peer is closed", func() bool { return len(s.closed) == 1 })
			if took := time.Since(start); took > 12*time.Second {
				t.Errorf("closed after %v, want the write deadline and a second at most", took)
			}
		})
	})
}

// A peer that reads too slowly, but reads: without a store it is cut off.
func TestSlowLiveSubscriptionIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, "pipe", events.Options{TailEntries: 16}, endpoint.Bounds{})
		deaf := s.reach.Connect(subscriber)
		defer func() { _ = deaf.Close(0) }()
		stream, err := deaf.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		raw := transporttest.RawOn(t, deaf, stream)
		id := profiles.NewMsgID()
		env := e1.Envelope{Version: 1, ProfileID: events.ProfileID, MsgType: events.TypeSubscribe, MsgID: id, Payload: subscribe("")}
		raw.WriteFrame(env.Append(nil))
		var got e1.Envelope
		limits := e1.Limits{}.WithDefaults()
		read := func() {
			t.Helper()
			if err := got.Decode(raw.ReadFrame(), &limits); err != nil || !bytes.Equal(got.MsgID, id) {
				t.Fatalf("msg_id %x, error %v, want %x", got.MsgID, err, id)
			}
		}
		read()
		if got.MsgType != events.TypeBatch || len(got.Payload) != 2 {
			t.Fatalf("type %d, payload %x, want an empty batch that confirms", got.MsgType, got.Payload)
		}
		body := bytes.Repeat([]byte("x"), 40<<10)
		for i := range 100 {
			r := record(fmt.Sprint(i))
			r.Body = body
			if err := s.bus.Publish(t.Context(), "me", &r); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		n := 0
		for read(); got.MsgType == events.TypeBatch; read() {
			var m events.Batch
			if err := m.Decode(got.Payload); err != nil {
				t.Fatal(err)
			}
			for _, r := range m.Events {
				if string(r.EventID) != fmt.Sprint(n) {
					t.Fatalf("event %s, want %d: none may be missing before the end", r.EventID, n)
				}
				n++
			}
		}
		var m events.Err
		if err := m.Decode(got.Payload); err != nil || string(m.Code) != events.CodeSlowConsumer || n == 100 {
			t.Errorf("EVT_ERR %q after %d of 100 events, error %v, want SLOW_CONSUMER", m.Code, n, err)
		}
		s.await(t, "verdict", func() bool { return s.details[events.DetailSlow] == 1 && s.codes[profiles.RateLimitExceeded] == 1 })
	})
}

func TestSlowDurableSubscriptionMissesNothing(t *testing.T) {
	store := newMemory(t)
	s := serve(t, "tls", events.Options{Store: store, TailEntries: 8, TailOctets: 4096}, endpoint.Bounds{})
	zero := uint64(0)
	want := ids(5000)
	publishing := make(chan error, 1)
	go func() {
		for _, id := range want {
			r := record(id)
			r.Body = bytes.Repeat([]byte("x"), 1000)
			if err := s.bus.Publish(context.Background(), "me", &r); err != nil {
				publishing <- err
				return
			}
		}
		publishing <- nil
	}()
	receive(t, s.dial(subscriber).subscribe(t, events.SubscribeOptions{After: &zero}), want...)
	if err := <-publishing; err != nil {
		t.Error(err)
	}
	// And one that begins when all is there.
	receive(t, s.dial(subscriber).subscribe(t, events.SubscribeOptions{After: &zero}), want...)
	if store.reads == 0 {
		t.Error("the store was never read")
	}
}

// A program that does not receive what its connection brings loses its
// subscription, and can go on where it was.
func TestSubscriptionThatIsNotReceivedGoesOnByCursor(t *testing.T) {
	effort.Unwatched(t)
	for _, kind := range []string{"mux", "tls"} {
		s := serve(t, kind, events.Options{Store: newMemory(t)}, endpoint.Bounds{})
		p := s.dial(subscriber)
		sub := p.subscribe(t, events.SubscribeOptions{})
		want := ids(2000)
		for _, id := range want {
			r := record(id)
			r.Body = bytes.Repeat([]byte("x"), 16<<10)
			if err := s.bus.Publish(t.Context(), "me", &r); err != nil {
				t.Fatal(err)
			}
		}
		for got, cursor := 0, uint64(0); got < len(want); {
			d, err := sub.Recv(t.Context())
			if err != nil {
				if code := profiles.AsError(err).Code; code != profiles.RateLimitExceeded {
					t.Fatal(err)
				}
				sub.Close()
				sub = p.subscribe(t, events.SubscribeOptions{After: &cursor})
				if sub.Start() != cursor {
					t.Fatalf("starts after %d, want %d", sub.Start(), cursor)
				}
				continue
			}
			for i := range d.Events {
				if string(d.Events[i].EventID) != want[got] {
					t.Fatalf("event %s, want %s", d.Events[i].EventID, want[got])
				}
				got++
			}
			cursor = d.Cursor
		}
	}
}

func TestLargestEventIsDelivered(t *testing.T) {
	effort.Unwatched(t)
	s := serve(t, "tls", events.Options{Store: newMemory(t)}, endpoint.Bounds{})
	sub := s.dial(subscriber).subscribe(t, events.SubscribeOptions{})
	r := record("large")
	m := events.Publish{Event: r}
	r.Body = bytes.Repeat([]byte("x"), e1.DefaultMaxPayload-m.Size()-9)
	pub := s.dial(producer).publisher(t)
	defer pub.Close()
	m.Event = r
	if over := e1.DefaultMaxPayload - m.Size(); over < 0 || over > 16 {
		t.Fatalf("payload %d octets below the limit", over)
	}
	if err := pub.Publish(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	if err := pub.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	receive(t, sub, "large")
}

func TestRS27PeersThatDoNotReadLeaveRoomForLargeEventsOfAnother(t *testing.T) {
	effort.Unwatched(t)
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, "pipe", events.Options{Store: newMemory(t), TailEntries: 1}, endpoint.Bounds{})
		for range 20 { // more than the slots for large events
			deaf := s.reach.Connect("spiffe://test.invalid/mallory")
			defer func() { _ = deaf.Close(0) }()
			stream, err := deaf.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			raw := transporttest.RawOn(t, deaf, stream)
			env := e1.Envelope{Version: 1, ProfileID: events.ProfileID, MsgType: events.TypeSubscribe, MsgID: profiles.NewMsgID(), Payload: subscribe("")}
			raw.WriteFrame(env.Append(nil))
		}
		good := s.dial(subscriber).subscribe(t, events.SubscribeOptions{})
		synctest.Wait()
		start := time.Now()
		for round := range 20 {
			for i := range 3 { // of which the tail has one
				r := record(fmt.Sprint(3*round + i))
				r.Body = bytes.Repeat([]byte("x"), 1<<20)
				if err := s.bus.Publish(t.Context(), "me", &r); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 3 {
				receive(t, good, fmt.Sprint(3*round+i))
			}
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("the events arrive after %v of virtual time, want them at once", took)
		}
	})
}
