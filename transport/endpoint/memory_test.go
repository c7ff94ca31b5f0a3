package endpoint_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// halfAFrame announces a frame of size octets and sends half of it.
func (r *rig) halfAFrame(t *testing.T, size int) {
	t.Helper()
	r.write(t, append(binary.BigEndian.AppendUint32(nil, uint32(size)), make([]byte, size/2)...))
}

func TestRS03LargeFramesShareABudgetAndSmallOnesNeedNone(t *testing.T) {
	effort.Unwatched(t)
	const budget = 4 << 20
	virtually(t, func(t *testing.T, pipe pipe) {
		opts := endpoint.Options{Bounds: endpoint.Bounds{InFlightBytes: budget}}
		ep, rec := newEndpoint(t, opts, profile(echo))
		var peers []*rig
		for range 10 {
			here, there := pipe()
			r := attach(t, ep, rec, here, there)
			peers = append(peers, r)
			go func() { // what is above the budget is not read
				_, _ = r.raw.Write(append(binary.BigEndian.AppendUint32(nil, 2<<20), make([]byte, 1<<20)...))
			}()
		}
		synctest.Wait()
		if got := ep.Stats().InFlightBytes; got == 0 || got > budget {
			t.Errorf("%d octets are held, want 1 to %d", got, budget)
		}
		// A small frame on a connection of its own is served meanwhile.
		peers[0].othersAreServed(t)
		// Those that got no room are told at their deadline; it is not the
		// peer's fault, but its stream cannot be resynchronised.
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		rec.mu.Lock()
		busy := 0
		for _, v := range rec.verdicts {
			switch {
			case v.Code == profiles.RateLimitExceeded && v.Detail == "in_flight_bytes":
				busy++
			case v.Code != profiles.InvalidFrame || v.Detail != "slow":
				t.Errorf("verdict %+v", v)
			}
		}
		rec.mu.Unlock()
		if busy == 0 {
			t.Error("no large frame was refused for want of room")
		}
		// It recovers without a restart.
		for _, p := range peers {
			_ = p.conn.Close(0)
		}
		synctest.Wait()
		if got := ep.Stats().InFlightBytes; got != 0 {
			t.Errorf("%d octets are held for nobody", got)
		}
		here, there := pipe()
		r := attach(t, ep, rec, here, there)
		payload := string(make([]byte, 1<<20))
		r.send(t, request("0123456789abcdef", payload))
		r.wantEcho(t, "0123456789abcdef", payload)
	})
}

// A large frame that finds the budget spent is served when there is room again.
func TestRS03ALargeFrameWaitsForRoom(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		opts := endpoint.Options{Bounds: endpoint.Bounds{InFlightBytes: 1200 << 10}}
		ep, rec := newEndpoint(t, opts, profile(echo))
		here, there := pipe()
		first := attach(t, ep, rec, here, there)
		first.halfAFrame(t, 1<<20)
		synctest.Wait()
		here, there = pipe()
		second := attach(t, ep, rec, here, there)
		payload := string(make([]byte, 1<<20))
		go func() { _, _ = second.raw.Write(framed(request("0123456789abcdef", payload))) }()
		time.Sleep(3 * time.Second)
		if n := rec.count(); n != 0 {
			t.Fatalf("%d verdicts: there was room", n)
		}
		_ = first.conn.Close(0)
		second.wantEcho(t, "0123456789abcdef", payload)
	})
}

