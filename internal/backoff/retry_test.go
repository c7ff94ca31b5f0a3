package backoff

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errTry   = errors.New("a try")
	doubling = Exponential{First: time.Second, Longest: time.Minute}
)

func TestRetryPausesLongerWhileNothingMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pauses []time.Duration
		r := Retry{Pauses: doubling, Lost: func(err error, pause time.Duration) {
			if !errors.Is(err, errTry) {
				t.Error(err)
			}
			pauses = append(pauses, pause)
		}}
		tries := 0
		began := time.Now()
		err := r.Run(t.Context(), func() (bool, error) {
			if tries++; tries == 3 {
				r.Moved()
			}
			if tries == 5 {
				return true, nil
			}
			return true, errTry
		})
		if err != nil || tries != 5 {
			t.Errorf("error %v after %d tries, want none after 5", err, tries)
		}
		want := []time.Duration{1, 2, 1, 2}
		var all time.Duration
		for i, pause := range pauses {
			if all += pause; i >= len(want) || pause > want[i]*time.Second || pause < want[i]*time.Second/2 {
				t.Errorf("pauses %v, want at most %v seconds, and at least half", pauses, want)
			}
		}
		if time.Since(began) != all {
			t.Errorf("%v passed, pauses of %v were told", time.Since(began), all)
		}
	})
}

func TestRetryEndsWhenAnotherTryIsOfNoUse(t *testing.T) {
	other := errors.New("another")
	r := Retry{Pauses: doubling, Lost: func(error, time.Duration) { t.Error("told of a pause") }}
	if err := r.Run(t.Context(), func() (bool, error) { return false, other }); !errors.Is(err, other) {
		t.Error(err)
	}
}

func TestRetryEndsBeforeATryBeyondItsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		r := Retry{Pauses: Exponential{First: time.Second, Longest: time.Second}, Patience: 10 * time.Second}
		err := r.Run(t.Context(), func() (bool, error) {
			at = append(at, time.Since(began))
			if len(at) == 5 {
				r.Moved()
			}
			return true, errTry
		})
		last := at[len(at)-1]
		if !errors.Is(err, errTry) || last > at[4]+r.Patience || last < at[4]+r.Patience-time.Second || !slices.IsSorted(at) {
			t.Errorf("error %v, tries at %v; something moved with the fifth, and the patience is %v", err, at, r.Patience)
		}
	})
}

func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/4, cancel)
		began, tries := time.Now(), 0
		r := Retry{Pauses: doubling}
		err := r.Run(ctx, func() (bool, error) { tries++; return true, errTry })
		if !errors.Is(err, errTry) || tries != 1 || time.Since(began) != time.Second/4 {
			t.Errorf("error %v after %d tries and %v, want that of one try when the context ended", err, tries, time.Since(began))
		}
	})
}
