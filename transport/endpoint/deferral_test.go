package endpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// ledger is a store that commits when the test says so. It serves two requests:
// "put" is deferred under its msg_id, and "sync" is answered after what was
// deferred before it. Anything else is echoed.
type ledger struct {
	mu   sync.Mutex
	open map[string]func(error)
	came []string // puts, in order
	over bool     // commits at once
}

func newLedger() *ledger { return &ledger{open: make(map[string]func(error))} }

func (l *ledger) serve(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
	switch {
	case req.Unsolicited:
		return nil
	case bytes.HasPrefix(req.Payload, []byte("put")):
		id := string(req.MsgID)
		done := req.Defer()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.over {
			go done(nil)
			return nil
		}
		l.open[id] = done
		l.came = append(l.came, id)
		return nil
	case string(req.Payload) == "sync":
		after := req.After
		_, w, err := req.Hold()
		if err != nil {
			return err
		}
		answer := func() { _ = w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: []byte("synced")}) }
		if !after(answer) {
			answer()
		}
		return nil
	}
	return echo(ctx, req, w)
}

// seen returns how many puts were served.
func (l *ledger) seen() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.came)
}

// of returns the done function of a put.
func (l *ledger) of(t *testing.T, id string) func(error) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	done := l.open[id]
	if done == nil {
		t.Fatalf("%s was not served; puts %q", id, l.came)
	}
	return done
}

// commit ends everything that is open.
func (l *ledger) commit() {
	l.mu.Lock()
	open := l.open
	l.open = make(map[string]func(error))
	l.mu.Unlock()
	for _, done := range open {
		done(nil)
	}
}

// close commits what is open and all that still comes.
func (l *ledger) close() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.commit()
}

// put is the n-th message to be deferred, of the given size.
func put(n, size int) e1.Envelope {
	return request(putID(n), "put"+string(make([]byte, max(0, size-3))))
}

func putID(n int) string { return fmt.Sprintf("put-%012d", n) }

func syncID(n int) string { return fmt.Sprintf("sync%012d", n) }

// withLedger runs a test with a ledger behind a rig, in a bubble, over one
// stream and over many.
func withLedger(t *testing.T, opts endpoint.Options, test func(t *testing.T, r *rig, led *ledger)) {
	t.Helper()
	virtually(t, func(t *testing.T, pipe pipe) {
		led := newLedger()
		r := newRigOn(t, pipe, opts, telling(profile(led.serve)))
		t.Cleanup(led.close)
		test(t, r, led)
	})
}

// answers collects the msg_ids of what the peer gets, in the background.
type answers struct {
	mu  sync.Mutex
	ids []string
}

func (r *rig) collect(t *testing.T) *answers {
	t.Helper()
	a := new(answers)
	in := *r
	go func() {
		for {
			env, err := in.next()
			if err != nil {
				return
			}
			a.mu.Lock()
			a.ids = append(a.ids, string(env.MsgID))
			a.mu.Unlock()
		}
	}()
	return a
}

// want waits until nothing moves and compares.
func (a *answers) want(t *testing.T, ids ...string) {
	t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.ids, ids) {
		t.Fatalf("answered %q, want %q", a.ids, ids)
	}
}

func TestAfterWaitsForTheMessagesBeforeItAndNoOthers(t *testing.T) {
	withLedger(t, endpoint.Options{}, func(t *testing.T, r *rig, led *ledger) {
		got := r.collect(t)
		r.send(t, request(syncID(0), "sync"))
		got.want(t, syncID(0)) // nothing was deferred
		for n := range 3 {
			r.send(t, put(n, 0))
			r.send(t, request(syncID(n+1), "sync"))
		}
		r.send(t, request(syncID(4), "sync"))
		r.send(t, put(9, 0))
		r.send(t, request("nothing-to-wait-", "x"))
		got.want(t, syncID(0), "nothing-to-wait-")
		led.of(t, putID(1))(nil)
		led.of(t, putID(2))(nil)
		got.want(t, syncID(0), "nothing-to-wait-")
		led.of(t, putID(0))(nil)
		got.want(t, syncID(0), "nothing-to-wait-", syncID(1), syncID(2), syncID(3), syncID(4))
		r.send(t, request(syncID(5), "sync"))
		led.of(t, putID(9))(nil)
		got.want(t, syncID(0), "nothing-to-wait-", syncID(1), syncID(2), syncID(3), syncID(4), syncID(5))
	})
}

func TestAfterKnowsNothingOfOtherStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		led := newLedger()
		r := newRigOn(t, transport.MuxPipe, endpoint.Options{}, profile(led.serve))
		t.Cleanup(led.close)
		first := r.collect(t)
		r.send(t, put(1, 0))
		r.send(t, request(syncID(1), "sync"))
		r.open(t)
		second := r.collect(t)
		r.send(t, put(2, 0))
		r.send(t, request(syncID(2), "sync"))
		r.open(t)
		third := r.collect(t)
		r.send(t, request(syncID(3), "sync"))
		third.want(t, syncID(3))
		led.of(t, putID(2))(nil)
		second.want(t, syncID(2))
		first.want(t)
		led.of(t, putID(1))(nil)
		first.want(t, syncID(1))
	})
}

// Whoever ends a message while another goroutine runs what had waited leaves
// the rest to it.
func TestWhatWaitedRunsOneAfterTheOther(t *testing.T) {
	withLedgerless := func(t *testing.T, r *rig, dones *[]func(error), running *atomic.Int32, order *[]string) {
		for n := range 64 {
			r.send(t, put(n, 0))
			r.send(t, request(syncID(n), "sync"))
		}
		synctest.Wait()
		var wg sync.WaitGroup
		for _, done := range *dones {
			wg.Go(func() { done(nil) })
		}
		wg.Wait()
		synctest.Wait()
		if len(*order) != 64 || !slices.IsSorted(*order) {
			t.Errorf("ran in the order %q", *order)
		}
		if running.Load() != 0 {
			t.Error("two ran at once")
		}
	}
	virtually(t, func(t *testing.T, pipe pipe) {
		var dones []func(error)
		var running atomic.Int32
		var order []string
		h := func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			if bytes.HasPrefix(req.Payload, []byte("put")) {
				dones = append(dones, req.Defer())
				return nil
			}
			id := string(req.MsgID)
			if !req.After(func() {
				if running.Add(1) == 1 {
					order = append(order, id)
					running.Add(-1)
				}
			}) {
				return errors.New("nothing to wait for")
			}
			return nil
		}
		withLedgerless(t, newRigOn(t, pipe, endpoint.Options{}, profile(h)), &dones, &running, &order)
	})
}

func TestADeferredMessageHasItsVerdictWhenItIsDone(t *testing.T) {
	withLedger(t, endpoint.Options{}, func(t *testing.T, r *rig, led *ledger) {
		r.send(t, put(1, 0))
		synctest.Wait()
		if n := r.rec.count(); n != 0 {
			t.Fatalf("%d verdicts before it was done", n)
		}
		led.of(t, putID(1))(nil)
		v := r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
		if string(v.MsgID) != putID(1) || v.ProfileID != testProfile || v.MsgType != typeRequest || v.Bytes != len(framed(put(1, 0))) {
			t.Errorf("verdict %+v", v)
		}
	})
}

