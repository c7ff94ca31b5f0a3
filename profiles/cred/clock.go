package cred

import (
	"sync/atomic"
	"time"
)

// clock is two clocks. What a credential says of its time is held against the wall
// clock, or the steady one if that is later; how long what was accepted lasts is
// reckoned on the steady one. So a wall clock that jumps while this process runs
// neither ends what was accepted nor brings back what has expired.
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

// notBefore sets the steady clock on if it is behind a time at which an earlier
// process was.
func (c *clock) notBefore(at int64) {
	if behind := at - c.steady(); behind > 0 {
		c.base.Add(behind)
	}
}

// steady is the steady clock, in unix milliseconds.
func (c *clock) steady() int64 { return c.base.Load() + c.elapsed().Milliseconds() }

// now is what credentials are held against, in unix milliseconds.
func (c *clock) now() int64 { return max(c.wall().UnixMilli(), c.steady()) }

// until places a time, in unix milliseconds, on the steady clock.
func (c *clock) until(expires int64) int64 { return c.steady() + expires - c.now() }

// storage is the time from which on a Store may forget what lasts until a time of
// the steady clock; 0 is never.
func (c *clock) storage(until int64) time.Time {
	if until == 0 {
		return time.Time{}
	}
	return c.wall().Add(time.Duration(until-c.steady()) * time.Millisecond)
}
