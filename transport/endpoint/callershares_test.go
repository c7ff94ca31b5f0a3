package endpoint_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	assertion "github.com/slimwire/swp/internal/caller"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// held are the requests that a test holds, by what they say.
type held struct {
	mu      sync.Mutex
	open    map[string][]profiles.Responder
	changed chan struct{}
}

func newHeld() *held {
	return &held{open: make(map[string][]profiles.Responder), changed: make(chan struct{})}
}

func (h *held) update(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.changed)
	h.changed = make(chan struct{})
}

// profile holds requests, as long ones or not, except those that say "ping".
func (h *held) profile(long bool) *profiles.Profile {
	return telling(profile(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		what := string(req.Payload)
		if req.Unsolicited || what == "ping" {
			return echo(ctx, req, w)
		}
		take := req.Hold
		if long {
			take = req.HoldLong
		}
		_, kept, err := take()
		if err != nil {
			return err
		}
		h.update(func() { h.open[what] = append(h.open[what], kept) })
		context.AfterFunc(kept.Context(), func() { kept.Fail(nil) })
		return nil
	}))
}

// end answers a request.
func (h *held) end(what string) {
	h.mu.Lock()
	w := h.open[what][0]
	h.open[what] = h.open[what][1:]
	h.mu.Unlock()
	_ = w.Finish(e1.Envelope{MsgType: typeAnswer})
}

func (h *held) endAll() {
	for what := range h.open {
		for h.count(what) > 0 {
			h.end(what)
		}
	}
}

func (h *held) count(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open[what])
}

// await waits until so many requests are held.
func (h *held) await(t *testing.T, what string, n int) {
	t.Helper()
	timeout := time.After(transporttest.Patience)
	for {
		h.mu.Lock()
		changed, have := h.changed, len(h.open[what])
		h.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("%d requests of %s are held, want %d", have, what, n)
		}
	}
}

// vouching connects a peer that asserts each caller.
func (w *wired) vouching(t *testing.T) *endpoint.Session {
	t.Helper()
	a := w.asking(t)
	var mu sync.Mutex
	made := make(map[string][]byte)
	a.Assert(func(identity string) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if made[identity] == nil {
			made[identity] = a.sign(&assertion.Claim{Caller: identity, Chain: []string{transporttest.Client}}, transporttest.Server, time.Now())
		}
		return made[identity], nil
	})
	t.Cleanup(func() { a.Close(profiles.OK) })
	return a.Session
}

// What the callers of one peer have in flight on its session has one bound.
func TestRS31CallersOfASessionShareItsPlaces(t *testing.T) {
	for name, long := range map[string]bool{"requests in flight": false, "long exchanges": true} {
		t.Run(name, func(t *testing.T) {
			overTLSAndQUIC(t, func(t *testing.T, kind string) {
				fairtest.Places(t, "endpoint: "+name+" of callers", "places of 16", func(t *testing.T) (func(string) bool, func(string)) {
					h := newHeld()
					w := listen(t, kind, endpoint.Options{
						Callers: true, Identity: func() string { return transporttest.Server },
						Bounds: endpoint.Bounds{InFlight: 16, LongExchanges: 16},
					}, h.profile(long))
					s := w.vouching(t)
					t.Cleanup(func() {
						if err := s.Context().Err(); err != nil {
							t.Errorf("the session has ended: %v", context.Cause(s.Context()))
						}
						h.endAll()
					})
					take := func(who string) bool {
						ctx, cancel := context.WithTimeout(profiles.WithCaller(t.Context(), who), transporttest.Patience)
						before := h.count(who)
						said := make(chan string, 1)
						go func() {
							defer cancel()
							answer, err := try(ctx, s, who)
							if err != nil {
								answer = err.Error()
							}
							said <- answer
						}()
						for {
							h.mu.Lock()
							changed, now := h.changed, len(h.open[who])
							h.mu.Unlock()
							if now > before {
								return true
							}
							select {
							case <-changed:
							case answer := <-said:
								if answer != profiles.RateLimitExceeded.String() {
									t.Errorf("a request of %s: %s", who, answer)
								}
								return false
							}
						}
					}
					return take, h.end
				})
			})
		})
	}
}

// Messages of a caller are not stored for a long time. Others are read nevertheless.
func TestRS31MessagesOfOneCallerThatWaitDoNotHoldUpAnother(t *testing.T) {
	fairtest.Places(t, "endpoint: messages that wait, over TLS", "messages of 16", func(t *testing.T) (func(string) bool, func(string)) {
		var mu sync.Mutex
		open, came := map[string][]func(error){}, make(chan struct{}, 1)
		p := telling(profile(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
			if who, put := strings.CutPrefix(string(req.Payload), "put "); put && !req.Unsolicited {
				done := req.Defer()
				mu.Lock()
				open[who] = append(open[who], done)
				mu.Unlock()
				came <- struct{}{}
				return nil
			}
			return echo(ctx, req, w)
		}))
		w := listen(t, "tls", endpoint.Options{Callers: true, Identity: func() string { return transporttest.Server }, Bounds: endpoint.Bounds{Deferred: 16}}, p)
		s := w.vouching(t)
		ctx, cancel := context.WithCancel(t.Context())
		give := func(who string) {
			mu.Lock()
			done := open[who][0]
			open[who] = open[who][1:]
			mu.Unlock()
			done(nil)
		}
		take := func(who string) bool {
			said := make(chan string, 1)
			ctx := profiles.WithCaller(ctx, who)
			go func() {
				answer, err := try(ctx, s, "put "+who)
				if err != nil {
					answer = err.Error()
				}
				said <- answer
			}()
			taken := false
			select {
			case <-came:
				taken = true
			case answer := <-said:
				if answer != profiles.RateLimitExceeded.String() {
					t.Errorf("a message of %s: %s", who, answer)
				}
			case <-time.After(transporttest.Patience):
				t.Fatal("the message is not read")
			}
			brief, end := context.WithTimeout(profiles.WithCaller(ctx, "http:carol"), transporttest.Patience)
			defer end()
			if got, err := try(brief, s, "ping"); got != "ping" {
				t.Fatalf("a call of another caller: %q, %v", got, err)
			}
			return taken
		}
		t.Cleanup(func() {
			cancel()
			for who := range open {
				for len(open[who]) > 0 {
					give(who)
				}
			}
		})
		return take, give
	})
}