func TestADeferredMessageMayBeRefused(t *testing.T) {
	withLedger(t, endpoint.Options{Bounds: endpoint.Bounds{ErrorBudget: 4}}, func(t *testing.T, r *rig, led *ledger) {
		for n := range 20 { // the profile's ordinary answers cost nothing
			r.send(t, put(n, 0))
			synctest.Wait()
			led.of(t, putID(n))(&profiles.Error{Code: profiles.NotFound, Domain: true})
			r.wantError(t, putID(n), profiles.NotFound)
		}
		r.send(t, put(30, 0))
		synctest.Wait()
		led.of(t, putID(30))(errors.New("disk on fire")) // nor does what is no fault of the peer
		r.wantError(t, putID(30), profiles.Internal)
		for n := 40; n < 44; n++ {
			r.send(t, put(n, 0))
			synctest.Wait()
			led.of(t, putID(n))(profiles.Errorf(profiles.InvalidProfilePayload, "no"))
			r.wantError(t, putID(n), profiles.InvalidProfilePayload)
			r.wantVerdict(t, n-40+22, profiles.InvalidProfilePayload, "", endpoint.Kept)
		}
		r.send(t, put(50, 0))
		synctest.Wait()
		led.of(t, putID(50))(profiles.Errorf(profiles.InvalidProfilePayload, "no"))
		r.wantVerdict(t, 26, profiles.InvalidProfilePayload, "", endpoint.Closed)
		<-r.conn.Context().Done()
	})
}

// What refuses a message may have its cause in another exchange, such as one with a partner:
// that this one has ended says nothing of the message.
func TestADeferredMessageIsRefusedWhenWhatItDependsOnHasEnded(t *testing.T) {
	withLedger(t, endpoint.Options{}, func(t *testing.T, r *rig, led *ledger) {
		for n, why := range []error{
			&profiles.Error{Code: profiles.RateLimitExceeded, Retryable: true, Domain: true, Cause: profiles.ErrFinished},
			profiles.ErrFinished,
		} {
			r.send(t, put(n, 0))
			synctest.Wait()
			led.of(t, putID(n))(why)
			r.wantError(t, putID(n), profiles.AsError(why).Code)
		}
	})
}

// Without an answer that says why, a stream that is one of many is reset.
func TestARefusalThatCannotBeToldResetsTheStream(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		led := newLedger()
		r := newRigOn(t, pipe, endpoint.Options{}, profile(led.serve))
		t.Cleanup(led.close)
		r.send(t, put(1, 0))
		r.send(t, put(2, 0))
		synctest.Wait()
		led.of(t, putID(1))(profiles.Errorf(profiles.InvalidProfilePayload, "no"))
		if !r.conn.Multiplexed() {
			r.wantVerdict(t, 1, profiles.InvalidProfilePayload, "", endpoint.Kept)
			r.send(t, request("still-the-stream", "x"))
			r.wantEcho(t, "still-the-stream", "x")
			return
		}
		r.wantVerdict(t, 1, profiles.InvalidProfilePayload, "", endpoint.Reset)
		var why *transport.CloseError
		if err := r.ended(); !errors.As(err, &why) || why.Code != uint64(profiles.InvalidProfilePayload) {
			t.Errorf("the stream ended with %v", err)
		}
		led.of(t, putID(2))(nil) // which was accepted all the same
		r.wantVerdict(t, 2, profiles.OK, "", endpoint.Kept)
		r.open(t)
		r.send(t, request("another-stream--", "x"))
		r.wantEcho(t, "another-stream--", "x")
	})
}

func TestReadingPausesAtTheBoundOfDeferredMessages(t *testing.T) {
	const bound = 4
	withLedger(t, endpoint.Options{Bounds: endpoint.Bounds{Deferred: bound}}, func(t *testing.T, r *rig, led *ledger) {
		for n := range bound - 1 {
			r.send(t, put(n, 0))
		}
		r.send(t, request("below-the-bound-", "x"))
		r.wantEcho(t, "below-the-bound-", "x")
		r.send(t, put(bound-1, 0))
		r.send(t, put(bound, 0))
		r.send(t, request("above-the-bound-", "x"))
		r.othersAreServed(t)
		r.good = nil          // it is not to be kept from falling idle
		time.Sleep(time.Hour) // which is not idleness of this one
		if n := led.seen(); n != bound {
			t.Fatalf("%d were served, want %d", n, bound)
		}
		for n := range bound {
			led.of(t, putID(n))(nil) // the oldest, then the next
			if n == 0 {
				synctest.Wait()
				if got := led.seen(); got != bound+1 {
					t.Fatalf("%d were served after one was done, want %d", got, bound+1)
				}
			}
		}
		r.wantEcho(t, "above-the-bound-", "x")
	})
}

