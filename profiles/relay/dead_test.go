package relay_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// reasons make a delivery "id" to the topic "orders" dead, each in its way.
var reasons = []struct {
	reason   relay.Reason
	attempts uint32
	opts     relay.Options
	ttl      time.Duration
	make     func(t *testing.T, s *server)
}{
	{relay.MaxAttempts, 5, relay.Options{}, 0, func(t *testing.T, s *server) {
		c := s.dial(consumer).consume("orders", 0)
		for range 5 {
			nack(t, receive(t, c, "id"), true)
		}
	}},
	{relay.Rejected, 1, relay.Options{}, 0, func(t *testing.T, s *server) {
		nack(t, receive(t, s.dial(consumer).consume("orders", 0), "id"), false)
	}},
	{relay.TTLExpired, 1, relay.Options{}, time.Minute, func(*testing.T, *server) {
		time.Sleep(time.Minute)
	}},
	{relay.TTLExpired, 1, relay.Options{TTL: time.Minute, Backoff: 5 * time.Minute, MaxBackoff: 5 * time.Minute}, 0, func(t *testing.T, s *server) {
		c := s.dial(consumer).consume("orders", 0)
		nack(t, receive(t, c, "id"), true)
		time.Sleep(time.Minute)
	}},
	{relay.NoConsumer, 1, relay.Options{Retention: 5 * time.Minute}, 0, func(*testing.T, *server) {
		time.Sleep(5 * time.Minute)
	}},
	{relay.NoConsumer, 1, relay.Options{Retention: 5 * time.Minute}, math.MaxInt64, func(*testing.T, *server) {
		time.Sleep(5 * time.Minute)
	}},
	{relay.LimitExceeded, 1, relay.Options{Retention: 5 * time.Minute, Backoff: 10 * time.Minute, MaxBackoff: 10 * time.Minute}, 0, func(t *testing.T, s *server) {
		nack(t, receive(t, s.dial(consumer).consume("orders", 0), "id"), true)
		time.Sleep(5 * time.Minute)
	}},
}

func TestRelay0004TheDeadAreToldWithAReasonUntilStatusAnswers(t *testing.T) {
	effort.Unwatched(t)
	for i, test := range reasons {
		t.Run(fmt.Sprint(i, test.reason), func(t *testing.T) {
			inBubble(t, func(t *testing.T, kind string) {
				test.opts.DeadRetention = 26 * time.Hour // longer than the window of ids
				s := serve(t, kind, test.opts)
				deaf := s.dialWith(publisher, relay.Options{Notice: newNotices(false).notice})
				r, err := deaf.send(relay.Publication{ID: []byte("id"), Topic: "orders", Payload: []byte("payload of id"), TTL: test.ttl})
				if err != nil || r.Duplicate {
					t.Fatal(r, err)
				}
				deaf.leave()
				began := time.Now()
				test.make(t, s)
				synctest.Wait()

				// On another session of the publisher, once it says anything.
				heard := newNotices(false)
				p := s.dialWith(publisher, relay.Options{Notice: heard.notice})
				synctest.Wait()
				if n := heard.all(); n != nil {
					t.Errorf("told %v before the session has said a word of RELAY", n)
				}
				p.wantStatus("id", relay.DeadState, test.attempts)
				want := relay.Notice{DeliveryID: []byte("id"), Reason: test.reason}
				if diff := gocmp.Diff(want, heard.wait(t)); diff != "" {
					t.Error(diff)
				}
				// It is repeated, with a pause that grows, until STATUS answers.
				pause := cmp.Or(test.opts.Backoff, time.Second)
				most := cmp.Or(test.opts.MaxBackoff, time.Minute)
				time.Sleep(pause)
				heard.wait(t)
				time.Sleep(min(2*pause, most))
				heard.wait(t)
				listed := p.dead(relay.DeadParams{Payload: true})
				if len(listed) != 1 {
					t.Fatalf("listed: %+v", listed)
				}
				d := listed[0]
				if string(d.DeliveryID) != "id" || d.Topic != "orders" || d.Reason != test.reason || d.Told ||
					uint32(max(1, d.Attempts)) != test.attempts || string(d.Payload) != "payload of id" || d.Size != len(d.Payload) ||
					d.Taken != began.UnixMilli() || d.Died < d.Taken || d.Died > time.Now().UnixMilli() {
					t.Errorf("listed: %+v", d)
				}
				heard.mu.Lock()
				heard.take = true
				heard.mu.Unlock()
				time.Sleep(min(4*pause, most))
				heard.wait(t)
				synctest.Wait()
				told := len(heard.all())
				time.Sleep(2 * min(8*pause, most)) // the next one would come in the middle
				if n := len(heard.all()); n != told {
					t.Errorf("told %d times more after STATUS has answered", n-told)
				}
				if listed := p.dead(relay.DeadParams{}); len(listed) != 1 || !listed[0].Told || listed[0].Payload != nil || listed[0].Size != 13 {
					t.Errorf("listed: %+v", listed)
				}
				p.wantStatus("id", relay.DeadState, test.attempts)

				// No consumer gets what is dead.
				c := s.dial(consumer).consume("orders", 0)
				time.Sleep(time.Hour)
				nothing(t, c)

				// Nor is it kept for ever.
				time.Sleep(test.opts.DeadRetention)
				synctest.Wait()
				if listed := p.dead(relay.DeadParams{}); len(listed) != 0 {
					t.Errorf("listed after its retention: %+v", listed)
				}
				_, _, err = relay.Ask(t.Context(), p, []byte("id"))
				wantPeerError(t, err, relay.CodeNotFound)
				p.publish("orders", "id")
			})
		})
	}
}