func TestRS03AConnectionHasABudgetOfItsOwn(t *testing.T) {
	const perConn = 1 << 20
	virtually(t, func(t *testing.T, pipe pipe) {
		held := make(chan parked, 100)
		p := telling(profile(hold(func(req *profiles.Request, w profiles.Responder) { held <- parked{req, w} })))
		opts := endpoint.Options{Bounds: endpoint.Bounds{InFlightBytesPerConn: perConn}}
		r := newRigOn(t, pipe, opts, p)
		r.release(t, held)
		const each = 60 << 10               // no read buffer grows for it
		copied := frame.Capacity(each + 16) // of the buffer that has its copy
		fit := perConn / copied
		for i := range fit + 1 {
			r.send(t, request(fmt.Sprintf("msg-id-%09d", i), string(make([]byte, each))))
		}
		r.wantError(t, fmt.Sprintf("msg-id-%09d", fit), profiles.RateLimitExceeded)
		r.wantVerdict(t, 1, profiles.RateLimitExceeded, "in_flight_bytes", endpoint.Kept)
		if got := r.ep.Stats().InFlightBytes; got != fit*copied {
			t.Errorf("%d octets are held, want %d", got, fit*copied)
		}
		one := <-held
		if err := one.w.Finish(e1.Envelope{MsgType: typeAnswer}); err != nil {
			t.Fatal(err)
		}
		r.wantEcho(t, "msg-id-000000000", "")
		r.send(t, request("once-more-------", string(make([]byte, each))))
		synctest.Wait()
		if len(held) != fit {
			t.Errorf("%d requests are held, want %d again", len(held), fit)
		}
	})
}

// A stream keeps the buffer that grew for its last frame for a moment. What a
// peer is not sending any more is no reason to refuse what it sends now.
func TestRS03StreamsThatRestGiveTheirBuffersToTheOthers(t *testing.T) {
	effort.Unwatched(t)
	const perConn, large = 4 << 20, 1<<20 - 100
	goOn := make(chan struct{})
	close(goOn)
	for name, h := range map[string]profiles.HandlerFunc{"read": echo, "copied": slowEcho(goOn)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := endpoint.Options{Bounds: endpoint.Bounds{InFlightBytesPerConn: perConn}}
				r := newRigOn(t, transport.MuxPipe, opts, profile(h))
				payload := string(make([]byte, large))
				began := time.Now()
				for i := range 20 {
					if i > 0 {
						r.open(t) // the one before stays open
					}
					id := fmt.Sprintf("msg-id-%09d", i)
					r.send(t, request(id, payload))
					r.wantEcho(t, id, payload)
					synctest.Wait() // the copy of a request is given up after its answer
					if got := r.ep.Stats().InFlightBytes; got > perConn {
						t.Fatalf("%d octets are held, want at most %d", got, perConn)
					}
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("20 messages took %v: they waited", took)
				}
				for n := range 20 {
					r.wantVerdict(t, n+1, profiles.OK, "", endpoint.Kept)
				}
			})
		})
	}
}

// A stream in the middle of a frame gives nothing: who has no room then is
// refused at once, and the others go on.
func TestRS03StreamsInMidFrameKeepTheirBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := endpoint.Options{Bounds: endpoint.Bounds{InFlightBytesPerConn: 2 << 20}}
		r := newRigOn(t, transport.MuxPipe, opts, profile(echo))
		front := framed(request("0123456789abcdef", string(make([]byte, 1<<20))))
		first := *r
		first.write(t, front[:1<<20])
		began := time.Now()
		r.open(t)
		_, _ = r.raw.Write(front[:1<<20])
		r.open(t)
		_, _ = r.raw.Write(front[:1<<20])
		r.wantVerdict(t, 1, profiles.RateLimitExceeded, "in_flight_bytes", endpoint.Reset)
		if took := time.Since(began); took > 0 {
			t.Errorf("refused after %v", took)
		}
		first.write(t, front[1<<20:])
		first.wantEcho(t, "0123456789abcdef", string(make([]byte, 1<<20)))
	})
}

// What waits to be written for peers that do not read comes out of the same
// budget.
func TestRS03QueuedAnswersShareTheBudget(t *testing.T) {
	const budget = 8 << 20
	virtually(t, func(t *testing.T, pipe pipe) {
		p, _ := hose(256 << 10)
		opts := endpoint.Options{Bounds: endpoint.Bounds{InFlightBytes: budget}}
		ep, rec := newEndpoint(t, opts, p)
		var last *rig
		for range 8 {
			here, there := pipe()
			last = attach(t, ep, rec, here, there)
			last.send(t, request("0123456789abcdef", "subscribe"))
		}
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			if got := ep.Stats().InFlightBytes; got > budget {
				t.Fatalf("%d octets are held, want at most %d", got, budget)
			}
		}
		last.othersAreServed(t)
	})
}

