package fair_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/fair/fairtest"
)

func TestWaitingIdentitiesGetPlacesInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fair.NewSlots(1)
		if err := s.Take(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, name := range strings.Fields("a a a p/x p/x p/y b") {
			go func() {
				if err := s.Take(t.Context(), identity(name)); err != nil {
					t.Error(err)
				}
				order = append(order, name)
			}()
			synctest.Wait()
		}
		for _, now := range strings.Fields("a a p/x b a p/y a p/x") {
			s.Give(identity(now))
			synctest.Wait()
		}
		if got, want := strings.Join(order, " "), "a p/x b a p/y a p/x"; got != want {
			t.Errorf("places go to %q, want %q", got, want)
		}
		if p := s.Pool("slots"); p.Used != 0 || p.Capacity != 1 || p.Name != "slots" {
			t.Errorf("then: %+v", p)
		}
	})
}

func TestOneIdentityLeavesPlacesWithoutWaiting(t *testing.T) {
	s := fair.NewSlots(16)
	for range 14 {
		if err := s.Take(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if why := s.Try("a"); why != fair.Above {
		t.Errorf("a has a 15th place: %v", why)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("ended")
	cancel(reason)
	if err := s.Take(ended, "a"); !errors.Is(err, reason) {
		t.Errorf("a waits: %v, want %v", err, reason)
	}
	for i := range 2 {
		if err := s.Take(t.Context(), "b"); err != nil {
			t.Errorf("place %d of b: %v", i+1, err)
		}
	}
	if why := s.Try("b"); why != fair.Full {
		t.Errorf("a 3rd place of b: %v, want that it is excused", why)
	}
	for range 8 { // a is above its share of 7 until then
		s.Give("a")
	}
	if why := s.Try("a"); why != fair.Taken {
		t.Errorf("a has 6 places, and no other: %v", why)
	}
}

func TestAWaiterThatGivesUpTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fair.NewSlots(1)
		if err := s.Take(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range 100 {
			go func() {
				if s.Take(ctx, "b") == nil {
					s.Give("b")
				}
			}()
		}
		synctest.Wait()
		go s.Give("a")
		cancel()
		synctest.Wait()
		if p := s.Pool(""); p.Used != 0 {
			t.Errorf("%d places in use, want 0", p.Used)
		}
		if err := s.Take(t.Context(), "c"); err != nil {
			t.Error(err)
		}
	})
}

func TestPlacesAllocateNothing(t *testing.T) {
	s := fair.NewSlots(4)
	ctx := t.Context()
	taking := func() {
		if err := s.Take(ctx, "a"); err != nil {
			t.Error(err)
		}
		s.Give("a")
	}
	if allocs := testing.AllocsPerRun(1000, taking); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// The readers of the store in events, relay, artifact, state and sdl are Slots.
func TestFairnessOfPlacesThatAreWaitedFor(t *testing.T) {
	taken := func(flooded bool) (n int) {
		synctest.Test(t, func(t *testing.T) {
			s := fair.NewSlots(4)
			ctx, cancel := context.WithCancel(t.Context())
			var order []string
			wait := func(who string, many int) {
				for range many {
					go func() {
						if s.Take(ctx, who) == nil {
							order = append(order, who)
						}
					}()
					synctest.Wait()
				}
			}
			if flooded {
				wait("mallory", 100)
			}
			wait("alice", 40)
			for i := range 20 { // the places are in use all the time
				s.Give(order[i])
				synctest.Wait()
			}
			for _, who := range order[len(order)-20:] {
				if who == "alice" {
					n++
				}
			}
			cancel()
			synctest.Wait()
		})
		return n
	}
	fairtest.Row(t, "events, relay, artifact, state, sdl: waiting for a place", "places given 20 times", taken(false), taken(true))
}
