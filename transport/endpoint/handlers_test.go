package endpoint_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// detached runs f for each request on a goroutine of its own.
func detached(f func(context.Context, *profiles.Request, profiles.Responder) error) profiles.HandlerFunc {
	return func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		if req.Unsolicited {
			return nil
		}
		return req.Detach(f)
	}
}

// slowEcho answers after its context or the test says so.
func slowEcho(goOn <-chan struct{}) profiles.HandlerFunc {
	return detached(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		select {
		case <-goOn:
		case <-ctx.Done():
			return ctx.Err()
		}
		return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: req.Payload})
	})
}

func TestRS02TheRequestAboveTheBoundIsRefused(t *testing.T) {
	const bound = 128
	goOn := make(chan struct{})
	r := newRig(t, endpoint.Options{}, telling(profile(slowEcho(goOn))))
	id := func(i int) string { return fmt.Sprintf("msg-id-%09d", i) }
	for i := range bound + 1 {
		r.send(t, request(id(i), "x"))
	}
	r.wantError(t, id(bound), profiles.RateLimitExceeded)
	r.wantVerdict(t, 1, profiles.RateLimitExceeded, "in_flight", endpoint.Kept)
	if got := r.ep.Stats().Handlers; got != bound {
		t.Errorf("%d handlers run, want %d", got, bound)
	}
	r.othersAreServed(t)
	close(goOn)
	for range bound {
		if env := r.recv(t); env.MsgType != typeAnswer {
			t.Fatalf("got msg_type %d", env.MsgType)
		}
	}
	r.send(t, request(id(bound), "again")) // the places are free again
	r.wantEcho(t, id(bound), "again")
}

func TestRS02HandlersHaveABoundOverAllConnections(t *testing.T) {
	const bound, each, conns = 100, 32, 5
	goOn := make(chan struct{})
	defer close(goOn)
	opts := endpoint.Options{Bounds: endpoint.Bounds{Handlers: bound}}
	ep, rec := newEndpoint(t, opts, telling(profile(slowEcho(goOn))))
	for c := range conns {
		here, there := transport.Pipe()
		r := attach(t, ep, rec, here, there)
		for i := range each {
			r.send(t, request(fmt.Sprintf("msg-id-%04d-%04d", c, i), "x"))
		}
	}
	const most = bound - bound/8 // one identity is alone
	const over = conns*each - most
	rec.await(t, "the surplus refused", func(r *recorder) bool { return len(r.verdicts) == over })
	if got := ep.Stats().Handlers; got != most {
		t.Errorf("%d handlers run, want %d", got, most)
	}
	for n := range over {
		if v := rec.verdict(t, n+1); v.Code != profiles.RateLimitExceeded || v.Detail != "handlers" {
			t.Fatalf("verdict %+v", v)
		}
	}
}

func TestRS24HandlersOfOneIdentityLeavePlacesForAnother(t *testing.T) {
	const bound = 16
	goOn := make(chan struct{})
	defer close(goOn)
	ep, rec := newEndpoint(t, endpoint.Options{Bounds: endpoint.Bounds{Handlers: bound, PaceBudget: 1}}, telling(profile(slowEcho(goOn))))
	dial := func(identity string, requests int) {
		here, there := transport.NewPipe(transport.PipeOptions{B: identity})
		r := attach(t, ep, rec, here, there)
		for i := range requests {
			r.send(t, request(fmt.Sprintf("msg-id-%09d", i), "x"))
		}
	}
	running := func(want int) {
		t.Helper()
		for ep.Stats().Handlers < want {
			runtime.Gosched()
		}
	}
	dial("mallory", 14)
	running(14)
	dial("mallory", 1)
	rec.await(t, "the surplus refused", func(r *recorder) bool { return len(r.verdicts) == 1 })
	dial("alice", 2)
	running(16)
	dial("alice", 8) // more than the budget: others use the share of alice
	rec.await(t, "the refusals", func(r *recorder) bool { return len(r.verdicts) == 9 })
	for n := range 9 {
		if v := rec.verdict(t, n+1); v.Code != profiles.RateLimitExceeded || v.Detail != "handlers" || v.Action != endpoint.Kept {
			t.Errorf("%+v", v)
		}
	}
}

