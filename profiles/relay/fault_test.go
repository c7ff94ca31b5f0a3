package relay_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport/endpoint"
)

// TestPR15WhatIsNeverProcessedDies has a consumer that refuses, one that does not
// answer, and one that dies between delivery and answer.
func TestPR15WhatIsNeverProcessedDies(t *testing.T) {
	for name, answer := range map[string]func(s *server, r *raw, a *arrival) (next *raw){
		"refuses": func(_ *server, r *raw, a *arrival) *raw {
			m := relay.Nack{DeliveryID: a.publish.DeliveryID, Retryable: true, Reason: []byte("busy")}
			env := a.env
			env.MsgType, env.Payload = relay.TypeNack, m.Append(nil)
			if err := a.w.Finish(env); err != nil {
				t.Error(err)
			}
			return r
		},
		"is silent": func(_ *server, r *raw, _ *arrival) *raw { return r },
		"dies": func(s *server, r *raw, _ *arrival) *raw {
			r.leave()
			return s.rawConsumer(consumer, "orders", 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, "pipe", relay.Options{Jitter: 0.2})
				heard := newNotices(true)
				p := s.dialWith(publisher, relay.Options{Notice: heard.notice})
				r := s.rawConsumer(consumer, "orders", 0)
				p.publish("orders", "id")
				var made []time.Time
				for range 20 * 60 { // in steps of half a second, for ten minutes
					synctest.Wait()
					for _, a := range r.take() {
						made = append(made, a.at)
						r = answer(s, r, &a)
					}
					time.Sleep(time.Second / 2)
				}
				const attempts = 5
				if len(made) != attempts {
					t.Fatalf("%d attempts, want %d", len(made), attempts)
				}
				took := time.Duration(0)
				if name == "is silent" {
					took = 30 * time.Second
				}
				for i := 1; i < attempts; i++ {
					pause := made[i].Sub(made[i-1]) - took
					if least := time.Second << (i - 1); pause < least || pause > least*6/5+time.Second/2 {
						t.Errorf("pause %d is %v, want %v and up to a fifth more", i, pause, least)
					}
				}
				if list := heard.all(); len(list) != 1 || list[0].Reason != relay.MaxAttempts {
					t.Errorf("notices %+v, want one of %s", list, relay.MaxAttempts)
				}
				p.wantStatus("id", relay.DeadState, attempts)
			})
		})
	}
}

// A consumer holds eight deliveries, works on one after the other, and ends with one of them
// each time.
func TestPR15ALostConsumerCountsForTheDeliveryThatItWorkedOn(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		const tries = 3
		s := serve(t, kind, relay.Options{MaxAttempts: tries})
		heard := newNotices(true)
		p := s.dialWith(publisher, relay.Options{Notice: heard.notice})
		held := []string{"poison", "b", "c", "d", "e", "f", "g", "h"}
		for _, id := range held {
			p.publish("orders", id)
		}
		for try := range tries {
			gone := s.dial(consumer)
			c := gone.consume("orders", len(held))
			for {
				d, err := c.Recv(t.Context())
				if err != nil {
					t.Fatalf("try %d: %v", try, err)
				}
				if string(d.ID) == "poison" {
					break
				}
				ack(t, d)
			}
			synctest.Wait() // what is behind it has come, too
			gone.leave()
			time.Sleep(time.Minute) // longer than the pause
			synctest.Wait()
		}
		if list := heard.all(); len(list) != 1 || string(list[0].DeliveryID) != "poison" || list[0].Reason != relay.MaxAttempts {
			t.Errorf("dead: %+v, want the one that ended its consumers", list)
		}
		p.wantStatus("poison", relay.DeadState, tries)
		for _, id := range held[1:] {
			p.wantStatus(id, relay.Acked, 1)
		}
	})
}

// A consumer that does not answer is charged to one delivery at a time, because those behind
// it may not have been its turn.
func TestPR15SilenceCountsForOneDeliveryAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{MaxAttempts: 2, Backoff: time.Hour})
		p := s.dial(publisher)
		for _, id := range []string{"a", "b", "c"} {
			p.publish("orders", id)
		}
		c := s.dial(consumer).consume("orders", 3)
		receive(t, c, "a")
		time.Sleep(31 * time.Second) // the ack timeout
		synctest.Wait()
		p.wantStatus("a", relay.Retry, 2)
		p.wantStatus("b", relay.Queued, 1)
		p.wantStatus("c", relay.Queued, 1)
	})
}

