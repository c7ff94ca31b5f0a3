package clock_test

import (
	"math"
	"testing"
	"time"

	"github.com/slimwire/swp/store/internal/clock"
)

func TestST07ClockDoesNotFollowTheWallClock(t *testing.T) {
	start := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	now := start
	c := clock.New(func() time.Time { return now }, 0)
	if c.Now() != start.UnixNano() {
		t.Errorf("the clock begins at %d, want the wall clock", c.Now())
	}
	now = start.Add(time.Hour)
	if c.Now() != now.UnixNano() {
		t.Error("the clock does not advance")
	}
	now = start
	if at := start.Add(time.Hour).UnixNano(); c.Now() != at {
		t.Errorf("the clock went back to %d from %d", c.Now(), at)
	}

	// The store was last written an hour ahead of this wall clock.
	floor := start.Add(time.Hour).UnixNano()
	now = start
	c = clock.New(func() time.Time { return now }, floor)
	if c.Now() != floor {
		t.Errorf("the clock begins at %d, before %d", c.Now(), floor)
	}
	// Callers say a time on the wall clock; what they mean is a distance.
	if got := c.Expiry(now.Add(time.Minute)); got != floor+int64(time.Minute) {
		t.Errorf("a minute from now is %d after now", got-floor)
	}

	for _, e := range []struct {
		name string
		at   time.Time
		want int64
	}{
		{"never", time.Time{}, 0},
		{"far future", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64},
		{"far past", time.Unix(-1<<50, 0), 1},
	} {
		if got := c.Expiry(e.at); got != e.want {
			t.Errorf("%s: %d, want %d", e.name, got, e.want)
		}
	}
}

// A reading of time.Now is placed by its monotonic part: the wall part may be
// anything.
func TestST07ExpiryIsPlacedByTheMonotonicClock(t *testing.T) {
	c := clock.New(time.Now, 0)
	before := c.Now()
	at := c.Expiry(time.Now().Add(time.Hour))
	if away := time.Duration(at - before); away < time.Hour || away > time.Hour+time.Minute {
		t.Errorf("an hour from now is %v from now", away)
	}
}

func TestADurationStartsNowAndIsBounded(t *testing.T) {
	start := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	c := clock.New(func() time.Time { return start }, 0)
	for d, want := range map[time.Duration]int64{
		0:             0,
		time.Minute:   start.Add(time.Minute).UnixNano(),
		math.MaxInt64: math.MaxInt64,
	} {
		if got := c.After(d); got != want {
			t.Errorf("after %v: %d, want %d", d, got, want)
		}
	}
	if !c.Time(0).IsZero() || !c.Time(c.After(time.Minute)).Equal(start.Add(time.Minute)) {
		t.Errorf("never is %v, a minute from now %v", c.Time(0), c.Time(c.After(time.Minute)))
	}
}

// What was converted before the clock advances expires at the time it had then.
func TestAnAdvancedClockKeepsExpiries(t *testing.T) {
	start := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	c := clock.New(func() time.Time { return start }, 0)
	expires := c.After(time.Hour)
	c.Advance(expires - 1)
	if now := c.Now(); now != expires-1 || clock.Expired(expires, now) {
		t.Errorf("it is %d, want %d, before the expiry", now, expires-1)
	}
	c.Advance(start.UnixNano()) // earlier: no effect
	c.Advance(expires)
	if now := c.Now(); now != expires || !clock.Expired(expires, now) {
		t.Errorf("it is %d, want %d, the expiry", now, expires)
	}
	if clock.Expired(0, math.MaxInt64) {
		t.Error("what never expires has expired")
	}
}
