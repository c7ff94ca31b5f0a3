package sqlstore

import (
	"math"
	"sync/atomic"
	"time"
)

// clock is the time that expiry is reckoned in: wall time when the store was
// opened, or the newest time in it if that is later, advanced by the monotonic
// clock. A wall clock that jumps, or was set back while the store was closed,
// neither expires anything early nor revives expired data.
//
// Times from callers are placed by their distance from now. If they carry a
// monotonic reading, as time.Now().Add does, a jump does not touch them either.
type clock struct {
	read   func() time.Time
	start  time.Time
	base   int64 // the time at start
	latest atomic.Int64
}

// newClock returns a clock that is never behind floor.
func newClock(read func() time.Time, floor int64) *clock {
	c := &clock{read: read, start: read()}
	c.base = max(c.start.UnixNano(), floor)
	c.latest.Store(c.base)
	return c
}

// now never goes back.
func (c *clock) now() int64 {
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

// expiry returns when something expires, 0 for never.
func (c *clock) expiry(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(c.place(t), 1)
}

func (c *clock) place(t time.Time) int64 {
	away := int64(t.Sub(c.start))
	if away > math.MaxInt64-c.base {
		return math.MaxInt64
	}
	return c.base + away
}

// wall returns the caller's time for a time of the store, zero for 0.
func (c *clock) wall(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return c.start.Add(time.Duration(at - c.base))
}

// expired reports whether something that expires at a time is gone.
func expired(expires, now int64) bool { return expires != 0 && expires <= now }