// A peer that takes no answers any more is held back as any other.
func TestReadingPausesOnAStreamThatIsFinishedHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 4
		led := newLedger()
		r := newRigOn(t, transport.MuxPipe, endpoint.Options{Bounds: endpoint.Bounds{Deferred: bound}}, profile(led.serve))
		t.Cleanup(led.close)
		lane, err := r.sess.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := lane.Send(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest}); err != nil {
			t.Fatal(err)
		}
		_ = lane.Close()
		stream, err := r.conn.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.on(stream)
		for n := range 3 * bound {
			r.send(t, put(n, 0))
		}
		synctest.Wait()
		if n := led.seen(); n != bound {
			t.Errorf("%d were served, want %d", n, bound)
		}
		led.commit()
		synctest.Wait()
		if n := led.seen(); n != 2*bound {
			t.Errorf("%d were served, want %d", n, 2*bound)
		}
	})
}

// Few large messages weigh as much as many small ones.
func TestReadingPausesAtTheOctetsOfDeferredMessages(t *testing.T) {
	const bound, size = 1 << 20, 60 << 10
	for name, tt := range map[string]struct {
		endpoint.Bounds
		octets int
	}{
		"of a connection":     {endpoint.Bounds{InFlightBytesPerConn: bound}, bound},
		"of all of them":      {endpoint.Bounds{InFlightBytes: bound}, bound / 8 * 7}, // an identity's part
		"of all, which is so": {endpoint.Bounds{InFlightBytes: bound, InFlightBytesPerConn: 2 * bound}, bound / 8 * 7},
	} {
		t.Run(name, func(t *testing.T) {
			withLedger(t, endpoint.Options{Bounds: tt.Bounds}, func(t *testing.T, r *rig, led *ledger) {
				enough := tt.octets/size + 1
				go func() {
					for n := range 2 * enough {
						if _, err := r.raw.Write(framed(put(n, size))); err != nil {
							return
						}
					}
				}()
				synctest.Wait()
				if n := led.seen(); n != enough {
					t.Fatalf("%d of %d octets were served, want %d", n, size, enough)
				}
				if held := r.ep.Stats().DeferredBytes; held < tt.octets || held > tt.octets+2*size {
					t.Errorf("%d octets are held", held)
				}
				led.of(t, putID(3))(nil)
				synctest.Wait()
				if n := led.seen(); n != enough+1 {
					t.Errorf("%d were served after one was done, want %d", n, enough+1)
				}
				if r.conn.Multiplexed() && tt.octets == bound { // another stream has its turn, of one
					front := r.raw
					r.open(t)
					r.send(t, put(1000, 0))
					r.send(t, put(1001, 0))
					synctest.Wait()
					if n := led.seen(); n != enough+2 {
						t.Errorf("%d were served, want %d", n, enough+2)
					}
					r.on(front)
				}
				led.close()
				synctest.Wait()
				if held := r.ep.Stats().DeferredBytes; held != 0 {
					t.Errorf("%d octets are held in the end", held)
				}
			})
		})
	}
}