func TestAStatusThatIsAskedForAnswersANotice(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		// A publisher that takes its time with the notice, and asks meanwhile.
		r := s.rawConsumer(publisher, "nothing", 0)
		r.publish("orders", "id")
		nack(t, receive(t, s.dial(consumer).consume("orders", 0), "id"), false)
		synctest.Wait()
		if seen := r.seen(); len(seen) != 1 || seen[0].env.MsgType != relay.TypeNack {
			t.Fatalf("%d messages came, want a notice", len(seen))
		}
		r.wantStatus("id", relay.DeadState, 1)
		time.Sleep(time.Hour)
		if seen := r.seen(); len(seen) != 1 {
			t.Errorf("%d notices, want no more than one", len(seen))
		}
		if listed := r.dead(relay.DeadParams{}); len(listed) != 1 || !listed[0].Told {
			t.Errorf("listed: %+v", listed)
		}
	})
}

func TestAStatusThatIsAskedForAsTheNoticeComesAnswersIt(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		r := s.rawConsumer(publisher, "nothing", 0)
		c := s.dial(consumer).consume("orders", 0)
		const deliveries = 30
		for i := range deliveries {
			id := fmt.Sprint("id ", i)
			r.publish("orders", id)
			nack(t, receive(t, c, id), false)
			for len(r.seen()) == i {
				runtime.Gosched()
			}
			r.wantStatus(id, relay.DeadState, 1)
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		if seen := r.seen(); len(seen) != deliveries {
			t.Errorf("%d notices of %d deliveries", len(seen), deliveries)
		}
	})
}

func TestNoticesAreForThePublisherAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		mine, theirs := newNotices(true), newNotices(true)
		p := s.dialWith(publisher, relay.Options{Notice: mine.notice})
		q := s.dialWith(other, relay.Options{Notice: theirs.notice})
		p.publish("orders", "id")
		_, _, err := relay.Ask(t.Context(), q, []byte("id"))
		wantPeerError(t, err, relay.CodeNotFound)
		nack(t, receive(t, s.dial(consumer).consume("orders", 0), "id"), false)
		mine.wait(t)
		time.Sleep(time.Hour)
		if n := theirs.all(); n != nil {
			t.Errorf("another publisher was told %v", n)
		}
		_, _, err = relay.Ask(t.Context(), q, []byte("id"))
		wantPeerError(t, err, relay.CodeNotFound)
		if listed := q.dead(relay.DeadParams{}); len(listed) != 0 {
			t.Errorf("another publisher sees %+v", listed)
		}
	})
}

func TestTheDeadAreListedInPages(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{})
		heard := newNotices(true)
		p := s.dialWith(publisher, relay.Options{Notice: heard.notice})
		c := s.dial(consumer).consume("orders", 0)
		const told, untold = 7, 5
		for i := range told + untold {
			if i == told {
				time.Sleep(time.Minute)
				heard.mu.Lock()
				heard.take = false
				heard.mu.Unlock()
			}
			id := fmt.Sprintf("%02d", i)
			p.publish("orders", id)
			nack(t, receive(t, c, id), false)
			synctest.Wait()
		}
		var want []string
		for i := range told + untold {
			want = append(want, fmt.Sprintf("%02d", (i+told)%(told+untold))) // those who are to be told first
		}
		for _, limit := range []int{0, 1, 5, 12, 1000} {
			var got []string
			for _, d := range p.dead(relay.DeadParams{Limit: limit}) {
				got = append(got, string(d.DeliveryID))
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("in pages of %d:\n%s", limit, diff)
			}
		}
	})
}

