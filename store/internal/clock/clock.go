// Package clock is the clock by which an engine of a store expires its data.
package clock

import (
	"math"
	"sync/atomic"
	"time"
)

// Clock gives the time for expiry, in nanoseconds since 1970: wall time at its start, or the latest
// stored time if that is later, advanced by the monotonic clock. It never goes back. If the wall
// clock jumps, or was set back while the store was closed, nothing expires early and no expired data
// reappears.
//
// Times from callers are converted by their distance from now. If they have a monotonic
// reading, as time.Now().Add does, a jump does not affect them. All methods can be called
// concurrently.
type Clock struct {
	read   func() time.Time
	start  time.Time
	base   atomic.Int64 // the time at the start
	latest atomic.Int64
}

// New returns a clock that starts now, at floor or later.
func New(read func() time.Time, floor int64) *Clock {
	c := &Clock{read: read, start: read()}
	c.set(max(c.start.UnixNano(), floor))
	return c
}

// At returns a clock that starts at a time instead of the wall time.
func At(read func() time.Time, now int64) *Clock {
	c := &Clock{read: read, start: read()}
	c.set(now)
	return c
}

func (c *Clock) set(now int64) {
	c.base.Store(now)
	c.latest.Store(now)
}

// Advance moves the clock to at least a time. Expiries that it has returned before stay where
// they are.
func (c *Clock) Advance(to int64) {
	if more := to - c.Now(); more > 0 {
		c.base.Add(more)
	}
}

// Now is never less than it was before.
func (c *Clock) Now() int64 {
	now := c.place(c.read())
	for {
		latest := c.latest.Load()
		if now <= latest {
			return latest
		}
		if c.latest.CompareAndSwap(latest, now) {
			return now
		}
	}
}

// Expiry converts an expiry from a caller. The zero time becomes 0, which means never.
func (c *Clock) Expiry(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(c.place(t), 1)
}

// After returns the expiry of data that is kept for a duration from now. The duration 0 gives 0, which
// means never.
func (c *Clock) After(d time.Duration) int64 {
	if d == 0 {
		return 0
	}
	return sum(c.Now(), int64(d))
}

// Time converts an expiry for a caller; 0 becomes the zero time.
func (c *Clock) Time(expires int64) time.Time {
	if expires == 0 {
		return time.Time{}
	}
	return c.start.Add(time.Duration(expires - c.base.Load()))
}

func (c *Clock) place(t time.Time) int64 { return sum(c.base.Load(), int64(t.Sub(c.start))) }

// sum is the time after a distance from a time of a clock, at most the largest.
func sum(at, away int64) int64 {
	if away > math.MaxInt64-at {
		return math.MaxInt64
	}
	return at + away
}

// Expired reports whether an expiry has passed; 0 never does.
func Expired(expires, now int64) bool { return expires != 0 && expires <= now }
