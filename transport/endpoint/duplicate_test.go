package endpoint_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// parked hands every held request to the test.
type parked struct {
	req *profiles.Request
	w   profiles.Responder
}

// parking is a profile that holds requests until the test answers them.
func parking(t *testing.T) (*profiles.Profile, <-chan parked) {
	t.Helper()
	held := make(chan parked, 20_000)
	p := telling(profile(hold(func(req *profiles.Request, w profiles.Responder) { held <- parked{req, w} })))
	return p, held
}

// release ends what a test left held, so that Stats can be back at zero.
func (r *rig) release(t *testing.T, held <-chan parked) {
	t.Helper()
	t.Cleanup(func() {
		for len(held) > 0 {
			(<-held).w.Fail(nil)
		}
	})
}

func TestEN11ADuplicateInFlightIsRefusedAndTheOriginalIsNot(t *testing.T) {
	p, held := parking(t)
	onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.send(t, request("the-same-msg-id-", "first"))
		first := <-held
		original := r.raw
		if r.conn.Multiplexed() {
			r.again(t)
		}
		r.send(t, request("the-same-msg-id-", "second"))
		r.wantError(t, "the-same-msg-id-", profiles.DuplicateMsgID)
		r.wantVerdict(t, 1, profiles.DuplicateMsgID, "", endpoint.Kept)

		if r.conn.Multiplexed() {
			r.on(original)
		}
		if err := first.w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: first.req.Payload}); err != nil {
			t.Fatal(err)
		}
		r.wantEcho(t, "the-same-msg-id-", "first")
		r.wantVerdict(t, 2, profiles.OK, "", endpoint.Kept)
	}, p)
}

func TestEN11AnIDMayBeUsedAgainAsSoonAsItsAnswerIsSeen(t *testing.T) {
	// The handler is not through when the answer goes out.
	lingers := func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		return req.Detach(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
			err := w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: req.Payload})
			if string(req.Payload) == "linger" {
				<-w.Context().Done()
			}
			return err
		})
	}
	opts := endpoint.Options{Bounds: endpoint.Bounds{InFlight: 1}}
	onEach(t, opts, func(t *testing.T, r *rig) {
		for range 20 {
			r.send(t, request("the-same-msg-id-", "linger"))
			r.wantEcho(t, "the-same-msg-id-", "linger")
		}
		_ = r.conn.Close(0)
		r.wantVerdict(t, 20, profiles.OK, "", endpoint.Kept)
	}, profile(lingers))
}

func TestEN11ConnectionsAreIndependent(t *testing.T) {
	p, held := parking(t)
	r := newRig(t, endpoint.Options{}, p)
	r.release(t, held)
	r.send(t, request("the-same-msg-id-", "x"))
	one := <-held
	here, there := transport.Pipe()
	other := attach(t, r.ep, r.rec, here, there)
	other.send(t, request("the-same-msg-id-", "y"))
	two := <-held
	for _, h := range []parked{one, two} {
		if err := h.w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: h.req.Payload}); err != nil {
			t.Fatal(err)
		}
	}
	r.wantEcho(t, "the-same-msg-id-", "x")
	other.wantEcho(t, "the-same-msg-id-", "y")
}

func TestEN11AnswersRepeatAMsgID(t *testing.T) {
	// A type that can be either is initiating unless it answers a call.
	onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		for i := range 3 {
			env := request("the-same-msg-id-", "x")
			env.MsgType = typeBoth
			r.send(t, env)
			r.wantEcho(t, "the-same-msg-id-", "x")
			r.wantVerdict(t, i+1, profiles.OK, "", endpoint.Kept)
		}
	})
}

func TestEN11TenThousandUnansweredRequestsAreBounded(t *testing.T) {
	p, held := parking(t)
	const inFlight, all = 128, 10_000
	opts := endpoint.Options{Bounds: endpoint.Bounds{PaceBudget: all}}
	r := newRig(t, opts, p)
	r.release(t, held)
	go func() {
		for i := range all {
			_, _ = r.raw.Write(framed(request(fmt.Sprintf("msg-id-%09d", i), "x")))
		}
	}()
	for i := inFlight; i < all; i++ {
		r.wantError(t, fmt.Sprintf("msg-id-%09d", i), profiles.RateLimitExceeded)
	}
	if got := r.ep.Stats().InFlightBytes; got != inFlight*17 {
		t.Errorf("%d octets held, want %d for %d requests", got, inFlight*17, inFlight)
	}
	if len(held) != inFlight {
		t.Errorf("%d requests were accepted, want %d", len(held), inFlight)
	}
	r.othersAreServed(t)
}