// A consumer that has sent the end of its stream can answer nothing any more. It is detached,
// and what it did not get is not charged.
func TestPR15AConsumerThatCannotAnswerGetsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, "mux", relay.Options{Backoff: time.Hour})
		p := s.dial(publisher)
		for _, id := range []string{"a", "b", "c"} {
			p.publish("orders", id)
		}
		r := s.rawConsumer(consumer, "orders", 1)
		synctest.Wait()
		if err := r.lane.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.wantStatus("a", relay.Retry, 2)
		p.wantStatus("b", relay.Queued, 1)
		p.wantStatus("c", relay.Queued, 1)
		if _, err := r.stream.Recv(t.Context()); !errors.Is(err, endpoint.ErrNoAnswer) {
			t.Errorf("the attachment ended with %v", err)
		}
		next := s.dial(consumer).consume("orders", 2)
		receive(t, next, "b")
		receive(t, next, "c")
	})
}

// take returns what came since the last time.
func (r *raw) take() (list []arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, r.arrivals = r.arrivals, nil
	return list
}

// TestPR16OneMiBOfDeliveriesIsKept fills the quota of a publisher: it is refused
// at once, and nothing that was accepted is lost.
func TestPR16OneMiBOfDeliveriesIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, "pipe", relay.Options{Store: newStore(t, sqlstore.Options{Limits: store.Limits{QuotaPerOwner: 1 << 20}})})
		p := s.dial(publisher)
		payload := []byte(strings.Repeat("x", 16<<10))
		kept := 0
		for ; kept < 100; kept++ {
			began := time.Now()
			_, err := p.send(relay.Publication{ID: fmt.Append(nil, kept), Topic: "orders", Payload: payload})
			if took := time.Since(began); took != 0 {
				t.Errorf("answered after %v", took)
			}
			if err != nil {
				wantPeerError(t, err, profiles.RateLimitExceeded.Alias())
				break
			}
		}
		if octets := kept * len(payload); octets > 1<<20 || octets < 1<<20-64<<10 {
			t.Fatalf("%d octets were accepted", octets)
		}
		s.dial(other).publish("orders", "of another") // whose quota is its own
		c := s.dial(consumer).consume("orders", 0)
		for i := range kept + 1 {
			d := receiveAny(t, c)
			if i < kept && string(d.ID) != fmt.Sprint(i) {
				t.Fatalf("delivery %d is %q", i, d.ID)
			}
			ack(t, d)
		}
	})
}

// TestRS08NothingGrowsWithWhatPeersChoose publishes under ever new topics,
// delivery_ids and identities.
func TestRS08NothingGrowsWithWhatPeersChoose(t *testing.T) {
	effort.Unwatched(t)
	synctest.Test(t, func(t *testing.T) {
		const remembered, rounds = 250, 6
		s := serve(t, "pipe", relay.Options{
			Store:  newStore(t, sqlstore.Options{Limits: store.Limits{Remembered: remembered}}),
			Window: time.Hour, Retention: time.Hour, DeadRetention: time.Hour,
		})
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		var half uint64
		for round := range rounds {
			if round == rounds/2 {
				half = heap()
			}
			p := s.dial(fmt.Sprint(publisher, round))
			accepted, refused := 0, 0
			for i := range remembered + 200 {
				name := fmt.Sprint(round, " ", i)
				_, err := p.send(relay.Publication{ID: []byte(name), Topic: name})
				if err == nil {
					accepted++
					continue
				}
				wantPeerError(t, err, profiles.RateLimitExceeded.Alias())
				refused++
			}
			// One identity has seven eighths of the room.
			if want := remembered - remembered/8; accepted != want || accepted+refused != remembered+200 {
				t.Fatalf("round %d: %d accepted, %d refused, want %d and the others", round, accepted, refused, want)
			}
			p.leave()
			// They die after an hour, and after another are forgotten.
			time.Sleep(3 * time.Hour)
			synctest.Wait()
		}
		if after := heap(); after > half+4<<20 {
			t.Errorf("%d octets more in use after %d more deliveries, want no growth", after-half, rounds/2*remembered)
		}
	})
}

// disk is a Store whose medium is slow: what is submitted while it is busy waits,
// in order.
type disk struct {
	relay.Store
	pause func() time.Duration // of the next commit

	mu   sync.Mutex
	busy bool
	work []func()
	most int // that have waited at once
}

func (d *disk) submit(op func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.work = append(d.work, op)
	d.most = max(d.most, len(d.work))
	if !d.busy {
		d.busy = true
		go d.commit()
	}
}

