package sqlstore

import (
	"math"
	"sync/atomic"
	"time"
)

// clock gives the time for expiry: wall time when the store was opened, or the latest
// stored time if that is later, advanced by the monotonic clock. If the wall clock jumps,
// or was set back while the store was closed, nothing expires early and no expired data
// reappears.
//
// Times from callers are converted by their distance from now. If they have a monotonic
// reading, as time.Now().Add does, a jump does not affect them.
type clock struct {
	read   func() time.Time
	start  time.Time
	base   atomic.Int64 // the time at the start
	latest atomic.Int64
}

// newClock returns a clock at floor or later.
func newClock(read func() time.Time, floor int64) *clock {
	c := &clock{read: read, start: read()}
	c.base.Store(max(c.start.UnixNano(), floor))
	c.latest.Store(c.base.Load())
	return c
}

// advance moves the clock to at least a time. Expiries that it has converted before stay where
// they are.
func (c *clock) advance(to int64) {
	if more := to - c.now(); more > 0 {
		c.base.Add(more)
	}
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

// expiry converts an expiry from a caller; 0 means never.
func (c *clock) expiry(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(c.place(t), 1)
}

func (c *clock) place(t time.Time) int64 {
	away, base := int64(t.Sub(c.start)), c.base.Load()
	if away > math.MaxInt64-base {
		return math.MaxInt64
	}
	return base + away
}

// wall converts a time of the store for a caller; 0 becomes the zero time.
func (c *clock) wall(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return c.start.Add(time.Duration(at - c.base.Load()))
}

// expired reports whether an expiry has passed.
func expired(expires, now int64) bool { return expires != 0 && expires <= now }