func TestRS02AHandlerAboveItsDeadlineGivesOneTerminalError(t *testing.T) {
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		for n := range 20 { // above the error budget: it is no fault of the peer
			if r.conn.Multiplexed() && n > 0 {
				r.again(t)
			}
			began := time.Now()
			id := fmt.Sprintf("msg-id-%09d", n)
			r.send(t, request(id, "x"))
			r.wantError(t, id, profiles.Internal)
			if took := time.Since(began); took != 30*time.Second {
				t.Errorf("answered after %v, want 30 s", took)
			}
			r.wantVerdict(t, n+1, profiles.Internal, "deadline", endpoint.Kept)
		}
	}, telling(profile(slowEcho(nil))))
}

// A handler that ignores its context keeps a goroutine, and nothing that the
// peer or another session could need.
func TestRS02AHandlerThatNeverReturnsKeepsNoPlace(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const bound = 4
				goOn := make(chan struct{})
				stubborn := detached(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
					<-goOn
					if got := string(req.Payload); got != "mine" {
						t.Errorf("the request changed to %q", got)
					}
					if err := w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: []byte("too late")}); !errors.Is(err, profiles.ErrFinished) {
						t.Errorf("a late answer: %v, want ErrFinished", err)
					}
					// Its lane must not have become another session's.
					_ = req.Lane.Send(context.Background(), e1.Envelope{ProfileID: testProfile, MsgType: typeBoth, Payload: []byte("too late")})
					return nil
				})
				opts := endpoint.Options{Bounds: endpoint.Bounds{InFlight: bound}}
				ep, rec := newEndpoint(t, opts, telling(profile(stubborn)))
				here, there := k.pipe()
				r := attach(t, ep, rec, here, there)
				for round := range 3 {
					for i := range bound {
						id := fmt.Sprintf("msg-id-%03d-%05d", round, i)
						if r.conn.Multiplexed() {
							r.again(t)
						}
						r.send(t, request(id, "mine"))
						if r.conn.Multiplexed() {
							r.finish(t)
						}
					}
					time.Sleep(31 * time.Second)
				}
				rec.await(t, "all refused", func(r *recorder) bool { return len(r.verdicts) == 3*bound })
				if got := ep.Stats().Handlers; got != 3*bound {
					t.Errorf("%d handlers are counted, want %d", got, 3*bound)
				}
				_ = there.Close(0)
				rec.await(t, "the session forgotten", func(r *recorder) bool { return len(r.closed) == 1 })

				// Another session, whose streams might be the lanes of the first.
				here, there = k.pipe()
				other := attach(t, ep, rec, here, there)
				for range 20 {
					if other.conn.Multiplexed() {
						other.again(t)
					}
					other.write(t, framed(e1.Envelope{ProfileID: goodProfile, MsgType: typeRequest, Payload: []byte("x")}))
					other.wantEcho(t, "0123456789abcdef", "x")
				}
				close(goOn)
				synctest.Wait()
				other.write(t, framed(e1.Envelope{ProfileID: goodProfile, MsgType: typeRequest, Payload: []byte("y")}))
				other.wantEcho(t, "0123456789abcdef", "y")
			})
		})
	}
}

func TestCloseDoesNotWaitForHandlersThatNeverReturn(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			goOn := make(chan struct{})
			defer close(goOn)
			p := profile(detached(func(context.Context, *profiles.Request, profiles.Responder) error {
				<-goOn
				return nil
			}))
			reg, err := profiles.NewRegistry(p)
			if err != nil {
				t.Fatal(err)
			}
			ep, err := endpoint.New(endpoint.Options{Registry: reg})
			if err != nil {
				t.Fatal(err)
			}
			here, there := k.pipe()
			ep.Attach(here)
			stream, err := there.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Write(framed(request("0123456789abcdef", "x"))); err != nil {
				t.Fatal(err)
			}
			for ep.Stats().Handlers == 0 {
				runtime.Gosched()
			}
			_ = ep.Close()
		})
	}
}

