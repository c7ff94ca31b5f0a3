package endpoint_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// idleAfter waits for the session to be closed and returns how long that took.
func (r *rig) idleAfter(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		<-r.sess.Context().Done()
	}()
	select {
	case <-closed:
	case <-time.After(24 * time.Hour):
		t.Fatal("never closed")
	}
	return time.Since(began)
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	const idle = 10 * time.Minute
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.good = nil
		r.send(t, request("0123456789abcdef", "x"))
		r.wantEcho(t, "0123456789abcdef", "x")
		if took := r.idleAfter(t); took < idle || took > idle+time.Minute {
			t.Errorf("closed after %v, want %v", took, idle)
		}
		if n := r.rec.count(); n != 1 {
			t.Errorf("%d verdicts for one frame", n)
		}
	})
}

func TestAConnectionThatSaysNothingIsClosed(t *testing.T) {
	const idle = 10 * time.Minute
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.good = nil
		if took := r.idleAfter(t); took < idle || took > idle+time.Minute {
			t.Errorf("closed after %v, want %v", took, idle)
		}
	})
}

func TestAMessageNowAndThenKeepsAConnection(t *testing.T) {
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.good = nil
		for range 10 {
			time.Sleep(9 * time.Minute)
			r.send(t, request("0123456789abcdef", "x"))
			r.wantEcho(t, "0123456789abcdef", "x")
		}
	})
}

func TestARequestInFlightKeepsAConnection(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		held := make(chan parked, 1)
		p := profile(hold(func(req *profiles.Request, w profiles.Responder) { held <- parked{req, w} }))
		r := newRigOn(t, pipe, endpoint.Options{}, p)
		r.good = nil
		r.send(t, request("0123456789abcdef", "x"))
		one := <-held
		time.Sleep(3 * time.Hour)
		if r.sess.Context().Err() != nil {
			t.Fatal("closed with a request in flight")
		}
		if err := one.w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: one.req.Payload}); err != nil {
			t.Fatal(err)
		}
		r.wantEcho(t, "0123456789abcdef", "x")
		// Idle begins with the answer.
		if took := r.idleAfter(t); took < 9*time.Minute || took > 12*time.Minute {
			t.Errorf("closed %v after the answer, want 10 min", took)
		}
	})
}

func TestALongExchangeWithoutAMessageEnds(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		held := make(chan profiles.Responder, 1)
		r := newRigOn(t, pipe, endpoint.Options{}, holdLong(held))
		r.good = nil
		r.send(t, request("0123456789abcdef", "subscribe"))
		<-held
		if r.conn.Multiplexed() {
			began := time.Now()
			r.wantEnd(t)
			if took := time.Since(began); took < 9*time.Minute || took > 12*time.Minute {
				t.Errorf("the stream ended after %v, want 10 min", took)
			}
			return
		}
		if took := r.idleAfter(t); took < 9*time.Minute || took > 12*time.Minute {
			t.Errorf("closed after %v, want 10 min", took)
		}
	})
}

// A request of another exchange is waited for as without the long one: its handler bounds it.
func TestARequestInFlightKeepsAConnectionWithALongExchange(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		held := make(chan profiles.Responder, 2)
		r := newRigOn(t, pipe, endpoint.Options{}, profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			keep := req.Hold
			if string(req.Payload) == "subscribe" {
				keep = req.HoldLong
			}
			_, w, err := keep()
			if err == nil {
				context.AfterFunc(w.Context(), func() { w.Fail(nil) })
				held <- w
			}
			return err
		}))
		r.good = nil
		r.send(t, request("0123456789abcdef", "subscribe"))
		<-held
		r.send(t, request("0123456789abcdee", "work"))
		work := <-held
		time.Sleep(168 * time.Hour)
		if err := work.Finish(e1.Envelope{MsgType: typeAnswer, Payload: []byte("done")}); err != nil {
			t.Fatal(err)
		}
		r.wantEcho(t, "0123456789abcdee", "done")
		if r.conn.Multiplexed() {
			return
		}
		if took := r.idleAfter(t); took < 9*time.Minute || took > 12*time.Minute {
			t.Errorf("closed %v after the answer, want 10 min", took)
		}
	})
}

// A subscriber that only listens is not idle while there is something to hear.
func TestALongExchangeIsRenewedByWhatIsSent(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		held := make(chan profiles.Responder, 1)
		r := newRigOn(t, pipe, endpoint.Options{}, holdLong(held))
		r.good = nil
		r.send(t, request("0123456789abcdef", "subscribe"))
		w := <-held
		for range 20 {
			time.Sleep(9 * time.Minute)
			if err := w.Send(e1.Envelope{MsgType: typeAnswer, Payload: []byte("event")}); err != nil {
				t.Fatal(err)
			}
			r.wantEcho(t, "0123456789abcdef", "event")
		}
	})
}

// holdLong is a profile whose exchanges end with their peer.
func holdLong(held chan<- profiles.Responder) *profiles.Profile {
	return profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		_, w, err := req.HoldLong()
		if err == nil {
			context.AfterFunc(w.Context(), func() { w.Fail(nil) })
			held <- w
		}
		return err
	})
}

func TestIdleStreamsGiveTheirBuffersBack(t *testing.T) {
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		payload := string(make([]byte, 1<<20))
		r.send(t, request("0123456789abcdef", payload))
		r.wantEcho(t, "0123456789abcdef", payload)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := r.ep.Stats().InFlightBytes; got != 0 {
			t.Errorf("%d octets are held in silence", got)
		}
	})
}

func TestAKeptSessionIsNotIdle(t *testing.T) {
	const idle = 10 * time.Minute
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.good = nil
		first, second := r.sess.Keep(), r.sess.Keep()
		time.Sleep(24 * time.Hour)
		first()
		first() // once is enough
		time.Sleep(24 * time.Hour)
		if err := context.Cause(r.sess.Context()); err != nil {
			t.Fatalf("closed while it is kept: %v", err)
		}
		second()
		if took := r.idleAfter(t); took < idle || took > idle+time.Minute {
			t.Errorf("closed %v after it was kept, want %v", took, idle)
		}
	})
}
