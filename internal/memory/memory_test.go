package memory_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/memory"
)

// fill takes steps of n octets until there is no room for another, and returns the sum.
func fill(s *memory.Share, n int, of memory.Size) (sum int) {
	for s.Try(n, of) {
		sum += n
	}
	return sum
}

func TestRS12AloneAnIdentityHasSevenEighths(t *testing.T) {
	b := memory.New(64 << 20)
	if got := fill(b.Share("a"), 1<<20, memory.Large); got != 56<<20 {
		t.Errorf("it got %d octets, want 56 MiB of 64", got)
	}
}

// Without taking anything back, two identities come to the same share, whatever one had
// before the other.
func TestRS12SharesBecomeEqual(t *testing.T) {
	b := memory.New(64 << 20)
	first, second := b.Share("first"), b.Share("second")
	const step = 64 << 10
	had, has := fill(first, step, memory.Large), fill(second, step, memory.Large)
	if has == 0 {
		t.Fatal("the second identity got nothing")
	}
	for range 10_000 { // each frame of the first ends, and another begins
		first.Give(step, memory.Large)
		had -= step
		has += fill(second, step, memory.Large)
		had += fill(first, step, memory.Large)
	}
	if low, high := 29<<20, 31<<20; had < low || had > high || has < low || has > high {
		t.Errorf("%d and %d octets, want 7/15 of 64 MiB each", had, has)
	}
}

func TestRS12SmallMessagesHaveRoomBesideLargeOnes(t *testing.T) {
	b := memory.New(64 << 20)
	for _, who := range []string{"a", "b", "c", "d", "e", "f"} {
		fill(b.Share(who), 64<<10, memory.Large)
	}
	if got := fill(b.Share("loud"), 1<<10, memory.Little); got < 3<<20 {
		t.Errorf("%d octets of small messages, want 3 MiB of 64 at least", got)
	}
	if !b.Share("good").Try(100, memory.Little) {
		t.Error("there is no room for a small message of another identity")
	}
}

func TestRS12WhoIsAboveItsShare(t *testing.T) {
	b := memory.New(64 << 20)
	a, c := b.Share("a"), b.Share("c")
	fill(a, 1<<20, memory.Large)
	if !a.Above(8 << 20) {
		t.Error("a has all, and is not above its share")
	}
	if c.Above(8 << 20) {
		t.Error("c has nothing, and is above its share")
	}
	if !c.Above(60 << 20) {
		t.Error("c wants more than the budget has for two, and is not above its share")
	}
}

func TestRS12WhoWaitsIsServedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(64 << 20)
		a, c := b.Share("a"), b.Share("c")
		fill(a, 1<<20, memory.Large)
		start := time.Now()
		if c.Take(t.Context(), 8<<20, memory.Large, start.Add(time.Second)) || time.Since(start) != time.Second {
			t.Error("8 MiB were taken where 8 MiB are free")
		}
		time.AfterFunc(time.Second, func() { a.Give(8<<20, memory.Large) })
		if !c.Take(t.Context(), 8<<20, memory.Large, time.Now().Add(time.Minute)) {
			t.Error("there was room after a second")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if c.Take(ctx, 64<<20, memory.Large, time.Now().Add(time.Minute)) {
			t.Error("more than the budget was taken")
		}
	})
}

func TestAShareIsForgottenAfterItsLastOctet(t *testing.T) {
	b := memory.New(1 << 20)
	s := b.Share("a")
	s.Try(5, memory.Little)
	s.Close()
	if top := b.Top(3); len(top) != 1 || top[0] != (memory.Use{Identity: "a", Octets: 5}) {
		t.Errorf("%v, want 5 octets of a", top)
	}
	s.Give(5, memory.Little)
	if top := b.Top(3); len(top) != 0 || b.Used() != 0 {
		t.Errorf("%v and %d octets, want nothing", top, b.Used())
	}
}

// Callers of an identity share its part: alone one has seven eighths of it, and two come to the
// same.
func TestRS12CallersOfAnIdentityShareItsPart(t *testing.T) {
	const limit, step = 64 << 20, 64 << 10
	b := memory.New(limit)
	partner := b.Share("partner")
	fill := func(caller string) (sum int) {
		for partner.TryFor(caller, step, memory.Large) {
			sum += step
		}
		return sum
	}
	x := fill("x")
	if part := limit / 8 * 7; x < part/8*7-step || x > part/8*7 {
		t.Errorf("alone a caller has %d octets, want 7/8 of %d", x, part)
	}
	y := fill("y")
	if y == 0 {
		t.Fatal("a second caller has nothing")
	}
	for range 10_000 {
		partner.GiveFor("x", step, memory.Large)
		x -= step
		y += fill("y")
		x += fill("x")
	}
	if x-y > limit/64 || y-x > limit/64 {
		t.Errorf("%d and %d octets, want the same", x, y)
	}
	if !b.Share("other").Try(step, memory.Large) {
		t.Error("another identity has no room")
	}
	partner.GiveFor("x", x, memory.Large)
	partner.GiveFor("y", y, memory.Large)
	if used := b.Used(); used != step {
		t.Errorf("%d octets are in use, want those of the other identity", used)
	}
}

func TestRS19OnlyTakersOfLargeMessagesCollectGarbage(t *testing.T) {
	b := memory.New(1 << 20)
	s := b.Share("a")
	defer s.Close()
	var got []int
	b.OnLarge(func(n int) {
		b.Used() // the budget is not locked
		got = append(got, n)
	})
	s.Try(1, memory.Large)
	s.TryFor("b", 2, memory.Large)
	s.Take(t.Context(), 3, memory.Large, time.Now())
	s.Try(1<<20, memory.Large)
	s.TryFor("b", 1<<20, memory.Large)
	s.Take(t.Context(), 1<<20, memory.Large, time.Now())
	s.Try(4, memory.Little)
	s.TryFor("b", 5, memory.Little)
	s.Take(t.Context(), 6, memory.Little, time.Now())
	if want := []int{1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("called for %v, want %v", got, want)
	}
}

// An answer may have the octets of its request, and no others beyond the room for it.
func TestRS36OctetsOfARequestAreSwappedForThoseOfItsAnswer(t *testing.T) {
	b := memory.New(16 << 20)
	s := b.Share("a")
	if !s.TryFor("caller", 2<<20, memory.Large) {
		t.Fatal("no room in an empty budget")
	}
	fill(b.Share("b"), 1<<10, memory.Large)
	free := 15<<20 - b.Used() // beside the sixteenth for small messages
	if s.Swap("caller", 2<<20, memory.Large, 2<<20+free+1, memory.Large) {
		t.Error("an octet too many was taken")
	}
	if used := s.Used(); used != 2<<20 {
		t.Errorf("%d octets after a Swap that failed", used)
	}
	if !s.Swap("caller", 2<<20, memory.Large, 2<<20+free, memory.Large) {
		t.Error("the octets of the request were not taken for the answer")
	}
	if used := s.Used(); used != 2<<20+free {
		t.Errorf("%d octets after the Swap, want %d", used, 2<<20+free)
	}
	s.Give(2<<20+free, memory.Large)
	if !s.TryFor("caller", 1<<20, memory.Large) {
		t.Error("the caller still has the octets of its request")
	}
}