func TestRS16DeferredMessagesAreInTheShareOfTheirIdentity(t *testing.T) {
	const bound, size = 1 << 20, 60 << 10
	withLedger(t, endpoint.Options{Bounds: endpoint.Bounds{InFlightBytes: bound}}, func(t *testing.T, r *rig, led *ledger) {
		go func() {
			for n := range 2 * bound / size {
				if _, err := r.raw.Write(framed(put(n, size))); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		if used := r.ep.Stats().InFlightBytes; used < bound/8*7-2*size || used > bound/8*7 {
			t.Errorf("%d octets of the budget are in use, want seven eighths of %d", used, bound)
		}
		led.close()
		synctest.Wait()
		if s := r.ep.Stats(); s.DeferredBytes != 0 {
			t.Errorf("%d octets are deferred in the end", s.DeferredBytes)
		}
	})
}

func TestShutdownWaitsForDeferredMessages(t *testing.T) {
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprintf("reading pauses %v", paused), func(t *testing.T) {
			virtually(t, func(t *testing.T, pipe pipe) {
				led := newLedger()
				opts := endpoint.Options{Bounds: endpoint.Bounds{Deferred: 3}}
				r := newRigOn(t, pipe, opts, profile(led.serve))
				r.good = nil
				r.send(t, put(1, 0))
				r.send(t, put(2, 0))
				r.send(t, request(syncID(1), "sync"))
				if paused {
					r.send(t, put(3, 0))
				}
				synctest.Wait()
				done := shutdown(r.ep, 20*time.Second)
				time.Sleep(5 * time.Second)
				led.of(t, putID(1))(nil)
				time.Sleep(5 * time.Second)
				if r.ep.Stats().Sessions != 1 {
					t.Fatal("closed before all were done")
				}
				led.close()
				if env := r.recv(t); string(env.MsgID) != syncID(1) {
					t.Errorf("answer to %q", env.MsgID)
				}
				r.wantEnd(t)
				if err := <-done; err != nil {
					t.Errorf("Shutdown: %v", err)
				}
			})
		})
	}
}

func TestDeferredMessagesOutliveTheirStream(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"finished": func(r *rig) { _ = r.raw.CloseWrite() },
		"reset":    func(r *rig) { r.raw.Reset(1) },
		"gone":     func(r *rig) { _ = r.conn.Close(0) },
	} {
		t.Run(name, func(t *testing.T) {
			withLedger(t, endpoint.Options{Bounds: endpoint.Bounds{Deferred: 3}}, func(t *testing.T, r *rig, led *ledger) {
				for n := range 4 { // the last one is not read
					r.send(t, put(n, 0))
				}
				synctest.Wait()
				end(r)
				synctest.Wait()
				if name != "finished" && !r.conn.Multiplexed() {
					<-r.conn.Context().Done()
				}
				led.of(t, putID(0))(nil)
				led.of(t, putID(1))(errors.New("its peer is gone"))
				led.of(t, putID(2))(profiles.Errorf(profiles.InvalidProfilePayload, "no"))
				r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
				v := r.rec.verdict(t, 2)
				if name == "finished" {
					if v.Code != profiles.Internal {
						t.Errorf("verdict %+v", v)
					}
				} else if v.Code != profiles.OK || v.Detail != "gone" {
					t.Errorf("verdict %+v", v)
				}
				if v := r.rec.verdict(t, 3); v.Code != profiles.InvalidProfilePayload || !v.Reject {
					t.Errorf("verdict %+v", v)
				}
			})
		})
	}
}

// Done is for one call. A second one, even when its lane serves another
// session by then, changes nothing.
func TestDoneDoesNothingTwice(t *testing.T) {
	const bound = 2
	withLedger(t, endpoint.Options{Bounds: endpoint.Bounds{Deferred: bound}}, func(t *testing.T, r *rig, led *ledger) {
		r.send(t, put(1, 0))
		r.send(t, request(syncID(1), "sync"))
		synctest.Wait()
		first := led.of(t, putID(1))
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() {
				first(nil)
				first(fmt.Errorf("once more, %d", n))
			})
		}
		wg.Wait()
		if env := r.recv(t); string(env.MsgID) != syncID(1) {
			t.Fatalf("answer to %q", env.MsgID)
		}
		if n := r.rec.count(); n != 2 { // its own and that of the sync
			t.Errorf("%d verdicts", n)
		}
		r.finish(t)
		r.wantEnd(t)
		r.again(t)
		for n := 2; n < 2+bound+1; n++ {
			r.send(t, put(n, 0))
		}
		r.send(t, request(syncID(2), "sync"))
		synctest.Wait()
		first(nil)
		first(errors.New("and again"))
		synctest.Wait()
		if n := led.seen(); n != 1+bound {
			t.Errorf("%d were served, want %d: the bound has moved", n, 1+bound)
		}
		led.commit()
		synctest.Wait()
		led.commit()
		if env := r.recv(t); string(env.MsgID) != syncID(2) {
			t.Fatalf("answer to %q", env.MsgID)
		}
	})
}

