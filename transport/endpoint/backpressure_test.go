package endpoint_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// A held exchange that waits for room before each message is never cut off for
// filling the queue, and ends with the peer that does not read at all.
func TestRS05AHeldExchangeThatPacesItselfWaitsForASlowReader(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		const items, size = 200, 20 << 10
		held := make(chan profiles.Responder, 1)
		opts := endpoint.Options{Bounds: endpoint.Bounds{OutboundBytes: 256 << 10, OutboundFrames: 8}}
		r := newRigOn(t, pipe, opts, holdLong(held))
		r.send(t, request("0123456789abcdef", "x"))
		w := <-held
		sent := make(chan error, 1)
		go func() {
			for range items {
				if err := errors.Join(w.Pace(t.Context(), 0), w.Send(e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, size)})); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		synctest.Wait()
		if len(sent) != 0 {
			t.Fatalf("%d octets are queued above the bound", items*size)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := w.Pace(short, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Pace of a full queue: %v, want it to wait", err)
		}
		cancel()
		for range items {
			time.Sleep(10 * time.Millisecond)
			r.wantEcho(t, "0123456789abcdef", string(make([]byte, size)))
		}
		if err := <-sent; err != nil {
			t.Errorf("a paced message is refused: %v", err)
		}
		w.Fail(nil)
		if err := w.Pace(t.Context(), 0); !errors.Is(err, profiles.ErrFinished) {
			t.Errorf("Pace after the end: %v, want %v", err, profiles.ErrFinished)
		}
	})
}

func TestRS05PaceBoundsTheOctetsThatAreQueued(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		const items, size = 50, 40 << 10
		held := make(chan profiles.Responder, 1)
		r := newRigOn(t, pipe, endpoint.Options{}, holdLong(held))
		r.send(t, request("0123456789abcdef", "x"))
		w := <-held
		sent, queued := make(chan error, 1), 0
		go func() {
			for range items {
				if err := errors.Join(w.Pace(t.Context(), size), w.Send(e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, size)})); err != nil {
					sent <- err
					return
				}
				queued++
			}
			sent <- nil
		}()
		synctest.Wait()
		if queued > 4 {
			t.Errorf("%d messages of %d octets are queued, want what was asked for", queued, size)
		}
		for range items {
			r.wantEcho(t, "0123456789abcdef", string(make([]byte, size)))
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
		w.Fail(nil)
	})
}

// Queued octets count by connection, because they take memory. Queued frames count by stream:
// what is sent on one stream is not refused because the peer does not read another.
func TestRS05QueuedFramesCountByStream(t *testing.T) {
	const bound = 8
	synctest.Test(t, func(t *testing.T) {
		held := make(chan profiles.Responder, 1)
		multiplexed := func() (a, b transport.Conn) {
			return transport.NewPipe(transport.PipeOptions{Multiplexed: true, Buffer: 1})
		}
		r := newRigOn(t, multiplexed, endpoint.Options{Bounds: endpoint.Bounds{OutboundFrames: bound}}, holdLong(held))
		r.send(t, request("0123456789abcdef", "x"))
		full := <-held
		r.open(t)
		r.send(t, request("fedcba9876543210", "x"))
		other := <-held
		send := func(w profiles.Responder, n int) {
			t.Helper()
			for i := range n {
				if err := w.Send(e1.Envelope{MsgType: typeAnswer, Payload: []byte("x")}); err != nil {
					t.Fatalf("frame %d of a stream with a bound of %d: %v", i+1, bound, err)
				}
			}
		}
		send(full, bound)
		send(other, bound-1)
		time.Sleep(2 * time.Second) // the peer reads neither
		send(other, 1)
		if err := full.Send(e1.Envelope{MsgType: typeAnswer}); err == nil {
			t.Errorf("a stream has more than %d frames of a peer that does not read it", bound)
		}
		for range bound {
			r.wantEcho(t, "fedcba9876543210", "x") // only the full stream was reset
		}
		send(other, 1)
		r.wantEcho(t, "fedcba9876543210", "x")
		other.Fail(nil)
	})
}