func (d *disk) commit() {
	for {
		time.Sleep(d.pause())
		d.mu.Lock()
		work := d.work
		d.work, d.busy = nil, len(work) > 0
		d.mu.Unlock()
		if len(work) == 0 {
			return
		}
		for _, op := range work {
			op()
		}
	}
}

func (d *disk) Add(space, queue, id, mark, owner string, data []byte, expires, keep time.Time, done func(store.AddResult)) {
	d.submit(func() { d.Store.Add(space, queue, id, mark, owner, data, expires, keep, done) })
}

func (d *disk) Lease(space, queue string, most int, until time.Time, done func(store.LeaseResult)) {
	d.submit(func() { d.Store.Lease(space, queue, most, until, done) })
}

func (d *disk) Ack(space, id string, lease uint64, done func(bool, error)) {
	d.submit(func() { d.Store.Ack(space, id, lease, done) })
}

func (d *disk) Nack(space, id string, lease uint64, due time.Time, counts bool, done func(bool, error)) {
	d.submit(func() { d.Store.Nack(space, id, lease, due, counts, done) })
}

func TestReleaseWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pause = time.Second
		t.Cleanup(func() { time.Sleep(2 * pause) }) // the disk commits the last
		s := serve(t, "pipe", relay.Options{Store: &disk{Store: newStore(t, sqlstore.Options{}), pause: func() time.Duration { return pause }}})
		s.dial(publisher).publish("orders", "id")
		r := s.rawConsumer(consumer, "orders", 0)
		for len(r.take()) == 0 {
			time.Sleep(pause)
			synctest.Wait()
		}
		began := time.Now()
		if err := s.set.Relay.Release(t.Context(), relay.Key(publisher, []byte("id"))); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < pause {
			t.Errorf("it took %v, and the end of the attempt is stored after %v", took, pause)
		}
		if err := s.set.Relay.Release(t.Context(), relay.Key(publisher, []byte("id"))); err == nil {
			t.Error("an attempt that has ended was ended again")
		}
	})
}

// TestST06ASlowDiskSlowsPublishersDown has a commit take half a second, and one
// take 20 s: nothing is acknowledged before it is stored, what waits is bounded,
// and afterwards each delivery is made once.
func TestST06ASlowDiskSlowsPublishersDown(t *testing.T) {
	effort.Unwatched(t)
	for name, pause := range map[string]time.Duration{"fsync of 500 ms": 500 * time.Millisecond, "stall of 20 s": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const total, senders = 1000, 250 // more at once than a connection may have
				var stalled atomic.Bool
				stalled.Store(true)
				d := &disk{Store: newStore(t, sqlstore.Options{}), pause: func() time.Duration {
					if pause > time.Second && !stalled.Swap(false) {
						return time.Millisecond
					}
					return pause
				}}
				s := serve(t, "pipe", relay.Options{Store: d})
				p := s.dial(publisher)
				began := time.Now()
				var refused, early atomic.Int32
				var all sync.WaitGroup
				for sender := range senders {
					all.Go(func() {
						for i := range total / senders {
							id := fmt.Sprint(sender, " ", i)
							for {
								r, err := p.send(relay.Publication{ID: []byte(id), Topic: "orders", Payload: []byte("payload of " + id)})
								if time.Since(began) < pause && err == nil {
									early.Add(1)
								}
								if err == nil && !r.Duplicate {
									break
								}
								if fault := (*profiles.PeerError)(nil); !errors.As(err, &fault) || !fault.Retryable() {
									t.Errorf("%q: %+v, %v", id, r, err)
									return
								}
								refused.Add(1)
								time.Sleep(pause)
							}
						}
					})
				}
				all.Wait()
				if early.Load() > 0 {
					t.Errorf("%d were acknowledged before they were stored", early.Load())
				}
				if took := time.Since(began); took < pause {
					t.Errorf("%d were accepted in %v by a disk that takes %v", total, took, pause)
				}
				const bound = 128 + 64 // requests of a connection, and what the relay itself asks for
				if d.most > bound {
					t.Errorf("%d operations waited at once, want at most %d", d.most, bound)
				}
				t.Logf("%d operations waited at once, %d publications were put off", d.most, refused.Load())
				stalled.Store(true) // once more, while deliveries are made
				c := s.dial(consumer).consume("orders", 64)
				seen := make(map[string]int)
				for range total {
					d := receiveAny(t, c)
					seen[string(d.ID)]++
					ack(t, d)
				}
				time.Sleep(time.Hour)
				nothing(t, c)
				if len(seen) != total {
					t.Errorf("%d different deliveries, want %d", len(seen), total)
				}
			})
		})
	}
}