// A peer without callers has all places of its session.
func TestThePlacesOfASessionWithoutCallersAreAllOfItsPeer(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, kind string) {
		h := newHeld()
		w := listen(t, kind, endpoint.Options{Bounds: endpoint.Bounds{InFlight: 16}}, h.profile(false))
		s := w.asking(t).Session
		var calls sync.WaitGroup
		defer calls.Wait()
		defer h.endAll()
		for range 16 {
			calls.Go(func() { _, _ = try(t.Context(), s, "request") })
		}
		h.await(t, "request", 16)
		if got, err := try(t.Context(), s, "request"); got != profiles.RateLimitExceeded.String() {
			t.Errorf("request 17: %q, %v", got, err)
		}
	})
}

// usesOf waits until an identity uses so many streams of a session, and no more.
func usesOf(t *testing.T, s *endpoint.Session, who string, n int) {
	t.Helper()
	for deadline := time.Now().Add(transporttest.Patience); ; time.Sleep(time.Millisecond) {
		pool := s.Streams()
		have := 0
		for _, use := range pool.Most {
			if use.Identity == who {
				have = use.Used
			}
		}
		if have == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s uses %d streams, want %d: %+v", who, have, n, pool)
		}
	}
}

// The streams that a peer permits are one bound for all callers on whose behalf a session opens them.
func TestRS31CallersOfALinkShareItsStreams(t *testing.T) {
	transporttest.NoLeaks(t)
	const all, usable, flood = 127, 112, 200 // one is kept for the session itself
	begin := func(t *testing.T) (h *held, s *endpoint.Session, ask func(who string), control, end func()) {
		h = newHeld()
		w := listen(t, "quic", endpoint.Options{Bounds: endpoint.Bounds{LongExchanges: 4 * flood}}, h.profile(true))
		s = w.asking(t).Session
		control = func() {
			ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
			defer cancel()
			if err := profiles.Ask(ctx, s.Control(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("ping")}, func(*e1.Envelope) error {
				return nil
			}); err != nil {
				t.Errorf("a call of the session itself: %v", err)
			}
		}
		control()
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		ask = func(who string) {
			for range flood {
				calls.Go(func() { _, _ = try(profiles.WithCaller(ctx, who), s, who) })
			}
		}
		return h, s, ask, control, func() {
			control()
			cancel()
			calls.Wait()
			if s.Context().Err() != nil {
				t.Errorf("the session has ended: %v", context.Cause(s.Context()))
			}
		}
	}
	var alone, beside int
	t.Run("alone", func(t *testing.T) {
		h, s, ask, _, end := begin(t)
		defer end()
		ask(fairtest.Alice)
		h.await(t, fairtest.Alice, usable)
		usesOf(t, s, fairtest.Alice, usable)
		alone = h.count(fairtest.Alice)
	})
	t.Run("beside", func(t *testing.T) {
		h, s, ask, control, end := begin(t)
		defer end()
		ask(fairtest.Mallory)
		h.await(t, fairtest.Mallory, usable)
		ask(fairtest.Alice)
		h.await(t, fairtest.Alice, all-usable) // now no stream is left for callers
		control()
		for range usable/2 - (all - usable) {
			h.end(fairtest.Mallory)
		}
		usesOf(t, s, fairtest.Alice, usable/2)
		h.await(t, fairtest.Alice, usable/2)
		beside = h.count(fairtest.Alice)
	})
	fairtest.Row(t, "partner: streams of a link", "streams of 128", alone, beside)
}

// A session that opens streams for nobody but itself has all.
func TestTheStreamsOfASessionWithoutCallersAreAllItsOwn(t *testing.T) {
	transporttest.NoLeaks(t)
	h := newHeld()
	w := listen(t, "quic", endpoint.Options{}, h.profile(true))
	s := w.asking(t).Session
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	for range 200 {
		calls.Go(func() { _, _ = try(ctx, s, "request") })
	}
	h.await(t, "request", 128)
	if pool := s.Streams(); pool.Used != 128 || pool.Capacity != 128 || !slices.Equal(pool.Most, []fair.Use{{Used: 128}}) {
		t.Errorf("%+v", pool)
	}
}

// Those who wait for a place of a session that ends are told so.
func TestWhoWaitsForAStreamLearnsOfTheEndOfTheSession(t *testing.T) {
	transporttest.NoLeaks(t)
	h := newHeld()
	w := listen(t, "quic", endpoint.Options{}, h.profile(true))
	s := w.asking(t).Session
	said := make(chan error, 200)
	for range 200 {
		go func() {
			_, err := try(profiles.WithCaller(t.Context(), fairtest.Mallory), s, fairtest.Mallory)
			said <- err
		}()
	}
	h.await(t, fairtest.Mallory, 112)
	s.Close(profiles.OK)
	for range 200 {
		select {
		case err := <-said:
			if err == nil {
				t.Error("a call has succeeded")
			}
		case <-time.After(transporttest.Patience):
			t.Fatal("a call does not end")
		}
	}
}
