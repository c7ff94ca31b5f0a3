package profiletest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// slow connects an end that asks to one that holds what it is asked, and returns the
// Responder of one exchange. The end that asked dispatches nothing that comes for it
// from then on until release is closed.
func slow(t *testing.T, o SessionOptions) (s *Session, w profiles.Responder, release chan struct{}) {
	t.Helper()
	held := make(chan profiles.Responder, 1)
	holding := broken(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		_, w, err := req.Hold()
		held <- w
		return err
	})
	release = make(chan struct{})
	busy := broken(func(context.Context, *profiles.Request, profiles.Responder) error {
		<-release
		return nil
	})
	asks, err := profiles.NewRegistry(busy)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := profiles.NewRegistry(holding)
	if err != nil {
		t.Fatal(err)
	}
	s, other := Pair("spiffe://test/asks", asks, "spiffe://test/answers", answers, o)
	t.Cleanup(func() {
		s.Close()
		s.Wait()
		other.Wait()
	})
	if _, err := s.Call(t.Context(), e1.Envelope{ProfileID: 7, MsgType: 1}); err != nil {
		t.Fatal(err)
	}
	w = <-held
	if err := other.Send(t.Context(), e1.Envelope{ProfileID: 7, MsgType: 1}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // until the end that asked is busy
	return s, w, release
}

func TestPaceWaitsForAPeerThatDispatchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w, release := slow(t, SessionOptions{OutboundFrames: 4})
		defer close(release)
		sent := 0
		ended := make(chan error, 1)
		go func() {
			for {
				if err := errors.Join(w.Pace(t.Context(), 0), w.Send(e1.Envelope{MsgType: 2})); err != nil {
					ended <- err
					return
				}
				sent++
			}
		}()
		synctest.Wait()
		if sent != 3 { // while half of four are queued, one more may be added
			t.Errorf("%d messages are queued, want 3", sent)
		}
		s.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("after the end of the connection: %v, want %v", err, ErrClosed)
		}
	})
}

func TestPaceBoundsOctetsAndEndsWithTheExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w, release := slow(t, SessionOptions{})
		message := e1.Envelope{MsgType: 2, Payload: make([]byte, 1000)}
		if err := errors.Join(w.Pace(t.Context(), 1000), w.Send(message), w.Pace(t.Context(), 2000)); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- w.Pace(t.Context(), 1000) }()
		synctest.Wait()
		if len(ended) > 0 {
			t.Errorf("more than 1000 octets are queued, and Pace returned %v", <-ended)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Pace(over, 1000); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that of the context", err)
		}
		close(release)
		if err := <-ended; err != nil {
			t.Errorf("with room again: %v", err)
		}
		w.Fail(nil)
		if err := w.Pace(t.Context(), 0); !errors.Is(err, profiles.ErrFinished) {
			t.Errorf("after the end: %v, want %v", err, profiles.ErrFinished)
		}
	})
}

func TestWhatIsOfferedLeavesRoomToTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w, release := slow(t, SessionOptions{OutboundBytes: 4000})
		message := e1.Envelope{MsgType: 2, Payload: make([]byte, 900)}
		var fault *profiles.Error
		taken := 0
		for ; !errors.As(w.Offer(message), &fault); taken++ {
		}
		if taken != 3 || fault.Code != profiles.RateLimitExceeded || !fault.Pace {
			t.Errorf("%d messages were taken, and then %v; want 3 and a Busy error", taken, fault)
		}
		if err := w.Send(message); err != nil {
			t.Errorf("what is not offered: %v", err)
		}
		close(release)
		synctest.Wait()
		if err := w.Offer(message); err != nil {
			t.Errorf("with room again: %v", err)
		}
		w.Fail(nil)
		if err := w.Offer(message); !errors.Is(err, profiles.ErrFinished) {
			t.Errorf("after the end: %v, want %v", err, profiles.ErrFinished)
		}
	})
}
