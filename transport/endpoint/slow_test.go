package endpoint_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// hose holds the request and sends events of the given size without end, as
// fast as it may, from a goroutine that never waits.
func hose(size int) (p *profiles.Profile, sent func() int) {
	var mu sync.Mutex
	n := 0
	p = profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		_, w, err := req.HoldLong()
		if err != nil {
			return err
		}
		go func() {
			event := e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, size)}
			for w.Send(event) == nil {
				mu.Lock()
				n += size
				mu.Unlock()
				time.Sleep(time.Millisecond)
			}
			w.Fail(nil)
		}()
		return nil
	})
	return p, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func TestRS05ASlowConsumerIsClosedWithinItsWriteDeadline(t *testing.T) {
	for _, size := range []int{100, 64 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			virtually(t, func(t *testing.T, pipe pipe) {
				p, sent := hose(size)
				r := newRigOn(t, pipe, endpoint.Options{}, p)
				began := time.Now()
				r.send(t, request("0123456789abcdef", "subscribe"))
				r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
				if took := time.Since(began); took > 11*time.Second {
					t.Errorf("closed after %v, want at most 11 s", took)
				}
				// The pipe's buffer, what is under way, the queue.
				if limit := 16<<20 + 4*max(size, 64<<10); sent() > limit {
					t.Errorf("%d octets were queued, want at most %d", sent(), limit)
				}
				if !r.conn.Multiplexed() {
					r.rec.await(t, "the session closed", func(r *recorder) bool { return len(r.closed) == 1 })
				}
				r.othersAreServed(t)
			})
		})
	}
}

// A consumer that reads, if slower than events come for a moment, is served.
func TestRS05AConsumerThatReadsIsNotClosed(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		const events, size = 3000, 1000
		held := make(chan profiles.Responder, 1)
		r := newRigOn(t, pipe, endpoint.Options{}, holdLong(held))
		r.send(t, request("0123456789abcdef", "subscribe"))
		w := <-held
		go func() {
			for range events {
				if err := w.Send(e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, size)}); err != nil {
					t.Errorf("an event is refused: %v", err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		for range events {
			r.wantEcho(t, "0123456789abcdef", string(make([]byte, size)))
			time.Sleep(1500 * time.Microsecond)
		}
	})
}

// A large frame over a slow link takes longer than a stalled peer is given.
func TestRS05APeerThatTakesALargeFrameSlowlyIsServed(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		payload := make([]byte, 6<<20)
		answer := detached(func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
			return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: payload})
		})
		r := newRigOn(t, pipe, endpoint.Options{Bounds: endpoint.Bounds{Handler: time.Hour}}, profile(answer))
		r.send(t, request("0123456789abcdef", "x"))
		buf := make([]byte, 128<<10)
		for took := 0; took < len(payload); {
			time.Sleep(time.Second)
			n, err := r.raw.Read(buf)
			if took += n; err != nil {
				t.Fatalf("after %d octets: %v", took, err)
			}
		}
		r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
	})
}

func TestRS05WorkThatMayWaitWaitsForASlowReader(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		const items, size = 200, 20 << 10
		stream := detached(func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
			for range items {
				if err := w.Send(e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, size)}); err != nil {
					return err
				}
			}
			return nil
		})
		opts := endpoint.Options{Bounds: endpoint.Bounds{OutboundBytes: 256 << 10}}
		r := newRigOn(t, pipe, opts, profile(stream))
		r.send(t, request("0123456789abcdef", "x"))
		synctest.Wait()
		if n := r.rec.count(); n != 0 {
			t.Fatalf("%d octets are queued above the bound", items*size)
		}
		for range items {
			time.Sleep(10 * time.Millisecond)
			r.wantEcho(t, "0123456789abcdef", string(make([]byte, size)))
		}
		r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
	})
}

