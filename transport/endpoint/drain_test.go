package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// shutdown drains an endpoint in the background.
func shutdown(ep *endpoint.Endpoint, patience time.Duration) <-chan error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		done <- ep.Shutdown(ctx)
	}()
	return done
}

func TestShutdownLetsExchangesEndAndRefusesNewOnes(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		goOn := make(chan struct{}, 1)
		r := newRigOn(t, pipe, endpoint.Options{}, telling(profile(slowEcho(goOn))))
		r.good = nil
		r.send(t, request("in-flight-------", "x"))
		synctest.Wait()
		done := shutdown(r.ep, 10*time.Second)
		synctest.Wait()
		r.send(t, request("too-late--------", "x"))
		r.wantError(t, "too-late--------", profiles.RateLimitExceeded)
		r.wantVerdict(t, 1, profiles.RateLimitExceeded, "draining", endpoint.Kept)
		time.Sleep(5 * time.Second)
		goOn <- struct{}{}
		r.wantEcho(t, "in-flight-------", "x")
		r.wantEnd(t)
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if r.ep.Stats().Sessions != 0 {
			t.Error("sessions are left")
		}
	})
}

// A session that lingers ends when it is released, and not before: its peer can still be told
// something.
func TestADrainedSessionLingersUntilItIsReleased(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		r := newRigOn(t, pipe, endpoint.Options{}, profile(echo))
		r.good = nil
		r.send(t, request("before----------", "x"))
		r.wantEcho(t, "before----------", "x")
		var s *endpoint.Session
		for s = range r.ep.Sessions() {
			break
		}
		release := s.Linger()
		s.Drain()
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := context.Cause(s.Context()); err != nil {
			t.Fatalf("the session ended with %v before it was released", err)
		}
		release()
		r.wantEnd(t)
	})
}

// What belongs to an exchange that is open is not new, such as its cancellation, or the Result
// with which the asking side ends a task.
func TestShutdownServesWhatBelongsToOpenExchanges(t *testing.T) {
	for _, role := range []profiles.Role{profiles.Concluding, profiles.Within} {
		servesWhileDraining(t, role)
	}
}

func servesWhileDraining(t *testing.T, role profiles.Role) {
	t.Helper()
	virtually(t, func(t *testing.T, pipe pipe) {
		held := make(chan profiles.Responder, 1)
		p := profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			if req.MsgType == typeBoth {
				(<-held).Fail(nil)
				return nil
			}
			_, w, err := req.Hold()
			held <- w
			return err
		})
		p.Types[typeBoth-1].Role |= role
		r := newRigOn(t, pipe, endpoint.Options{}, p)
		r.good = nil
		r.send(t, request("in-flight-------", "x"))
		synctest.Wait()
		done := shutdown(r.ep, 10*time.Second)
		synctest.Wait()
		cancel := request("cancel----------", "x")
		cancel.MsgType = typeBoth
		r.send(t, cancel)
		r.wantEnd(t)
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

func TestShutdownOfAnIdleSessionIsOrderly(t *testing.T) {
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.good = nil
		r.send(t, request("0123456789abcdef", "x"))
		r.wantEcho(t, "0123456789abcdef", "x")
		time.Sleep(time.Second) // its buffers have gone back
		began := time.Now()
		done := shutdown(r.ep, 10*time.Second)
		r.wantEnd(t)
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestShutdownEndsAtItsContext(t *testing.T) {
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.good = nil
		r.send(t, request("0123456789abcdef", "x"))
		synctest.Wait()
		began := time.Now()
		if err := <-shutdown(r.ep, 10*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v, want the error of its context", err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
		r.wantVerdict(t, 1, profiles.OK, "gone", endpoint.Kept)
	}, profile(slowEcho(nil)))
}

// What was accepted inline before the shutdown is answered in full, however
// long the peer takes to read it.
func TestShutdownWritesWhatIsQueued(t *testing.T) {
	payload := string(make([]byte, 2<<20))
	how := map[string]profiles.HandlerFunc{
		"inline": echo,
		"detached": detached(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
			return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: req.Payload})
		}),
		"held": func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			kept, w, err := req.Hold()
			if err == nil {
				err = w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: kept.Payload})
			}
			return err
		},
	}
	for name, h := range how {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
				r.good = nil
				r.send(t, request("0123456789abcdef", payload))
				synctest.Wait()
				done := shutdown(r.ep, time.Minute)
				slow := &slowReader{r.raw, 64 << 10, 100 * time.Millisecond}
				r.in = frame.NewReader(slow, frame.Options{})
				r.wantEcho(t, "0123456789abcdef", payload)
				r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
				r.wantEnd(t)
				if err := <-done; err != nil {
					t.Errorf("Shutdown: %v", err)
				}
			}, profile(h))
		})
	}
}

// A connection that arrives during the shutdown is refused.
func TestShutdownRefusesConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, held := parking(t)
		r := newRigOn(t, transport.Pipe, endpoint.Options{}, p)
		r.good = nil
		r.send(t, request("0123456789abcdef", "x"))
		one := <-held
		done := shutdown(r.ep, time.Minute)
		synctest.Wait() // it has begun, and waits for the exchange
		late, _ := transport.Pipe()
		if cause := context.Cause(r.ep.Attach(late).Context()); !errors.Is(cause, endpoint.ErrShutdown) {
			t.Errorf("the session ended with %v, want %v", cause, endpoint.ErrShutdown)
		}
		r.rec.await(t, "a connection refused", func(r *recorder) bool { return r.refused == 1 })
		one.w.Fail(nil)
		r.wantEnd(t)
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// Calls of this side count as in flight, too.
func TestShutdownWaitsForCallsOfThisSide(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				goOn := make(chan struct{})
				one, _ := newEndpoint(t, endpoint.Options{}, profile(echo))
				two, _ := newEndpoint(t, endpoint.Options{}, profile(slowEcho(goOn)))
				x, y := k.pipe()
				s := one.Attach(x)
				two.Attach(y)
				answer := make(chan string)
				go func() { answer <- ask(t, s, "x") }()
				synctest.Wait()
				done := shutdown(one, 10*time.Second)
				time.Sleep(5 * time.Second)
				select {
				case err := <-done:
					t.Fatalf("Shutdown returned %v with a call in flight", err)
				default:
				}
				close(goOn)
				if got := <-answer; got != "x" {
					t.Errorf("answer %q", got)
				}
				if err := <-done; err != nil {
					t.Errorf("Shutdown: %v", err)
				}
			})
		})
	}
}