func TestPagesOfPayloadsAreBounded(t *testing.T) {
	effort.Unwatched(t)
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, "pipe", relay.Options{})
		p := s.dial(publisher)
		c := s.dial(consumer).consume("orders", 0)
		payloads := map[string][]byte{}
		for i, size := range []int{3 << 20, 400 << 10, 400 << 10, 400 << 10, 0} {
			id := fmt.Sprint(i)
			payloads[id] = bytes.Repeat([]byte{byte(i)}, size)
			if _, err := p.send(relay.Publication{ID: []byte(id), Topic: "orders", Payload: payloads[id]}); err != nil {
				t.Fatal(err)
			}
			d := receiveAny(t, c)
			if !bytes.Equal(d.Payload, payloads[id]) {
				t.Errorf("%s: %d octets came, want %d", id, len(d.Payload), size)
			}
			nack(t, d, false)
			synctest.Wait()
		}
		listed := p.dead(relay.DeadParams{Payload: true})
		if len(listed) != len(payloads) {
			t.Fatalf("%d listed, want %d", len(listed), len(payloads))
		}
		for _, d := range listed {
			if !bytes.Equal(d.Payload, payloads[string(d.DeliveryID)]) {
				t.Errorf("%s: %d octets, want %d", d.DeliveryID, len(d.Payload), len(payloads[string(d.DeliveryID)]))
			}
		}
	})
}

func TestManyThatExpireAtOnceAreAllBuried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newStore(t, sqlstore.Options{})
		s := serve(t, "pipe", relay.Options{Store: db})
		heard := newNotices(true)
		p := s.dialWith(publisher, relay.Options{Notice: heard.notice})
		const n = 100
		for i := range n {
			pub := relay.Publication{ID: fmt.Append(nil, i), Topic: fmt.Sprint("topic ", i), TTL: time.Hour}
			if _, err := p.send(pub); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if got := len(heard.all()); got != n {
			t.Errorf("told of %d, want %d", got, n)
		}
	})
}

func TestPR14TheTimeToLiveIsCountedFromCustodyAndDoesNotWrap(t *testing.T) {
	effort.Unwatched(t)
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, "pipe", relay.Options{Retention: 30 * 24 * time.Hour})
		p := s.dial(publisher)
		for id, ttl := range map[string]uint64{"0": 0, "1": 1, "max": 1<<64 - 1, "above": math.MaxInt64/1_000_000 + 1, "day": 24 * 3600 * 1000} {
			m := relay.Publish{DeliveryID: []byte(id), Topic: []byte("orders"), Payload: []byte("payload of " + id), TTL: ttl}
			if answer := p.raw(relay.TypePublish, m.Append(nil), nil); answer.MsgType != relay.TypeAck {
				t.Errorf("ttl_ms %d: answered with type %d", ttl, answer.MsgType)
			}
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		p.wantStatus("1", relay.DeadState, 1)
		time.Sleep(24*time.Hour - 2*time.Millisecond)
		synctest.Wait()
		p.wantStatus("day", relay.Queued, 1)
		c := s.dial(consumer).consume("orders", 0)
		for range 4 {
			d := receiveAny(t, c)
			switch id := string(d.ID); {
			case id == "day" && d.TTL == time.Millisecond, id != "day" && d.TTL == 0:
			default:
				t.Errorf("%s is delivered with %v left", id, d.TTL)
			}
			nack(t, d, true)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		p.wantStatus("day", relay.DeadState, 1)
		for range 3 {
			ack(t, receiveAny(t, c))
		}
	})
}

// lateExpiry is a Store that never says what has expired: who leases it finds out.
type lateExpiry struct{ relay.Store }

func (lateExpiry) LeaseExpired(_ string, _ int, _ time.Time, done func(store.LeaseResult)) {
	done(store.LeaseResult{})
}

func TestAnAttemptThatIsNotMadeIsNotCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, kind string) {
		s := serve(t, kind, relay.Options{Store: lateExpiry{newStore(t, sqlstore.Options{})}, Retention: time.Hour})
		heard := newNotices(true)
		p := s.dialWith(publisher, relay.Options{Notice: heard.notice})
		p.publish("orders", "id")
		time.Sleep(time.Hour)
		nothing(t, s.dial(consumer).consume("orders", 0))
		if n := heard.wait(t); n.Reason != relay.NoConsumer {
			t.Errorf("reason %q of what nobody was sent, want %q", n.Reason, relay.NoConsumer)
		}
		if list := p.dead(relay.DeadParams{}); len(list) != 1 || list[0].Attempts != 0 {
			t.Errorf("listed %+v, want no attempt", list)
		}
	})
}
