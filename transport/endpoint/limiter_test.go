package endpoint_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestRS01TheFixedWindowRefusesWhatIsAboveIt(t *testing.T) {
	const frames = 128
	opts := endpoint.Options{Window: endpoint.Window{Frames: frames}}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, opts, telling(profile(echo)))
		n := 0
		burst := func(count int, want profiles.Code) {
			t.Helper()
			for range count {
				id := fmt.Sprintf("msg-id-%09d", n)
				r.send(t, request(id, "x"))
				n++
				if want == profiles.OK {
					r.wantEcho(t, id, "x")
					r.wantVerdict(t, n, want, "", endpoint.Kept)
				} else {
					r.wantError(t, id, want)
					r.wantVerdict(t, n, want, "window", endpoint.Kept)
				}
			}
		}
		burst(frames, profiles.OK)
		burst(3, profiles.RateLimitExceeded)
		r.othersAreServed(t) // the window is this connection's
		time.Sleep(time.Second - time.Millisecond)
		burst(1, profiles.RateLimitExceeded)
		time.Sleep(time.Millisecond)
		// The next window begins with its first frame, not where the last ended.
		time.Sleep(300 * time.Millisecond)
		burst(frames, profiles.OK)
		time.Sleep(999 * time.Millisecond)
		burst(1, profiles.RateLimitExceeded)
		time.Sleep(time.Millisecond)
		burst(1, profiles.OK)
	})
}

func TestRS01TheBucketPausesReadingAndRefusesNothing(t *testing.T) {
	const rate, burst, all = 100, 50, 1050
	opts := endpoint.Options{Rate: endpoint.Rate{Frames: rate, Burst: burst}}
	inVirtualTime(t, opts, func(t *testing.T, r *rig) {
		began := time.Now()
		go func() {
			for i := range all {
				if _, err := r.raw.Write(framed(request(fmt.Sprintf("msg-id-%09d", i), "x"))); err != nil {
					return
				}
			}
		}()
		for i := range all {
			r.wantEcho(t, fmt.Sprintf("msg-id-%09d", i), "x")
			if i == all/2 {
				r.othersAreServed(t)
			}
		}
		want := time.Second * (all - burst) / rate
		if took := time.Since(began); took < want || took > want+100*time.Millisecond {
			t.Errorf("%d frames took %v, want %v", all, took, want)
		}
	})
}

// What is above the rate stays where it is: with the peer and in its socket.
func TestRS01AFloodAboveTheRateIsNotBuffered(t *testing.T) {
	opts := endpoint.Options{Rate: endpoint.Rate{Frames: 1, Burst: 1}}
	inVirtualTime(t, opts, func(t *testing.T, r *rig) {
		written := 0
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			chunk := framed(request("0123456789abcdef", string(make([]byte, 1000))))
			for {
				n, err := r.raw.Write(chunk)
				if written += n; err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		// One window of the reader and what the pipe takes.
		if limit := 64<<10 + 64<<10 + 4096; written > limit {
			t.Errorf("%d octets were taken from the peer, want at most %d", written, limit)
		}
		_ = r.conn.Close(0)
		<-stopped
	})
}

func TestTheErrorBudgetClosesTheConnectionAtTheSeventeenthRefusal(t *testing.T) {
	const budget = 16
	bad := request("short", "x")
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		n := 0
		refuse := func(last endpoint.Action) {
			t.Helper()
			if r.conn.Multiplexed() && n > 0 {
				r.again(t) // each refusal costs a stream there; the budget is the connection's
			}
			n++
			r.send(t, bad)
			if r.conn.Multiplexed() && last == endpoint.Kept {
				last = endpoint.Reset
			}
			r.wantVerdict(t, n, profiles.InvalidEnvelope, "ERR_MSG_ID_INVALID", last)
		}
		for range budget {
			refuse(endpoint.Kept)
		}
		time.Sleep(time.Minute) // the budget is per minute
		for range budget {
			refuse(endpoint.Kept)
		}
		refuse(endpoint.Closed)
		r.rec.await(t, "session closed", func(r *recorder) bool { return len(r.closed) == 1 })
		r.rec.mu.Lock()
		cause := r.rec.closed[0]
		r.rec.mu.Unlock()
		if got := endpoint.CodeOf(cause); got.Code != profiles.RateLimitExceeded || got.Detail != "error_budget" {
			t.Errorf("closed because of %v", cause)
		}
	})
}

func TestRefusalsForPaceHaveABudgetOfTheirOwn(t *testing.T) {
	const pace = 1024
	opts := endpoint.Options{Window: endpoint.Window{Frames: 1, Period: time.Hour}}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, opts, telling(profile(echo)))
		r.good = nil // it has had its one frame, too
		r.send(t, request("0123456789abcdef", "x"))
		r.wantEcho(t, "0123456789abcdef", "x")
		for i := range pace {
			r.send(t, request("0123456789abcdef", "x"))
			r.wantError(t, "0123456789abcdef", profiles.RateLimitExceeded)
			r.wantVerdict(t, i+2, profiles.RateLimitExceeded, "window", endpoint.Kept)
		}
		r.send(t, request("0123456789abcdef", "x"))
		r.wantVerdict(t, pace+2, profiles.RateLimitExceeded, "window", endpoint.Closed)
		r.wantError(t, "0123456789abcdef", profiles.RateLimitExceeded)
		r.wantEnd(t)
	})
}

// Answers that the profile defines as ordinary cost the peer nothing.
func TestDomainFailuresAreNotCharged(t *testing.T) {
	missing := func(context.Context, *profiles.Request, profiles.Responder) error {
		return &profiles.Error{Code: profiles.NotFound, Domain: true,
			Answer: e1.Envelope{MsgType: typeAnswer, Payload: []byte("no such thing")}}
	}
	onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		for i := range 100 {
			id := fmt.Sprintf("msg-id-%09d", i)
			r.send(t, request(id, "x"))
			r.wantEcho(t, id, "no such thing")
			if v := r.rec.verdict(t, i+1); v.Code != profiles.NotFound || v.Reject || v.Action != endpoint.Kept {
				t.Fatalf("verdict %+v", v)
			}
		}
	}, profile(missing))
}

func TestRS21ARefusalThatExcusesItsSenderIsNotCharged(t *testing.T) {
	full := func(context.Context, *profiles.Request, profiles.Responder) error {
		return fair.Full.Refuse(profiles.Busy("places", "no place"))
	}
	onEach(t, endpoint.Options{Bounds: endpoint.Bounds{PaceBudget: 1}}, func(t *testing.T, r *rig) {
		for i := range 20 {
			id := fmt.Sprintf("msg-id-%09d", i)
			r.send(t, request(id, "x"))
			r.wantError(t, id, profiles.RateLimitExceeded)
			r.wantVerdict(t, i+1, profiles.RateLimitExceeded, "places", endpoint.Kept)
		}
	}, telling(profile(full)))
}
