package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// gauge counts how many handlers run at once, and at most ran.
type gauge struct{ now, most atomic.Int64 }

// enter counts one in; the function counts it out.
func (g *gauge) enter() func() {
	n := g.now.Add(1)
	for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
	}
	return func() { g.now.Add(-1) }
}

// stubborn takes a while and does not look at its context.
func (g *gauge) stubborn(d time.Duration) *profiles.Profile {
	return telling(profile(detached(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
		defer g.enter()()
		time.Sleep(d)
		return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: req.Payload})
	})))
}

func TestQU01HandlersNeverExceedTheStreamLimitAfterResets(t *testing.T) {
	const streams = 16
	synctest.Test(t, func(t *testing.T) {
		var g gauge
		ep, rec := newEndpoint(t, endpoint.Options{}, g.stubborn(time.Second))
		here, there := transport.NewPipe(transport.PipeOptions{Multiplexed: true, Streams: streams})
		r := attach(t, ep, rec, here, there)
		_ = r.raw.CloseWrite()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		opened := 0
		for {
			stream, err := there.Open(ctx)
			if err != nil {
				break
			}
			opened++
			if _, err := stream.Write(framed(request(fmt.Sprintf("msg-id-%09d", opened), "x"))); err != nil {
				break
			}
			synctest.Wait()
			stream.Reset(1)
		}
		if most := g.most.Load(); most > streams {
			t.Errorf("%d handlers ran at once, the peer may have %d streams", most, streams)
		}
		// 20 s with handlers of 1 s: it was not stopped altogether either.
		if opened < 10*streams {
			t.Errorf("only %d streams in 20 s", opened)
		}
		r.othersAreServed(t)
	})
}

func TestQU01ResetsOverTheBudgetCloseTheConnection(t *testing.T) {
	const budget = 50
	synctest.Test(t, func(t *testing.T) {
		var g gauge
		opts := endpoint.Options{Bounds: endpoint.Bounds{PaceBudget: budget}}
		r := newRigOn(t, transport.MuxPipe, opts, g.stubborn(time.Millisecond))
		n := 0
		for ; r.conn.Context().Err() == nil && n < 10*budget; n++ {
			stream, err := r.conn.Open(t.Context())
			if err != nil {
				break
			}
			if _, err := stream.Write(framed(request(fmt.Sprintf("msg-id-%09d", n), "x"))); err != nil {
				break
			}
			synctest.Wait()
			stream.Reset(1)
			time.Sleep(10 * time.Millisecond)
		}
		if n < budget || n > budget+2 {
			t.Errorf("closed after %d resets, want %d", n, budget+1)
		}
		wantClose(t, r.conn, profiles.RateLimitExceeded)
		r.othersAreServed(t)
	})
}

// The same with errors that make this side reset.
func TestQU01ErrorsThatResetStreamsSpendTheErrorBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, transport.MuxPipe, endpoint.Options{}, profile(echo))
		n := 0
		for ; r.conn.Context().Err() == nil && n < 100; n++ {
			stream, err := r.conn.Open(t.Context())
			if err != nil {
				break
			}
			_, _ = stream.Write(make([]byte, 4))
			synctest.Wait()
		}
		if n != 17 {
			t.Errorf("closed after %d broken frames, want 17", n)
		}
		wantClose(t, r.conn, profiles.RateLimitExceeded)
	})
}

// wantClose wants the connection to have been closed with a code.
func wantClose(t *testing.T, conn transport.Conn, code profiles.Code) {
	t.Helper()
	<-conn.Context().Done()
	var closed *transport.CloseError
	if err := context.Cause(conn.Context()); !errors.As(err, &closed) || !closed.Remote || closed.Code != uint64(code) {
		t.Errorf("the connection ended with %v, want code %d", err, code)
	}
}