func TestRS02APanicIsOneInternalErrorOfThatRequest(t *testing.T) {
	boom := func() { panic("boom") }
	bad := map[string]profiles.HandlerFunc{
		"inline": func(context.Context, *profiles.Request, profiles.Responder) error { boom(); return nil },
		"inline in deferred code": func(context.Context, *profiles.Request, profiles.Responder) error {
			defer boom()
			return nil
		},
		"detached": detached(func(context.Context, *profiles.Request, profiles.Responder) error { boom(); return nil }),
		"detached in deferred code": detached(func(context.Context, *profiles.Request, profiles.Responder) error {
			defer boom()
			return nil
		}),
		"detached, while it panics already": detached(func(context.Context, *profiles.Request, profiles.Responder) error {
			defer boom()
			panic("first")
		}),
		"after it was detached": func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			if err := req.Detach(func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
				<-w.Context().Done()
				return nil
			}); err != nil {
				return err
			}
			panic("boom")
		},
		"nil": func(context.Context, *profiles.Request, profiles.Responder) error { panic(nil) },
		"detached, Goexit": detached(func(context.Context, *profiles.Request, profiles.Responder) error {
			runtime.Goexit()
			return nil
		}),
	}
	for name, h := range bad {
		t.Run(name, func(t *testing.T) {
			onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
				for n := range 20 {
					if r.conn.Multiplexed() && n > 0 {
						r.again(t)
					}
					id := fmt.Sprintf("msg-id-%09d", n)
					r.send(t, request(id, "x"))
					r.wantError(t, id, profiles.Internal)
					v := r.wantVerdict(t, n+1, profiles.Internal, "", endpoint.Kept)
					var p *endpoint.PanicError
					if !errors.As(v.Err, &p) {
						t.Fatalf("the verdict's cause is %v", v.Err)
					}
					if !strings.Contains(name, "Goexit") && !strings.Contains(string(p.Stack), "handlers_test.go") {
						t.Errorf("the stack does not lead here: %s", p.Stack)
					}
				}
				_ = r.conn.Close(0)
			}, telling(profile(h)))
		})
	}
}

// Check and Refusal belong to the profile, too.
func TestRS02APanicOfAProfilesHooksEndsNothing(t *testing.T) {
	onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		answer := request("0123456789abcdef", "x")
		answer.MsgType = typeAnswer
		r.send(t, answer)
		if v := r.rec.verdict(t, 1); v.Code != profiles.Internal {
			t.Errorf("verdict %+v", v)
		}
		r.othersAreServed(t)
	}, func() *profiles.Profile {
		p := profile(echo)
		p.Check = func(*e1.Envelope) error { panic("check") }
		p.Refusal = func(*profiles.Request, *profiles.Error) (e1.Envelope, bool) { panic("refusal") }
		return p
	}())
}

// A profile that gets the contract wrong harms its own request only.
func TestAnExchangeEndsOnce(t *testing.T) {
	var finished atomic.Int32
	var served sync.WaitGroup
	twice := func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		defer served.Done()
		_, w, err := req.Hold()
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: []byte("x")}) == nil {
					finished.Add(1)
				}
				w.Fail(errors.New("and again"))
			})
		}
		wg.Wait()
		if err := req.Detach(nil); err == nil {
			return errors.New("detached what was held")
		}
		return nil
	}
	onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		for i := range 50 {
			id := fmt.Sprintf("msg-id-%09d", i)
			served.Add(1)
			r.send(t, request(id, ""))
			r.wantEcho(t, id, "x")
			r.wantVerdict(t, i+1, profiles.OK, "", endpoint.Kept)
		}
		served.Wait() // an answer is on its way before the handler knows
		if got := finished.Swap(0); got != 50 {
			t.Errorf("%d of 50 exchanges finished", got)
		}
	}, profile(twice))
}

// An answer that is sent and then failed by Serve's own error.
func TestServeMayFailWhatItHandedOver(t *testing.T) {
	failing := func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		err := req.Detach(func(ctx context.Context, req *profiles.Request, _ profiles.Responder) error {
			<-ctx.Done()
			if string(req.Payload) != "mine" {
				t.Errorf("the copy was used for something else: %q", req.Payload)
			}
			return nil
		})
		return errors.Join(err, profiles.Errorf(profiles.NotFound, "no"))
	}
	onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		for i := range 10 {
			id := fmt.Sprintf("msg-id-%09d", i)
			r.send(t, request(id, "mine"))
			r.wantError(t, id, profiles.NotFound)
		}
		_ = r.conn.Close(0)
	}, telling(profile(failing)))
}

// A peer that leaves is no failure of the handler that was working for it.
func TestAPeerThatLeavesIsNotAReject(t *testing.T) {
	onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.send(t, request("0123456789abcdef", "x"))
		for r.ep.Stats().Handlers == 0 {
			runtime.Gosched()
		}
		_ = r.conn.Close(0)
		r.wantVerdict(t, 1, profiles.OK, "gone", endpoint.Kept)
	}, telling(profile(slowEcho(nil))))
}

