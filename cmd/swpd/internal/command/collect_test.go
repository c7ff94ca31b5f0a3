package command

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestLittleInUseIsNotCollectedForItsGarbage(t *testing.T) {
	for _, row := range []struct {
		used live
		want int
	}{
		{live{}, 200}, {live{heap: 1 << 20}, 200}, // 8 MiB is the least heap at 200
		{live{heap: 4 << 20}, 100},
		{live{heap: gcHeap * 4 / 5}, 25}, {live{heap: gcHeap - 1}, 25}, {live{heap: gcHeap}, 25}, {live{heap: gcHeap + 1}, 25}, {live{heap: 1 << 40}, 25},
	} {
		if got := row.used.percent(); got != row.want {
			t.Errorf("%+v: %d percent, want %d", row.used, got, row.want)
		}
	}
}

func TestRS19OctetsInFlightLeaveLittleGarbage(t *testing.T) {
	for _, row := range []struct {
		used live
		want int
	}{
		{live{heap: 300 << 20, inFlight: 300 << 20}, 6},
		{live{heap: 300 << 20, inFlight: 400 << 20}, 6}, // more has come since
		{live{heap: 300 << 20, inFlight: 150 << 20}, 15},
		{live{heap: 4 << 20, inFlight: 4 << 20}, 100},
	} {
		if got := row.used.percent(); got != row.want {
			t.Errorf("%+v: %d percent, want %d", row.used, got, row.want)
		}
	}
}

func TestRS19WhoSetsGOGCBoundsTheGarbage(t *testing.T) {
	for _, row := range []struct {
		gogc string
		want bool
	}{{"", true}, {"100", false}, {"off", false}} {
		t.Setenv("GOGC", row.gogc)
		if got := bounded(t.Context()) != nil; got != row.want {
			t.Errorf("GOGC=%q: bounded %v, want %v", row.gogc, got, row.want)
		}
	}
}

// What is in use is looked at after every collection, until nobody wants it any more.
func TestGOGCFollowsWhatIsInUse(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var used atomic.Uint64
	looks, set := make(chan struct{}, 1), make(chan int, 16)
	collectEarly(ctx, func() live {
		select {
		case looks <- struct{}{}:
		default:
		}
		return live{heap: used.Load()}
	}, func(percent int) { set <- percent })
	<-looks
	for _, row := range []struct {
		used uint64
		want int // 0: near enough to what it was
	}{
		{0, 200},
		{gcHeap, 25},
		{gcHeap * 100 / 128, 0},
		{gcHeap / 2, 100},
		{0, 200},
	} {
		used.Store(row.used)
		if row.want == 0 {
			collected(t, looks)
			collected(t, looks) // the first may have looked before the change
			continue
		}
		for got := 0; got != row.want; {
			select {
			case got = <-set:
				if got != row.want {
					t.Fatalf("%d octets in use: %d percent, want %d", row.used, got, row.want)
				}
			default:
				collected(t, looks)
			}
		}
	}
	cancel()
	s := &setting{ctx: ctx, want: func() int { return 1 }, set: func(int) { t.Error("GOGC is set when nobody wants it any more") }}
	s.look()
}

// collected collects garbage until that was noticed.
func collected(t *testing.T, looks <-chan struct{}) {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; {
		runtime.GC()
		select {
		case <-looks:
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Fatal("nobody looks after a collection")
}