func TestQU02AResetEndsTheHandlersContext(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		ended := make(chan struct{}, 2)
		how := func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			if string(req.Payload) == "hold" {
				_, w, err := req.Hold()
				if err == nil {
					context.AfterFunc(w.Context(), func() { w.Fail(nil); ended <- struct{}{} })
				}
				return err
			}
			return req.Detach(func(ctx context.Context, _ *profiles.Request, w profiles.Responder) error {
				for ctx.Err() == nil { // a streamed answer
					if err := w.Send(e1.Envelope{MsgType: typeAnswer, Payload: []byte("item")}); err != nil {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				ended <- struct{}{}
				return nil //nolint:nilerr // that is how it is told to stop
			})
		}
		r := newRigOn(t, pipe, endpoint.Options{}, profile(how))
		for i, kind := range []string{"hold", "stream"} {
			if i > 0 {
				r.again(t)
			}
			r.send(t, request("0123456789abcdef", kind))
			synctest.Wait()
			began := time.Now()
			r.raw.Reset(1)
			<-ended
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: the context ended after %v", kind, took)
			}
			r.wantVerdict(t, i+1, profiles.OK, "", endpoint.Kept)
		}
	})
}

func TestQU02AConnectionThatIsDroppedLeavesNothing(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		r := newRigOn(t, pipe, endpoint.Options{}, telling(profile(slowEcho(nil))))
		for i := range 50 {
			if r.conn.Multiplexed() && i > 0 {
				r.again(t)
			}
			r.send(t, request(fmt.Sprintf("msg-id-%09d", i), "x"))
		}
		synctest.Wait()
		began := time.Now()
		_ = r.conn.Close(0)
		r.rec.await(t, "all over", func(rec *recorder) bool { return len(rec.closed) == 1 && len(rec.verdicts) == 50 })
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		synctest.Wait()
		// The well-behaved peer's session is the one that is left.
		if got := (endpoint.Stats{Sessions: 1}); r.ep.Stats() != got {
			t.Errorf("left behind: %+v", r.ep.Stats())
		}
	})
}

func TestQU03StreamsFullOfPartialFramesShareTheBudgetOfTheirConnection(t *testing.T) {
	const perConn, streams = 2 << 20, 64
	synctest.Test(t, func(t *testing.T) {
		opts := endpoint.Options{Bounds: endpoint.Bounds{InFlightBytesPerConn: perConn}}
		r := newRigOn(t, transport.MuxPipe, opts, profile(echo))
		var writers sync.WaitGroup
		for i := range streams {
			if i > 0 {
				r.open(t)
			}
			stream := r.raw
			writers.Go(func() {
				_, _ = stream.Write([]byte{0, 0x80, 0, 0}) // 8 MiB
				_, _ = stream.Write(make([]byte, 4<<20))
			})
		}
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if got := r.ep.Stats().InFlightBytes; got > perConn {
				t.Fatalf("%d octets are held, want at most %d", got, perConn)
			}
		}
		r.othersAreServed(t)
		_ = r.conn.Close(0)
		writers.Wait()
	})
}

// A refusal resets the stream that it is about, and what was sent on it later is lost.
func TestQU06ARefusedMessageTakesNoneOfAnotherProfileWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Int64
		there, _ := newEndpoint(t, endpoint.Options{}, profile(counting(func(*profiles.Request) { heard.Add(1) })))
		here, _ := newEndpoint(t, endpoint.Options{}, profile(echo))
		a, b := transport.MuxPipe()
		there.Attach(b)
		s := here.Attach(a)
		const tries = 8 // below the error budget
		for range tries {
			// The first is not served there. Its error is that of its stream, if the refusal of the
			// one before has ended that.
			_ = s.Send(t.Context(), e1.Envelope{ProfileID: testProfile + 1000, MsgType: typeRequest})
			if err := s.Send(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := heard.Load(); n != tries {
			t.Errorf("%d messages have arrived, want %d", n, tries)
		}
	})
}

func TestQU06AMalformedFrameCostsItsOwnStreamOnly(t *testing.T) {
	const busy = 10
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		r := newRigOn(t, transport.MuxPipe, endpoint.Options{}, profile(slowEcho(goOn)))
		var others []*rig
		for i := range busy {
			other := *r
			other.open(t)
			other.send(t, request(fmt.Sprintf("msg-id-%09d", i), "busy"))
			others = append(others, &other)
		}
		synctest.Wait()
		for n := range 16 {
			r.again(t)
			r.write(t, []byte{0, 0, 0, 1, 0xff})
			r.wantVerdict(t, n+1, profiles.InvalidFrame, "ERR_INVALID_UVARINT", endpoint.Reset)
			var closed *transport.CloseError
			if err := r.ended(); !errors.As(err, &closed) || !closed.Remote || closed.Code != uint64(profiles.InvalidFrame) {
				t.Errorf("the stream ends with %v, want code %d", err, profiles.InvalidFrame)
			}
		}
		close(goOn)
		for i, other := range others {
			other.wantEcho(t, fmt.Sprintf("msg-id-%09d", i), "busy")
		}
		r.rec.verdict(t, 16+busy) // an answer is seen before its verdict
		// The budget is the connection's.
		r.again(t)
		r.write(t, []byte{0, 0, 0, 1, 0xff})
		r.wantVerdict(t, 17+busy, profiles.InvalidFrame, "ERR_INVALID_UVARINT", endpoint.Closed)
		wantClose(t, r.conn, profiles.RateLimitExceeded)
	})
}