func TestAStoreThatWaitedForAPeerThatLeavesIsNotAReject(t *testing.T) {
	onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.send(t, request("0123456789abcdef", "x"))
		for r.ep.Stats().Handlers == 0 {
			runtime.Gosched()
		}
		_ = r.conn.Close(0)
		r.wantVerdict(t, 1, profiles.OK, "gone", endpoint.Kept)
	}, telling(profile(detached(func(ctx context.Context, _ *profiles.Request, _ profiles.Responder) error {
		<-ctx.Done()
		return profiles.Unavailable(context.Cause(ctx))
	}))))
}

func TestWhatASessionThatIsClosedCanNotTakeIsNotAReject(t *testing.T) {
	onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.send(t, request("0123456789abcdef", "x"))
		r.wantVerdict(t, 1, profiles.OK, "gone", endpoint.Kept)
	}, telling(profile(detached(func(ctx context.Context, req *profiles.Request, _ profiles.Responder) error {
		req.Session.(*endpoint.Session).Close(profiles.OK)
		_, err := req.Session.Open(ctx)
		return profiles.Unavailable(err)
	}))))
}

// An identity that asks again for each handler that ends comes into its share.
func TestFairnessOfHandlers(t *testing.T) {
	measure := func(flooded bool) int {
		ends := map[string]chan struct{}{"mallory": make(chan struct{}, 64), "alice": make(chan struct{}, 64)}
		ep, rec := newEndpoint(t, endpoint.Options{Bounds: endpoint.Bounds{Handlers: 16}},
			telling(profile(detached(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
				<-ends[req.Identity()]
				return w.Finish(e1.Envelope{MsgType: typeAnswer})
			}))))
		rigs, whose, asked, ended := map[string]*rig{}, map[string]int{}, 0, 0
		for identity := range ends {
			here, there := transport.NewPipe(transport.PipeOptions{B: identity})
			rigs[identity] = attach(t, ep, rec, here, there)
		}
		ask := func(identity string) (served bool) {
			t.Helper()
			before := ep.Stats().Handlers
			rigs[identity].send(t, request(fmt.Sprintf("msg-id-%09d", asked), "x"))
			asked++
			for {
				rec.mu.Lock()
				over := len(rec.verdicts)
				rec.mu.Unlock()
				if served = ep.Stats().Handlers > before; served || over > ended {
					if served {
						whose[identity]++
					} else {
						ended++
					}
					return served
				}
				runtime.Gosched()
			}
		}
		if flooded {
			for ask("mallory") {
			}
		}
		for ask("alice") {
		}
		for range whose["mallory"] {
			ends["mallory"] <- struct{}{}
			ended++
			rec.await(t, "the end of a handler", func(r *recorder) bool { return len(r.verdicts) == ended })
			for before := 16; ep.Stats().Handlers >= before; {
				runtime.Gosched()
			}
			whose["mallory"]--
			ask("mallory")
			if !ask("alice") {
				break
			}
		}
		n := whose["alice"]
		for _, end := range ends {
			close(end)
		}
		return n
	}
	fairtest.Row(t, "endpoint: handlers", "places of 16", measure(false), measure(true))
}

// An answer of a detached handler that waits for the peer to read does not keep the lane from
// reading on, even if it began before Serve returned.
func TestALaneIsReadWhileADetachedAnswerWaits(t *testing.T) {
	payload := string(make([]byte, 2<<20))
	begun, second := make(chan struct{}), make(chan struct{}, 2)
	onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.send(t, request("0123456789abcdef", payload))
		in := bufio.NewReader(r.raw)
		if _, err := in.Peek(1); err != nil { // the answer is being written
			t.Fatal(err)
		}
		begun <- struct{}{}
		r.send(t, request("0123456789abcdee", "x"))
		select {
		case <-second:
		case <-time.After(10 * time.Second):
			t.Fatal("the second request was not read while the answer to the first waits")
		}
		r.in = frame.NewReader(in, frame.Options{})
		r.wantEcho(t, "0123456789abcdef", payload)
		r.wantEcho(t, "0123456789abcdee", "x")
	}, profile(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
		large := len(req.Payload) > 1
		if err := req.Detach(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
			return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: req.Payload})
		}); err != nil {
			return err
		}
		if large {
			<-begun
		} else {
			second <- struct{}{}
		}
		return nil
	}))
}