func TestADeferredMessageThatServeFailsIsOver(t *testing.T) {
	var dones []func(error)
	failing := map[string]profiles.HandlerFunc{
		"an error": func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			dones = append(dones, req.Defer())
			return profiles.Errorf(profiles.Internal, "no")
		},
		"a panic": func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			dones = append(dones, req.Defer())
			panic("boom")
		},
		"deferred twice": func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			dones = append(dones, req.Defer())
			req.Defer()
			return nil
		},
	}
	for name, h := range failing {
		t.Run(name, func(t *testing.T) {
			opts := endpoint.Options{Bounds: endpoint.Bounds{Deferred: 2}}
			onEach(t, opts, func(t *testing.T, r *rig) {
				dones = nil
				for n := range 10 {
					r.send(t, put(n, 0))
					r.wantError(t, putID(n), profiles.Internal)
					r.wantVerdict(t, n+1, profiles.Internal, "", endpoint.Kept)
				}
				for _, done := range dones {
					done(nil)
				}
				if n := r.rec.count(); n != 10 {
					t.Errorf("%d verdicts, want 10", n)
				}
			}, telling(profile(h)))
		})
	}
}

// A deferred message costs what it is kept in and the function that ends it.
func TestADeferredMessageCostsTwoAllocations(t *testing.T) {
	const n = 64
	var open []func(error)
	h := func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
		if string(req.Payload) != "last" {
			open = append(open, req.Defer())
			return nil
		}
		for _, done := range open {
			done(nil)
		}
		open = open[:0]
		return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, n*64)})
	}
	reg, err := profiles.NewRegistry(profile(h))
	if err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	conn := newTreadmill()
	ep.Attach(conn)
	defer func() { _ = ep.Close() }()
	batch := bytes.Repeat(framed(put(1, 8)), n)
	batch = append(batch, framed(request(syncID(1), "last"))...)
	conn.run(batch)
	allocs := testing.AllocsPerRun(100, func() { conn.run(batch) })
	t.Logf("%.2f allocations a message", allocs/n)
	if allocs > 2*n+4 && !effort.Watched {
		t.Errorf("%.0f allocations for %d messages, want 2 for each", allocs, n)
	}
}

func TestWirePublishesAreCommittedInOrder(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		const n = 2000
		led := newLedger()
		w := listen(t, kind, endpoint.Options{Bounds: endpoint.Bounds{Deferred: 16}}, profile(led.serve))
		stop := make(chan struct{})
		var committer sync.WaitGroup
		committer.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
					led.commit()
				}
			}
		})
		defer committer.Wait()
		defer close(stop)
		s := w.session(t)
		lane, err := s.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			env := put(i, 100)
			if err := lane.Send(t.Context(), env); err != nil {
				t.Fatal(err)
			}
		}
		c, err := lane.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("sync")})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if env, err := c.Recv(t.Context()); err != nil || string(env.Payload) != "synced" {
			t.Fatalf("%v, %v", env, err)
		}
		led.mu.Lock()
		defer led.mu.Unlock()
		if len(led.came) != n || len(led.open) != 0 || !slices.IsSorted(led.came) {
			t.Errorf("%d came, %d are open, sorted %v", len(led.came), len(led.open), slices.IsSorted(led.came))
		}
	})
}