// Inline answers have no queue: a peer that does not read is not read.
func TestRS05InlineAnswersToAPeerThatDoesNotReadAreBounded(t *testing.T) {
	// One detached answer is being written by another goroutine meanwhile.
	mixed := func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		if string(req.Payload) != "detach" {
			return echo(ctx, req, w)
		}
		return req.Detach(func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
			return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, 1<<20)})
		})
	}
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		began := time.Now()
		r.send(t, request("0123456789abcdef", "detach"))
		synctest.Wait()
		var taken atomic.Int64
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			chunk := framed(request("0123456789abcdef", string(make([]byte, 20<<10))))
			for {
				n, err := r.raw.Write(chunk)
				if taken.Add(int64(n)); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		if got := taken.Load(); got > 1<<20 {
			t.Errorf("%d octets of requests were taken whose answers nobody reads", got)
		}
		<-stopped
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("closed after %v, want at most 11 s", took)
		}
	}, profile(mixed))
}

// Two peers that ask each other for much at once must not wait for one another
// for ever: each would write an answer and, until it is written, not read.
func TestBothEndsMayAskForMuchAtOnce(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		one, _ := newEndpoint(t, endpoint.Options{}, profile(echo))
		two, _ := newEndpoint(t, endpoint.Options{}, profile(echo))
		x, y := pipe()
		a, b := one.Attach(x), two.Attach(y)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 8 {
			s := []*endpoint.Session{a, b}[i%2]
			payload := string(make([]byte, (1+i)*80<<10))
			wg.Go(func() {
				for range 4 {
					if got := ask(t, s, payload); len(got) != len(payload) {
						t.Errorf("answer of %d octets, want %d", len(got), len(payload))
					}
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v of virtual time: somebody waited for somebody", took)
		}
	})
}

// A caller that does not receive bounds what its peer can make it hold.
func TestAnswersNobodyReceivesAreBounded(t *testing.T) {
	stream := detached(func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
		for range 5000 {
			if err := w.Send(e1.Envelope{MsgType: typeAnswer, Payload: []byte("item")}); err != nil {
				return err
			}
		}
		return nil
	})
	virtually(t, func(t *testing.T, pipe pipe) {
		caller, _ := newEndpoint(t, endpoint.Options{}, profile(stream))
		served, _ := newEndpoint(t, endpoint.Options{}, profile(stream))
		x, y := pipe()
		a := caller.Attach(x)
		served.Attach(y)
		c, err := a.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		synctest.Wait()
		if lost := caller.Stats().Unreceived; lost != 5000-1024 {
			t.Errorf("%d lost answers were counted, want %d of 5000", lost, 5000-1024)
		}
		n := 0
		for {
			_, err = c.Recv(t.Context())
			if err != nil {
				break
			}
			n++
		}
		if n != 1024 {
			t.Errorf("%d answers were kept, want 1024", n)
		}
		if got := endpoint.CodeOf(err); got.Code != profiles.RateLimitExceeded || got.Detail != "slow_caller" || got.Retryable {
			t.Errorf("the call ends with %v", err)
		}
	})
}

// What a caller gives up on a stream of its own ends at the other side, too,
// and costs neither side its connection.
func TestACallThatIsGivenUpEndsItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		endless := detached(func(ctx context.Context, _ *profiles.Request, w profiles.Responder) error {
			for {
				if err := w.Send(e1.Envelope{MsgType: typeAnswer, Payload: []byte("item")}); err != nil {
					ended <- err
					return err
				}
				select {
				case <-ctx.Done():
					ended <- ctx.Err()
					return ctx.Err()
				case <-time.After(time.Millisecond):
				}
			}
		})
		a, _ := pair(t, transport.MuxPipe, endless)
		c, err := a.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := c.Recv(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		c.Close()
		<-ended
		if took := time.Since(began); took > time.Second {
			t.Errorf("the handler went on for %v", took)
		}
		if a.Context().Err() != nil {
			t.Error("it cost the connection")
		}
	})
}

func TestACallOnASessionThatHasEndedFails(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			a, b := pair(t, k.pipe, echo)
			ask(t, a, "x")
			lane, err := a.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b.Close(profiles.OK)
			<-a.Context().Done()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 100 {
						if _, err := try(t.Context(), a, "x"); err == nil {
							t.Error("a call succeeds")
						}
						if err := a.Send(t.Context(), request("", "x")); err == nil {
							t.Error("a message was sent")
						}
						if _, err := lane.Call(t.Context(), request("", "x")); err == nil {
							t.Error("a call on a lane succeeds")
						}
					}
				})
			}
			wg.Wait()
			_ = lane.Close()
		})
	}
}