// A connection with many streams has one free queue, not one for each stream.
func TestRS33QueuesOfManyStreamsShareTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, each, size = 64, 30, 3 << 10
		p := profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			_, w, err := req.HoldLong()
			if err != nil {
				return err
			}
			go func() {
				for range each {
					if err := w.Send(e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, size)}); err != nil {
						t.Error(err)
					}
				}
				w.Fail(nil)
			}()
			return nil
		})
		r := newRigOn(t, transport.MuxPipe, endpoint.Options{}, p)
		var all []*rig
		for i := range streams {
			if i > 0 {
				r.open(t)
			}
			one := *r
			all = append(all, &one)
			one.send(t, request(fmt.Sprintf("msg-id-%09d", i), "subscribe"))
		}
		time.Sleep(time.Second) // idle readers have given up their windows
		// All but the first buffer of each stream and one queue.
		if got, want := r.ep.Stats().InFlightBytes, (streams-2)*each*size; got < want {
			t.Errorf("%d octets of queues are counted, want at least %d", got, want)
		}
		for _, one := range all {
			go func() { _, _ = io.Copy(io.Discard, one.raw) }()
		}
		time.Sleep(time.Second)
		if got := r.ep.Stats().InFlightBytes; got != 0 {
			t.Errorf("%d octets are counted after all has been read", got)
		}
		_ = r.conn.Close(0)
		synctest.Wait()
	})
}

// Without room in the budget an answer that has no free queue is written without one.
func TestRS33AnswersAreWrittenWithoutRoomForAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := memory.New(1 << 20)
		r := newRigOn(t, transport.MuxPipe, endpoint.Options{Memory: budget}, profile(echo))
		other := budget.Share("spiffe://test.invalid/other")
		defer other.Close()
		for other.Try(1<<10, memory.Little) {
			defer other.Give(1<<10, memory.Little)
		}
		for i := range 4 {
			if i > 0 {
				r.open(t) // the one before stays open
			}
			id, payload := fmt.Sprintf("msg-id-%09d", i), strings.Repeat("x", 10<<10)
			r.send(t, request(id, payload))
			r.wantEcho(t, id, payload)
		}
	})
}

func TestRS04ConnectionsAreCapped(t *testing.T) {
	const total = 10
	ep, rec := newEndpoint(t, endpoint.Options{Bounds: endpoint.Bounds{Connections: total}}, profile(echo))
	served := crowd(t, ep, total+5, func(i int) string { return fmt.Sprintf("spiffe://test.invalid/%d", i) })
	if len(served) != total {
		t.Errorf("%d connections are served, want %d", len(served), total)
	}
	rec.await(t, "the surplus counted", func(r *recorder) bool { return r.refused == 5 })
	// A place that is given up can be taken.
	_ = served[0].conn.Close(0)
	rec.await(t, "one closed", func(r *recorder) bool { return len(r.closed) == 1 })
	for ep.Stats().Sessions == total {
		time.Sleep(time.Millisecond)
	}
	if again := crowd(t, ep, 1, func(int) string { return "spiffe://test.invalid/late" }); len(again) != 1 {
		t.Error("the place is not free")
	}
}

func TestRS04ConnectionsOfOneIdentityAreCapped(t *testing.T) {
	const each = 4
	ep, rec := newEndpoint(t, endpoint.Options{Bounds: endpoint.Bounds{ConnectionsPerIdentity: each}}, profile(echo))
	if n := len(crowd(t, ep, each+3, func(int) string { return "spiffe://test.invalid/greedy" })); n != each {
		t.Errorf("%d connections of one identity are served, want %d", n, each)
	}
	rec.await(t, "the surplus counted", func(r *recorder) bool { return r.refused == 3 })
	if n := len(crowd(t, ep, each, func(int) string { return "spiffe://test.invalid/modest" })); n != each {
		t.Errorf("%d connections of another are served, want %d", n, each)
	}
}