// The stream of Send may be reset by the peer at any time.
func TestSendOpensAnotherStreamAfterAReset(t *testing.T) {
	got := make(chan string, 1000)
	one, _ := newEndpoint(t, endpoint.Options{}, profile(echo))
	two, _ := newEndpoint(t, endpoint.Options{}, profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		got <- string(req.Payload)
		if string(req.Payload) == "reset" {
			return profiles.Errorf(profiles.NotFound, "no") // and no way to say so: a reset
		}
		return nil
	}))
	x, y := transport.MuxPipe()
	s := one.Attach(x)
	two.Attach(y)
	send := func(payload string) {
		t.Helper()
		if err := s.Send(t.Context(), request("", payload)); err != nil && s.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	send("reset")
	<-got
	// One of the next is the first on a new stream.
	for i := 0; len(got) == 0; i++ {
		send(fmt.Sprint(i))
		time.Sleep(time.Millisecond)
	}
}

// A refusal that resets a stream takes back no answer, and no open exchange of the stream
// finds an orderly end. The peer reads nothing until the stream has been reset.
func TestARefusalEndsTheOpenExchangesOfItsStreamWithItsCode(t *testing.T) {
	holding := func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		if string(req.Payload) != "hold" {
			return echo(ctx, req, w)
		}
		_, held, err := req.Hold()
		if err == nil {
			context.AfterFunc(held.Context(), func() { held.Fail(nil) })
		}
		return err
	}
	refused := func(t *testing.T, r *rig, c refusedOnAStream) {
		large := strings.Repeat("x", 40<<10) // more than one packet
		r.send(t, request("answered-before", large))
		if c.open {
			r.send(t, request("still-open-here", "hold"))
		}
		r.send(t, c.env)
		r.rec.await(t, "the refusal", func(rec *recorder) bool {
			return slices.ContainsFunc(rec.verdicts, func(v endpoint.Verdict) bool { return v.Action == endpoint.Reset })
		})
		<-r.raw.Context().Done() // the reset has arrived
		r.wantEcho(t, "answered-before", large)
		if c.told {
			r.wantErrorFrame(t, "", c.code, 0)
		}
		var closed *transport.CloseError
		if err := r.ended(); !errors.As(err, &closed) || !closed.Remote || !closed.Stream || closed.Code != uint64(c.code) {
			t.Errorf("the stream ends with %v, want code %d", err, c.code)
		}
	}
	for _, c := range []refusedOnAStream{
		{name: "an unlisted type", env: e1.Envelope{ProfileID: testProfile, MsgType: 99}, code: profiles.UnsupportedMsgType},
		{name: "an unlisted type, another exchange open", env: e1.Envelope{ProfileID: testProfile, MsgType: 99}, code: profiles.UnsupportedMsgType, open: true},
		{name: "another version, with the error path", env: e1.Envelope{Version: 9}, code: profiles.UnsupportedVersion, open: true, told: true},
	} {
		opts := endpoint.Options{ErrorFrames: c.told}
		t.Run(c.name+"/pipe", func(t *testing.T) { refused(t, newRigOn(t, transport.MuxPipe, opts, profile(holding)), c) })
		t.Run(c.name+"/quic", func(t *testing.T) {
			transporttest.NoLeaks(t)
			refused(t, listen(t, "quic", opts, profile(holding)).dial(t), c)
		})
	}
}

// refusedOnAStream is a message that ends its stream, and what else is on the stream.
type refusedOnAStream struct {
	name string
	env  e1.Envelope
	code profiles.Code
	open bool // another exchange is open
	told bool // the error path says why
}
