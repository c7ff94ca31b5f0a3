package events

import (
	"fmt"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles"
)

type stream struct{ profiles.Lane }

func TestABoundedNumberOfSourcesIsHeld(t *testing.T) {
	var o order
	lane, now := new(stream), time.Unix(1_700_000_000, 0)
	of := func(n int) source { return source{lane, fmt.Sprint(n)} }
	stored := func() bool { return false }
	for n := range maxHeld + 1 {
		o.refused(of(n), "first", now)
	}
	for n, want := range map[int]bool{0: false, maxHeld - 1: false, maxHeld: true} {
		if got := o.admits(of(n), "second", now, stored); got != want {
			t.Errorf("source %d: an event behind a refused one: admitted is %t, want %t", n, got, want)
		}
	}
	// When their time has ended, there is room again.
	now = now.Add(holdTime)
	o.refused(of(maxHeld), "first", now)
	if o.admits(of(maxHeld), "second", now, stored) {
		t.Error("an event behind a refused one is admitted when others are not held any more")
	}
	if !o.admits(of(0), "second", now, stored) {
		t.Error("a source is held for longer than its time")
	}
	// A refusal that is told late, after the time of an earlier one, holds its source again.
	late := now.Add(holdTime)
	o.refused(of(maxHeld), "third", late)
	if o.admits(of(maxHeld), "fourth", late, stored) {
		t.Error("an event behind a refused one is admitted after an earlier refusal")
	}
	if len(o.held) != 1 {
		t.Errorf("%d sources are held, want 1", len(o.held))
	}
}
