package conformance

import (
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/vectors"
)

// clock is the endpoint's. It moves only where the script says so.
type clock struct {
	start time.Time
	armed func() // is told of each new alarm; may be nil

	mu     sync.Mutex
	at     time.Time
	alarms []*alarm
}

// alarm is what happens at a time.
type alarm struct {
	at   time.Time
	ring func()
}

func newClock(c *vectors.Clock) *clock {
	start := time.Now()
	if c != nil {
		start = time.UnixMilli(c.NowUnixMs)
	}
	return &clock{start: start, at: start}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// after is time.AfterFunc on this clock.
func (c *clock) after(d time.Duration, ring func()) (stop func() bool) {
	if d <= 0 {
		go ring()
		return func() bool { return false }
	}
	c.mu.Lock()
	a := &alarm{c.at.Add(d), ring}
	c.alarms = append(c.alarms, a)
	c.mu.Unlock()
	if c.armed != nil {
		c.armed()
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.drop(a)
	}
}

// drop takes an alarm off the list and reports whether it was there. The caller
// holds mu.
func (c *clock) drop(a *alarm) bool {
	i := slices.Index(c.alarms, a)
	if i < 0 {
		return false
	}
	c.alarms = slices.Delete(c.alarms, i, i+1)
	return true
}

// first is the next alarm, or nil. The caller holds mu.
func (c *clock) first() *alarm {
	var next *alarm
	for _, a := range c.alarms {
		if next == nil || a.at.Before(next.at) {
			next = a
		}
	}
	return next
}

// next returns when the next alarm is, in milliseconds from the start, and whether
// that is at a time or before it.
func (c *clock) next(untilMs int) (atMs int, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.first()
	if a == nil {
		return 0, false
	}
	away := a.at.Sub(c.start)
	return int((away + time.Millisecond - 1) / time.Millisecond), away <= ms(untilMs)
}

// set moves the clock on, alarm after alarm. It never goes back.
func (c *clock) set(atMs int) {
	for a := c.step(c.start.Add(ms(atMs))); a != nil; a = c.step(c.start.Add(ms(atMs))) {
		a.ring()
	}
}

// step moves the clock to the next alarm and takes that, or to a time and returns
// nil if nothing is to happen until then.
func (c *clock) step(to time.Time) *alarm {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.first()
	if a == nil || a.at.After(to) {
		a = nil
	} else {
		c.drop(a)
		to = a.at
	}
	if to.After(c.at) {
		c.at = to
	}
	return a
}