// Every request that was sent before the end of the stream is answered or
// refused: none is accepted and then dropped.
func TestShutdownUnderLoadLosesNoAcceptedRequest(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			for round := range 4 {
				one, _ := newEndpoint(t, endpoint.Options{}, telling(profile(echo)))
				two, rec := newEndpoint(t, endpoint.Options{}, telling(profile(echo)))
				x, y := k.pipe()
				s := one.Attach(x)
				two.Attach(y)
				answered := make(chan int)
				for range 8 {
					go func() {
						n := 0
						for i := 0; ; i++ {
							if _, err := try(context.Background(), s, fmt.Sprint(i)); err != nil {
								break
							}
							n++
						}
						answered <- n
					}()
				}
				rec.await(t, "load", func(r *recorder) bool { return len(r.verdicts) > 100*round })
				if err := <-shutdown(two, 10*time.Second); err != nil {
					t.Errorf("Shutdown: %v", err)
				}
				got := 0
				for range 8 {
					got += <-answered
				}
				rec.mu.Lock()
				accepted := 0
				for _, v := range rec.verdicts {
					if v.Code == profiles.OK {
						accepted++
					}
				}
				rec.mu.Unlock()
				if got < accepted {
					t.Errorf("round %d: %d requests were accepted, %d answered", round, accepted, got)
				}
			}
		})
	}
}

// A peer that has not heard of the shutdown may send requests until the connection is closed. Each
// is refused, so that it can be sent elsewhere; a loss would leave open whether it had an effect.
func TestRequestsAreRefusedUntilADrainedConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, _ := newEndpoint(t, endpoint.Options{}, telling(profile(echo)))
		two, _ := newEndpoint(t, endpoint.Options{}, telling(profile(echo)))
		x, y := transport.MuxPipe()
		s := one.Attach(x)
		two.Attach(y)
		if _, err := try(t.Context(), s, "before"); err != nil {
			t.Fatal(err)
		}
		done := shutdown(two, 10*time.Second)
		synctest.Wait()
		refused := 0
		// The interval does not divide the time after which the connection is closed, so that no request
		// is under way at that moment. The connection may need that time twice.
		const interval, most = 7 * time.Millisecond, 300
		for ; s.Context().Err() == nil && refused < most; time.Sleep(interval) {
			answer, err := try(t.Context(), s, "late")
			if answer != profiles.RateLimitExceeded.String() {
				t.Fatalf("request %d: %q, %v, want a refusal", refused+1, answer, err)
			}
			refused++
		}
		if refused == 0 || refused == most {
			t.Errorf("%d requests were refused", refused)
		}
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// A handler that answers inline, after a long wait for the disk, is no exchange in flight.
func TestADrainedConnectionIsNotClosedBeforeAnInlineAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
			time.Sleep(5 * time.Second)
			return echo(ctx, req, w)
		}
		one, _ := newEndpoint(t, endpoint.Options{}, profile(slow))
		two, _ := newEndpoint(t, endpoint.Options{}, profile(slow))
		x, y := transport.MuxPipe()
		s := one.Attach(x)
		two.Attach(y)
		answered := make(chan string)
		go func() {
			answer, err := try(t.Context(), s, "slow")
			answered <- fmt.Sprint(answer, " ", err)
		}()
		synctest.Wait()
		done := shutdown(two, 10*time.Second)
		if got := <-answered; got != "slow <nil>" {
			t.Errorf("the answer is %s", got)
		}
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

func TestAHalfClosedPeerGetsItsAnswers(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		goOn := make(chan struct{}, 10)
		r := newRigOn(t, pipe, endpoint.Options{}, profile(slowEcho(goOn)))
		r.send(t, request("msg-id-000000001", "one"))
		r.send(t, request("msg-id-000000002", "two"))
		r.finish(t)
		time.Sleep(20 * time.Second)
		goOn <- struct{}{}
		goOn <- struct{}{}
		got := map[string]string{}
		for range 2 {
			env := r.recv(t)
			got[string(env.MsgID)] = string(env.Payload)
		}
		if got["msg-id-000000001"] != "one" || got["msg-id-000000002"] != "two" {
			t.Errorf("answers %v", got)
		}
		r.wantEnd(t)
		if !r.conn.Multiplexed() {
			r.rec.await(t, "session closed", func(r *recorder) bool { return len(r.closed) == 1 })
		}
	})
}

// A subscriber that is gone would keep its subscription for ever: on TCP only
// a write shows it.
func TestAHalfClosedPeerKeepsNoLongExchange(t *testing.T) {
	p := profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		_, w, err := req.HoldLong()
		if err == nil {
			context.AfterFunc(w.Context(), func() { w.Fail(nil) })
		}
		return err
	})
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.send(t, request("0123456789abcdef", "subscribe"))
		synctest.Wait()
		began := time.Now()
		r.finish(t)
		if r.conn.Multiplexed() {
			return // there the peer's end of the connection is seen
		}
		r.wantEnd(t)
		r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	}, p)
}
