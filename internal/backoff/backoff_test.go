package backoff

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestPausesDoubleFromTheFirstToTheLongest(t *testing.T) {
	e := Exponential{100 * time.Millisecond, time.Second}
	for n, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		if got := e.After(n); got != want*time.Millisecond {
			t.Errorf("after %d: %v, want %v ms", n, got, int(want))
		}
	}
	if got := e.After(-1); got != e.First {
		t.Errorf("before any failure: %v, want %v", got, e.First)
	}
}

func TestNoNumberOfFailuresIsMoreThanTheLongestPause(t *testing.T) {
	for _, longest := range []time.Duration{time.Minute, math.MaxInt64} {
		e := Exponential{time.Millisecond, longest}
		before := time.Duration(0)
		for n := range 200 {
			got := e.After(n)
			if got < before || got > longest {
				t.Fatalf("after %d: %v, after one less %v", n, got, before)
			}
			before = got
		}
		if before != longest {
			t.Errorf("%v at last, want %v", before, longest)
		}
	}
	if got := (Exponential{time.Minute, time.Second}).After(0); got != time.Second {
		t.Errorf("a first pause above the longest: %v, want %v", got, time.Second)
	}
}

func TestJitterTakesUpToAHalf(t *testing.T) {
	const d = 10 * time.Nanosecond
	seen := make(map[time.Duration]bool)
	for range 10_000 {
		seen[Jitter(d)] = true
	}
	for got := range seen {
		if got < d/2 || got > d {
			t.Errorf("%v of %v", got, d)
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d different pauses of 5 ns to 10 ns", len(seen))
	}
	if got := Jitter(0); got != 0 {
		t.Errorf("%v of nothing", got)
	}
}

func TestExtendAddsUpToAPart(t *testing.T) {
	var least, most time.Duration = time.Hour, 0
	for range 1000 {
		got := Extend(time.Minute, 0.5)
		least, most = min(least, got), max(most, got)
	}
	if least < time.Minute || most > 90*time.Second || least == most {
		t.Errorf("%v to %v, want different pauses of 1m to 1m30s", least, most)
	}
	for _, part := range []float64{0, -1} {
		if got := Extend(time.Minute, part); got != time.Minute {
			t.Errorf("by a part of %v: %v", part, got)
		}
	}
}

func TestWaitEndsWithTheTimeOrTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Wait(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %v, want nil after 1h", err, time.Since(began))
		}
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(why) })
		began = time.Now()
		if err := Wait(ctx, time.Hour); err != why || time.Since(began) != time.Minute {
			t.Errorf("%v after %v, want the cause after 1m", err, time.Since(began))
		}
		for _, d := range []time.Duration{-time.Hour, 0, time.Hour} {
			began = time.Now()
			if err := Wait(ctx, d); err != why || time.Since(began) != 0 {
				t.Errorf("%v with a context that has ended: %v after %v", d, err, time.Since(began))
			}
		}
		for _, d := range []time.Duration{-time.Hour, 0} {
			if err := Wait(t.Context(), d); err != nil || time.Since(began) != 0 {
				t.Errorf("%v: %v after %v", d, err, time.Since(began))
			}
		}
	})
}