// crowd attaches n connections and returns those that are served.
func crowd(t *testing.T, ep *endpoint.Endpoint, n int, identity func(int) string) (served []*rig) {
	t.Helper()
	for i := range n {
		here, there := transport.NewPipe(transport.PipeOptions{B: identity(i)})
		t.Cleanup(func() { _ = there.Close(0) })
		s := ep.Attach(here)
		if s.Context().Err() != nil {
			continue
		}
		r := &rig{ep: ep, conn: there, sess: s}
		r.open(t)
		r.send(t, request("0123456789abcdef", "x"))
		r.wantEcho(t, "0123456789abcdef", "x")
		served = append(served, r)
	}
	return served
}

// Admit is asked before anything is held, and may ask how much that is.
func TestAdmitMayRefuseAConnection(t *testing.T) {
	var ep *endpoint.Endpoint
	opts := endpoint.Options{
		Bounds: endpoint.Bounds{Connections: 100},
		Admit: func() error {
			if ep.Stats().Sessions > 0 {
				return errors.New("one is enough")
			}
			return nil
		},
	}
	var rec *recorder
	ep, rec = newEndpoint(t, opts, profile(echo))
	if n := len(crowd(t, ep, 3, func(int) string { return "spiffe://test.invalid/x" })); n != 1 {
		t.Errorf("%d connections are served, want 1", n)
	}
	rec.await(t, "the others counted", func(r *recorder) bool { return r.refused == 2 })
}

// What is charged for a request that is held, and for a queue that the peer does not read, is the
// capacity of their buffers.
func TestRS11WhatIsChargedIsWhatTheBuffersHave(t *testing.T) {
	const size = 33 << 10 // a buffer of 64 KiB and a little more
	virtually(t, func(t *testing.T, pipe pipe) {
		held := make(chan parked, 1)
		p := telling(profile(hold(func(req *profiles.Request, w profiles.Responder) { held <- parked{req, w} })))
		r := newRigOn(t, pipe, endpoint.Options{}, p)
		r.release(t, held)
		r.send(t, request("msg-id-000000000", string(make([]byte, size))))
		synctest.Wait()
		time.Sleep(time.Minute) // the read buffer is released
		if got, want := r.ep.Stats().InFlightBytes, frame.Capacity(size+16); got != want {
			t.Errorf("%d octets are held, want the %d of a buffer", got, want)
		}
	})
}

// The answer to a request that was carried out may find no room here. Its caller must not take that for a request
// that was refused, and repeat it.
func TestACallWhoseAnswerFindsNoRoomIsNotRetryable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ep, _ := newEndpoint(t, endpoint.Options{Bounds: endpoint.Bounds{InFlightBytesPerConn: 2 << 20}}, profile(echo))
		here, there := transport.MuxPipe()
		defer func() { _ = there.Close(0) }()
		s := ep.Attach(here)
		octets := framed(request("0123456789abcdef", string(make([]byte, 1<<20))))
		var last profiles.Call
		for range 3 {
			call, err := s.Call(t.Context(), request("", "x"))
			if err != nil {
				t.Fatal(err)
			}
			defer call.Close()
			last = call
			stream, err := there.Accept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = stream.Write(octets[:1<<20]) }()
			synctest.Wait()
		}
		_, err := last.Recv(t.Context())
		fault := endpoint.CodeOf(err)
		if fault.Code != profiles.RateLimitExceeded || fault.Detail != "in_flight_bytes" || fault.Retryable {
			t.Errorf("the call failed with %v, retryable %v", err, fault.Retryable)
		}
	})
}
