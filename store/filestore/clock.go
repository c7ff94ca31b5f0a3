package filestore

import (
	"sync/atomic"
	"time"
)

// clock gives the time for expiry, in nanoseconds since 1970: wall time at the start, or
// the latest stored time if that is later, advanced by the monotonic clock. It never goes
// back.
type clock struct {
	read   func() time.Time
	start  time.Time
	base   atomic.Int64
	latest atomic.Int64
}

// begin starts a clock at floor or later.
func (c *clock) begin(read func() time.Time, floor int64) {
	c.read, c.start = read, read()
	c.base.Store(max(c.start.UnixNano(), floor))
	c.latest.Store(c.base.Load())
}

// advance moves the clock to at least a time.
func (c *clock) advance(to int64) {
	if more := to - c.now(); more > 0 {
		c.base.Add(more)
	}
}

func (c *clock) now() int64 {
	now := c.base.Load() + int64(c.read().Sub(c.start))
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

// after returns the end of a duration that starts now; 0 for no end.
func (c *clock) after(d time.Duration) int64 {
	if d == 0 {
		return 0
	}
	if end := c.now() + int64(d); end > 0 {
		return end
	}
	return 0 // beyond the range of the clock
}

// over reports whether an end has passed; 0 means no end.
func over(end, now int64) bool { return end != 0 && end <= now }
