package load_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/test/bench/echo"
	"github.com/slimwire/swp/test/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake answers by a function.
type fake struct {
	answer func([]byte) ([]byte, error)
	closed *atomic.Int32
}

func (f fake) Caller() echo.Caller { return f }
func (f fake) Echo(p []byte, use func([]byte) error) error {
	q, err := f.answer(p)
	if err != nil {
		return err
	}
	return use(q)
}
func (f fake) Close() error                            { f.closed.Add(1); return nil }
func (f fake) dial(context.Context) (echo.Conn, error) { return f, nil }

func spec(payload, inFlight int) load.Spec {
	return load.Spec{Payload: payload, InFlight: inFlight, Conns: 2, Warmup: time.Millisecond, Duration: 5 * time.Millisecond}
}

func TestRunCountsAndClocks(t *testing.T) {
	f := fake{func(p []byte) ([]byte, error) { return p, nil }, new(atomic.Int32)}
	r, err := load.Run(t.Context(), f.dial, spec(64, 1))
	if err != nil {
		t.Fatal(err)
	}
	if r.Exchanges == 0 || r.PerSecond() == 0 || r.P50 == 0 || r.P99 < r.P50 {
		t.Errorf("implausible: %+v", r)
	}
	if n := f.closed.Load(); n != 2 {
		t.Errorf("%d connections closed, want 2", n)
	}
}

func TestRunFindsAWrongAnswer(t *testing.T) {
	for _, size := range []int{64, 4 << 10, 1 << 20} {
		f := fake{func(p []byte) ([]byte, error) {
			q := slices.Clone(p)
			q[len(q)/2] ^= 1
			return q, nil
		}, new(atomic.Int32)}
		_, err := load.Run(t.Context(), f.dial, spec(size, 4))
		if err == nil || !strings.Contains(err.Error(), "is not the request") {
			t.Errorf("%d octets: error %v, want a wrong answer", size, err)
		}
	}
}

func TestRunFindsTheAnswerToAnotherRequest(t *testing.T) {
	previous := make([]byte, 1<<20)
	f := fake{func(p []byte) ([]byte, error) {
		if previous[len(previous)-4] == 0 { // before the first
			copy(previous, p)
			return p, nil
		}
		return previous, nil
	}, new(atomic.Int32)}
	s := spec(1<<20, 1)
	s.Conns = 1
	if _, err := load.Run(t.Context(), f.dial, s); err == nil {
		t.Error("no error")
	}
}

func TestRunReportsTheFirstFailure(t *testing.T) {
	broken := errors.New("broken")
	f := fake{func([]byte) ([]byte, error) { return nil, broken }, new(atomic.Int32)}
	if _, err := load.Run(t.Context(), f.dial, spec(64, 1)); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

func TestRunRefusesWhatIsNoLoad(t *testing.T) {
	f := fake{func(p []byte) ([]byte, error) { return p, nil }, new(atomic.Int32)}
	if _, err := load.Run(t.Context(), f.dial, spec(7, 1)); err == nil {
		t.Error("no error for a payload of 7 octets")
	}
}