func TestLongExchangesHaveABoundOfTheirOwn(t *testing.T) {
	long := func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		_, w, err := req.HoldLong()
		if err == nil {
			context.AfterFunc(w.Context(), func() { w.Fail(nil) })
		}
		return err
	}
	opts := endpoint.Options{Bounds: endpoint.Bounds{InFlight: 2, LongExchanges: 5}}
	r := newRig(t, opts, telling(profile(long)))
	for i := range 6 {
		r.send(t, request(fmt.Sprintf("msg-id-%09d", i), "x"))
	}
	r.wantError(t, "msg-id-000000005", profiles.RateLimitExceeded)
	r.wantVerdict(t, 1, profiles.RateLimitExceeded, "long_exchanges", endpoint.Kept)
}

func TestReplayWindow(t *testing.T) {
	const window = 5 * time.Second
	inVirtualTime(t, endpoint.Options{ReplayWindow: window}, func(t *testing.T, r *rig) {
		r.send(t, request("the-same-msg-id-", "x"))
		r.wantEcho(t, "the-same-msg-id-", "x")
		time.Sleep(window - time.Millisecond)
		r.send(t, request("the-same-msg-id-", "x"))
		r.wantError(t, "the-same-msg-id-", profiles.DuplicateMsgID)
		time.Sleep(time.Millisecond) // at exactly 5 s
		r.send(t, request("the-same-msg-id-", "x"))
		r.wantEcho(t, "the-same-msg-id-", "x")
	}, telling(profile(echo)))
}

// The window begins when a message was handled, not when it came.
func TestReplayWindowBeginsWithTheAnswer(t *testing.T) {
	const window, work = 5 * time.Second, 20 * time.Second
	slow := func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		return req.Detach(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
			time.Sleep(work)
			return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: req.Payload})
		})
	}
	inVirtualTime(t, endpoint.Options{ReplayWindow: window}, func(t *testing.T, r *rig) {
		r.send(t, request("the-same-msg-id-", "x"))
		r.wantEcho(t, "the-same-msg-id-", "x")
		time.Sleep(window - time.Millisecond)
		r.send(t, request("the-same-msg-id-", "x"))
		r.wantError(t, "the-same-msg-id-", profiles.DuplicateMsgID)
		time.Sleep(time.Millisecond)
		r.send(t, request("the-same-msg-id-", "x"))
		r.wantEcho(t, "the-same-msg-id-", "x")
	}, telling(profile(slow)))
}

func TestReplayWindowIsBoundedAndForgetsTheOldest(t *testing.T) {
	effort.Unwatched(t)
	const bound = 65_536
	r := newRig(t, endpoint.Options{ReplayWindow: time.Hour}, telling(profile(echo)))
	id := func(i int) string { return fmt.Sprintf("msg-id-%09d", i) }
	go func() {
		for i := range bound + 1 {
			_, _ = r.raw.Write(framed(request(id(i), "")))
		}
	}()
	for i := range bound + 1 {
		r.wantEcho(t, id(i), "")
	}
	r.send(t, request(id(1), "")) // the oldest that is remembered
	r.wantError(t, id(1), profiles.DuplicateMsgID)
	r.send(t, request(id(0), "")) // forgotten, which makes id(1) the next to go
	r.wantEcho(t, id(0), "")
	r.send(t, request(id(1), ""))
	r.wantEcho(t, id(1), "")
}

// On a stream of its own a duplicate costs its stream; on that of the first it
// must not cost the first its answer.
func TestEN11ADuplicateOnTheStreamOfTheOriginalDoesNotResetIt(t *testing.T) {
	held := make(chan parked, 1)
	silent := profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		req, w, err := req.Hold()
		if err == nil {
			held <- parked{req, w}
		}
		return err
	})
	r := newRigOn(t, transport.MuxPipe, endpoint.Options{}, silent)
	r.send(t, request("the-same-msg-id-", "first"))
	first := <-held
	r.send(t, request("the-same-msg-id-", "second"))
	r.wantVerdict(t, 1, profiles.DuplicateMsgID, "", endpoint.Kept)
	if err := first.w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: first.req.Payload}); err != nil {
		t.Fatal(err)
	}
	r.wantEcho(t, "the-same-msg-id-", "first")
}