// monotonic is a Store that wants every time it is given to carry a monotonic
// reading: then no jump of the wall clock moves it, as package sqlstore tests.
type monotonic struct {
	relay.Store
	t     *testing.T
	times *atomic.Int32
}

func (m monotonic) check(what string, at time.Time) {
	m.times.Add(1)
	if !at.IsZero() && !strings.Contains(at.String(), " m=") {
		m.t.Errorf("%s %v is wall time", what, at)
	}
}

func (m monotonic) Add(space, queue, id, mark, owner string, data []byte, expires, keep time.Time, done func(store.AddResult)) {
	m.check("expires", expires)
	m.check("keep", keep)
	m.Store.Add(space, queue, id, mark, owner, data, expires, keep, done)
}

func (m monotonic) Lease(space, queue string, most int, until time.Time, done func(store.LeaseResult)) {
	m.check("until", until)
	m.Store.Lease(space, queue, most, until, done)
}

func (m monotonic) LeaseExpired(space string, most int, until time.Time, done func(store.LeaseResult)) {
	m.check("until", until)
	m.Store.LeaseExpired(space, most, until, done)
}

func (m monotonic) Nack(space, id string, lease uint64, due time.Time, counts bool, done func(bool, error)) {
	m.check("due", due)
	m.Store.Nack(space, id, lease, due, counts, done)
}

func (m monotonic) Move(space, id string, lease uint64, queue string, data []byte, expires time.Time, done func(bool, error)) {
	m.check("expires", expires)
	m.Store.Move(space, id, lease, queue, data, expires, done)
}

func TestST07NoTimeOfADeliveryIsWallTime(t *testing.T) {
	var times atomic.Int32
	s := serve(t, "pipe", relay.Options{
		Store: monotonic{newStore(t, sqlstore.Options{}), t, &times}, MaxAttempts: 2, Backoff: time.Millisecond,
	})
	heard := newNotices(true)
	p := s.dialWith(publisher, relay.Options{Notice: heard.notice})
	c := s.dial(consumer).consume("orders", 0)
	p.publish("orders", "id")
	nack(t, receive(t, c, "id"), true)
	nack(t, receive(t, c, "id"), true)
	if n := heard.wait(t); n.Reason != relay.MaxAttempts {
		t.Errorf("reason %q", n.Reason)
	}
	if n := times.Load(); n < 8 {
		t.Errorf("%d times were seen, want those of all operations", n)
	}
}

// TestPR14AnIDIsTakenAfterARestart publishes the same id again, to a relay that
// was started again, with the same payload and with another.
func TestPR14AnIDIsTakenAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		o := sqlstore.Options{Dir: t.TempDir()}
		db := newStore(t, o)
		s := serve(t, kind, relay.Options{Store: db})
		s.dial(publisher).publish("orders", "id")
		s.stop()
		_ = db.Close()

		s = serve(t, kind, relay.Options{Store: newStore(t, o)})
		p := s.dial(publisher)
		_, err := p.send(relay.Publication{ID: []byte("id"), Topic: "orders", Payload: []byte("payload of another")})
		wantPeerError(t, err, relay.CodeConflict)
		r, err := p.send(relay.Publication{ID: []byte("id"), Topic: "orders", Payload: []byte("payload of id")})
		if err != nil || !r.Duplicate {
			t.Errorf("published again: %+v, %v, want a duplicate", r, err)
		}
		c := s.dial(consumer).consume("orders", 0)
		ack(t, receive(t, c, "id"))
		time.Sleep(time.Hour)
		nothing(t, c)
	})
}

// full is a Store on a volume without room.
type full struct{ relay.Store }

func (full) Add(_, _, _, _, _ string, _ []byte, _, _ time.Time, done func(store.AddResult)) {
	done(store.AddResult{Err: store.Unavailable(syscall.ENOSPC)})
}

func TestAFullVolumeIsNotBlamedOnALimit(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{Store: full{newStore(t, sqlstore.Options{})}})
		_, err := s.dial(publisher).send(relay.Publication{ID: []byte("id"), Topic: "orders", Payload: []byte("x")})
		if err == nil || !strings.Contains(err.Error(), "the volume of this endpoint's store is full") {
			t.Fatalf("%v, want an error that says that the volume is full", err)
		}
		for _, word := range []string{"relay.waiting", "relay.remembered", "quota", "raise", `\u000a`, "\n"} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("%q has %q", err, word)
			}
		}
	})
}
