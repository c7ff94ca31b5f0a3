package endpoint_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// only returns the one session of an endpoint.
func only(t *testing.T, ep *endpoint.Endpoint) *endpoint.Session {
	t.Helper()
	for s := range ep.Sessions() {
		return s
	}
	t.Fatal("there is no session")
	return nil
}

// asks has a session ask for an echo.
func asks(t *testing.T, s *endpoint.Session, profile uint64) error {
	t.Helper()
	call, err := s.Call(t.Context(), e1.Envelope{ProfileID: profile, MsgType: typeRequest, Payload: []byte("x")})
	if err != nil {
		return err
	}
	defer call.Close()
	_, err = call.Recv(t.Context())
	return err
}

func TestAReservedEndpointSendsWhatItsPeerServesAndNothingElse(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		w := listen(t, kind, endpoint.Options{Reserved: true}, profile(echo))
		peer := w.session(t)
		if err := asks(t, peer, goodProfile); err != nil {
			t.Fatal(err)
		}
		s := only(t, w.ep)
		if err := asks(t, s, goodProfile); err != nil { // which the peer has sent
			t.Error(err)
		}
		if err := asks(t, s, testProfile); !profiles.IsUnserved(err) || err.Error() != profiles.Unserved("test").Error() {
			t.Errorf("a call of a profile that the peer has not sent: %v", err)
		}
		if err := s.Send(t.Context(), e1.Envelope{ProfileID: 901, MsgType: typeRequest}); !profiles.IsUnserved(err) {
			t.Errorf("a message of a profile that nobody knows: %v", err)
		}
		if err := asks(t, peer, testProfile); err != nil { // answers are no question
			t.Error(err)
		}
		if err := asks(t, s, testProfile); err != nil {
			t.Error(err)
		}
	})
}

// reserved is a Reserved endpoint with a peer that has said nothing yet, on a pipe.
func reserved(t *testing.T, opts endpoint.Options) (s *endpoint.Session, rec *recorder) {
	t.Helper()
	opts.Reserved = true
	ep, _ := newEndpoint(t, opts, profile(echo))
	other, rec := newEndpoint(t, endpoint.Options{}, profile(echo))
	near, far := transport.Pipe()
	other.Attach(far)
	return ep.Attach(near), rec
}

func TestAProbeGoesToAPeerOfWhichNothingIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := reserved(t, endpoint.Options{})
		if err := s.Send(profiles.Probing(t.Context()), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest}); err != nil {
			t.Error(err)
		}
		synctest.Wait() // the answer shows that the peer serves it
		if err := asks(t, s, testProfile); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatIsLearntMayBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := reserved(t, endpoint.Options{})
		if err := asks(t, s, testProfile); !profiles.IsUnserved(err) {
			t.Errorf("error %v", err)
		}
		profiles.Learn(s, profiles.Offer{Profiles: []uint64{testProfile}})
		if err := asks(t, s, testProfile); err != nil {
			t.Error(err)
		}
	})
}

func TestAPeerIsAskedOnceWhatItServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		s, rec := reserved(t, endpoint.Options{Ask: func(_ context.Context, s profiles.Session) bool {
			time.Sleep(time.Second)
			profiles.Learn(s, profiles.Offer{Profiles: []uint64{testProfile}})
			asked.Add(1)
			return true
		}})
		for range 10 {
			go func() {
				if err := asks(t, s, testProfile); err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := asks(t, s, 901); !profiles.IsUnserved(err) {
			t.Errorf("error %v", err)
		}
		if n := asked.Load(); n != 1 || rec.count() != 10 {
			t.Errorf("it was asked %d times, and got %d messages", n, rec.count())
		}
	})
}

func TestAPeerThatCannotBeAskedYetIsAskedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := false
		s, _ := reserved(t, endpoint.Options{Ask: func(_ context.Context, s profiles.Session) bool {
			if ready {
				profiles.Learn(s, profiles.Offer{Profiles: []uint64{testProfile}})
			}
			return ready
		}})
		if err := asks(t, s, testProfile); !profiles.IsUnserved(err) {
			t.Errorf("error %v", err)
		}
		ready = true
		if err := asks(t, s, testProfile); err != nil {
			t.Error(err)
		}
	})
}

// A peer that leaves the question unanswered costs ten seconds, once.
func TestAPeerThatDoesNotSayWhatItServesIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := reserved(t, endpoint.Options{Ask: func(ctx context.Context, _ profiles.Session) bool {
			<-ctx.Done()
			return false
		}})
		began := time.Now()
		for range 5 {
			if err := asks(t, s, testProfile); !profiles.IsUnserved(err) {
				t.Errorf("error %v", err)
			}
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
