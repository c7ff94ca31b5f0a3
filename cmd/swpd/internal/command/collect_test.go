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
		used uint64
		want int
	}{
		{0, 200}, {1 << 20, 200}, // 8 MiB is the least heap at 200
		{4 << 20, 100},
		{gcHeap * 4 / 5, 25}, {gcHeap - 1, 25}, {gcHeap, 25}, {gcHeap + 1, 25}, {1 << 40, 25},
	} {
		if got := percentOf(row.used); got != row.want {
			t.Errorf("%d octets in use: %d percent, want %d", row.used, got, row.want)
		}
	}
}

// What is in use is looked at after every collection, until nobody wants it any more.
func TestGOGCFollowsWhatIsInUse(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var used atomic.Uint64
	looks, set := make(chan struct{}, 1), make(chan int, 16)
	collectEarly(ctx, func() uint64 {
		select {
		case looks <- struct{}{}:
		default:
		}
		return used.Load()
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
	s := &setting{ctx: ctx, fine: 1, want: used.Load, set: func(uint64) { t.Error("GOGC is set when nobody wants it any more") }}
	s.look()
}

// Of what collections find in use besides octets in flight, the least of the latest counts.
func TestRS19TheLimitOfMemoryFollowsWhatIsInUse(t *testing.T) {
	const mib = 1 << 20
	var l limiter
	for i, row := range []struct {
		live, beside uint64
		used, bound  int
		want         uint64
	}{
		{live: 16 * mib, beside: 3 * mib, bound: 256 * mib, want: (3 + 16 + 4 + 256 + 16) * mib},
		{live: 256 * mib, beside: 3 * mib, used: 240 * mib, bound: 256 * mib, want: (3 + 16 + 4 + 256 + 16) * mib}, // full
		{live: 272 * mib, used: 240 * mib, bound: 256 * mib, want: (16 + 4 + 256 + 16) * mib},                      // found too much
		{live: 320 * mib, used: 240 * mib, bound: 256 * mib, want: (16 + 4 + 256 + 16) * mib},                      // far too much
		{live: 208 * mib, used: 196 * mib, bound: 64 * mib, want: (12 + 3 + 64 + 8) * mib},                         // the bound was lowered
		{live: 10 * mib, used: 20 * mib, bound: 64 * mib, want: (64 + 8) * mib},                                    // used grew after the collection
	} {
		if got := l.limit(memory{row.live, row.beside}, row.used, row.bound); got != row.want {
			t.Errorf("%d: a limit of %d octets, want %d", i, got, row.want)
		}
	}
	var lowered limiter
	for i := range latest {
		lowered.limit(memory{live: uint64(256-i) * mib}, 196*mib, 64*mib)
	}
	if got, want := lowered.limit(memory{live: 208 * mib}, 196*mib, 64*mib), uint64(208+13)*mib; got != want {
		t.Errorf("more than the bound is in use for long: a limit of %d octets, want %d", got, want)
	}
	for i := range lately {
		want := uint64(400+25) * mib
		switch {
		case i < latest-1: // it may have been allocated while the collection ran
			want = (64 + 8) * mib
		case i == lately-1: // the others are forgotten
			want = (64 + 8 + 400 + 100) * mib
		}
		if got := l.limit(memory{live: 400 * mib}, 0, 64*mib); got != want {
			t.Errorf("after %d collections: a limit of %d octets, want %d", i+1, got, want)
		}
	}
}

func TestRS19TheLimitOfMemoryIsSetAfterCollections(t *testing.T) {
	var found atomic.Uint64
	found.Store(100 << 20)
	looks, set := make(chan struct{}, 1), make(chan uint64, 16)
	limitMemory(t.Context(), func() (int, int) { return 0, 192 << 20 }, func() memory {
		select {
		case looks <- struct{}{}:
		default:
		}
		return memory{live: found.Load()}
	}, func(limit uint64) { set <- limit })
	if got := <-set; got != (100+25+192+12)<<20 {
		t.Errorf("%d octets", got)
	}
	found.Store(20 << 20)
	for got := uint64(0); got != (20+5+192+12)<<20; {
		select {
		case got = <-set:
		default:
			collected(t, looks)
		}
	}
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
