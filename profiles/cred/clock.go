package cred

import (
	"sync/atomic"
	"time"
)

// clock is two clocks. The times in a credential are compared with the wall clock, or
// with the steady clock if it is later. The expiry of an accepted credential is on the
// steady clock. A jump of the wall clock therefore neither ends accepted credentials
// nor makes expired ones valid again.
type clock struct {
	wall    func() time.Time
	elapsed func() time.Duration
	base    *atomic.Int64 // unix milliseconds where elapsed is 0
}

func newClock(wall func() time.Time, elapsed func() time.Duration) clock {
	start := wall()
	if elapsed == nil {
		elapsed = func() time.Duration { return wall().Sub(start) }
	}
	c := clock{wall: wall, elapsed: elapsed, base: new(atomic.Int64)}
	c.base.Store(start.UnixMilli() - elapsed().Milliseconds())
	return c
}

// notBefore advances the steady clock to at, a time of an earlier process, if the
// clock is behind.
func (c *clock) notBefore(at int64) {
	if behind := at - c.steady(); behind > 0 {
		c.base.Add(behind)
	}
}

// steady is the steady clock, in unix milliseconds.
func (c *clock) steady() int64 { return c.base.Load() + c.elapsed().Milliseconds() }

// now is the time for the comparison with credentials, in unix milliseconds.
func (c *clock) now() int64 { return max(c.wall().UnixMilli(), c.steady()) }

// until converts a time, in unix milliseconds, to the steady clock.
func (c *clock) until(expires int64) int64 { return c.steady() + expires - c.now() }

// storage is the expiry in a Store of a record that lasts until a time of the steady
// clock; 0 is never.
func (c *clock) storage(until int64) time.Time {
	if until == 0 {
		return time.Time{}
	}
	return c.wall().Add(time.Duration(until-c.steady()) * time.Millisecond)
}
