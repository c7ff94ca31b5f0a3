// Package backoff says how long to pause between attempts, and waits.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Exponential is pauses that double, from First up to Longest.
type Exponential struct{ First, Longest time.Duration }

// After returns the pause after a failure that n others came before, in a row: First for
// 0 and less.
func (e Exponential) After(n int) time.Duration {
	n = max(n, 0)
	if e.First > e.Longest>>n { // First<<n could overflow
		return e.Longest
	}
	return e.First << n
}

// Jitter returns d less up to a half of it at random, so that those who lost the same
// peer do not come back at once. It wants a d that is not negative.
func Jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // no secret
}

// Extend returns d and up to a part of it more, at random: for pauses that must not be
// shorter than d. A part of 0 or less adds nothing.
func Extend(d time.Duration, part float64) time.Duration {
	return d + time.Duration(rand.Float64()*max(part, 0)*float64(d)) //nolint:gosec // no secret
}

// Wait returns nil when d has passed, and the cause of ctx as soon as ctx has ended. Where
// d is 0 or less it only looks at ctx.
func Wait(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
