package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/slip/nslip"
)

// sayer is one who sends messages, and learns what became of them.
type sayer struct {
	c       *Client
	refused chan string // codes
}

// speaker joins a site as one who sends.
func (s *site) speaker() *sayer {
	s.t.Helper()
	by := &sayer{refused: make(chan string, 8)}
	set, err := NewSLIP(SLIPOptions{Refused: func(_ []byte, err *profiles.PeerError) { by.refused <- err.Code }})
	if err != nil {
		s.t.Fatal(err)
	}
	if by.c, err = s.connect(s.t.Context(), set); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		by.c.Close()
		set.Close()
	})
	return by
}

// says sends a line and returns the code with which it was refused, if it was.
func (b *sayer) says(t *testing.T, line string) (code string) {
	t.Helper()
	if _, err := b.c.SendSLIP(t.Context(), SLIPMessage{Text: line}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	select {
	case code = <-b.refused:
	default:
	}
	return code
}

// listens runs a listener and returns what ends with it.
func (s *site) listens(ctx context.Context, l SLIPListener) <-chan error {
	l.Connect, l.Agent = s.connect, "reviewer"
	done := make(chan error, 1)
	go func() { done <- l.Listen(ctx) }()
	synctest.Wait()
	return done
}

func TestListenerGoesOnOverAnotherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, a2a.Options{})
		var heard []string
		lost := 0
		ctx, cancel := context.WithCancel(t.Context())
		done := s.listens(ctx, SLIPListener{
			Heard: func(m SLIPMessage) error { heard = append(heard, m.Text); return nil },
			Lost:  func(error, time.Duration) { lost++ },
		})
		s.cut(nil)
		synctest.Wait()
		by := s.speaker()
		if code := by.says(t, "SLIP v1 planner reviewer MetaAck"); code != slip.CodeUnknownDestination {
			t.Errorf("without the agent: %q", code)
		}
		time.Sleep(time.Minute)
		for _, line := range []string{" SLIP v1 planner reviewer RequestReview x \r\n", "SLIP v1 planner reviewer MetaAck"} {
			if code := by.says(t, line); code != "" {
				t.Errorf("%q: %s", line, code)
			}
		}
		if want := []string{"SLIP v1 planner reviewer RequestReview x", "SLIP v1 planner reviewer MetaAck"}; !slices.Equal(heard, want) || lost == 0 {
			t.Errorf("heard %q, want %q; lost %d times", heard, want, lost)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Listen: %v", err)
		}
	})
}

func TestListenerEndsAfterItsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, a2a.Options{})
		n := 0
		done := s.listens(t.Context(), SLIPListener{Count: 2, Heard: func(SLIPMessage) error { n++; return nil }})
		by := s.speaker()
		for range 2 {
			if code := by.says(t, "SLIP v1 planner reviewer MetaAck"); code != "" {
				t.Error(code)
			}
		}
		if err := <-done; err != nil || n != 2 {
			t.Errorf("heard %d messages, %v", n, err)
		}
	})
}

func TestListenerEndsWithTheErrorOfHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, a2a.Options{})
		want := errors.New("no room on the screen")
		done := s.listens(t.Context(), SLIPListener{Heard: func(SLIPMessage) error { return want }})
		s.speaker().says(t, "SLIP v1 planner reviewer MetaAck")
		if err := <-done; !errors.Is(err, want) {
			t.Error(err)
		}
	})
}

func TestListenerFailsIfThePeerDoesNotTakeTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, a2a.Options{MayUse: func(string, string) bool { return false }})
		if err := <-s.listens(t.Context(), SLIPListener{}); !errors.As(err, new(*AnswerError)) {
			t.Error(err)
		}
	})
}

// Those that wait are bounded, and heard when there is time; so are those that came
// before the end.
func TestRS08ListenerThatDoesNotKeepUpRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, a2a.Options{})
		free := make(chan struct{})
		n := 0
		ctx, cancel := context.WithCancel(t.Context())
		done := s.listens(ctx, SLIPListener{Heard: func(SLIPMessage) error {
			<-free
			n++
			return nil
		}})
		by := s.speaker()
		for i := range maxUnheard + 1 { // and the one that is being heard
			if code := by.says(t, "SLIP v1 planner reviewer MetaAck"); code != "" {
				t.Fatalf("message %d: %s", i, code)
			}
		}
		if code := by.says(t, "SLIP v1 planner reviewer MetaAck"); code != "RATE_LIMIT_EXCEEDED" {
			t.Errorf("one more: %q", code)
		}
		cancel()
		close(free)
		if err := <-done; err != nil || n != maxUnheard+1 {
			t.Errorf("heard %d messages, want %d: %v", n, maxUnheard+1, err)
		}
	})
}

func TestSendSLIPFailsWithAPeerThatDoesNotServeIt(t *testing.T) {
	calls, err := rpc.New(rpc.Options{Info: func(profiles.Session) rpc.Info { return rpc.Info{Profiles: []rpc.ProfileInfo{{ID: rpc.ProfileID}}} }})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := profiles.NewRegistry(calls)
	if err != nil {
		t.Fatal(err)
	}
	c := attachedTo(t, registry)
	if _, err := c.SendSLIP(t.Context(), SLIPMessage{Text: "SLIP v1 a b MetaAck"}); err == nil {
		t.Error("it was sent")
	}
}

func TestBinaryIsHeardAsText(t *testing.T) {
	const line = `@a3|f0|c3|S0|d1|T1|kg|t"\"\\"#`
	var m slip.Message
	if err := (nslip.Codec{}).Parse(&m.NSLIP, []byte(line)); err != nil {
		t.Fatal(err)
	}
	m.Type = slip.TypeBinary
	if got, err := lineOf(&m); err != nil || got != line {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAgentThatOnlySendsRefusesWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, a2a.Options{})
		set, err := NewSLIP(SLIPOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		c, err := s.connect(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := set.A2A.Declare(t.Context(), c.Session, "deaf", nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		by := s.speaker()
		if code := by.says(t, "SLIP v1 planner deaf MetaAck"); code != slip.CodeUnknownDestination {
			t.Errorf("%q", code)
		}
	})
}
