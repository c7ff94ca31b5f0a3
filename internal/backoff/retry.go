package backoff

import (
	"context"
	"time"
)

// Retry repeats an attempt, after pauses that grow until there is progress and are
// shortened at random. It is for one goroutine.
type Retry struct {
	Pauses   Exponential
	Patience time.Duration                        // maximum time without progress; 0: no limit
	Lost     func(err error, pause time.Duration) // called before each pause; may be nil

	last     time.Time // of the last progress
	failures int       // since
}

// Moved records progress: it resets the pauses and the time of patience. The function that
// Run repeats may call it.
func (r *Retry) Moved() { r.last, r.failures = time.Now(), 0 }

// Run calls try until it succeeds or says that a retry cannot help, ctx has ended, or the
// next attempt would exceed the patience. It returns the last error of try.
func (r *Retry) Run(ctx context.Context, try func() (again bool, err error)) error {
	for r.Moved(); ; r.failures++ {
		again, err := try()
		if err == nil || !again || ctx.Err() != nil {
			return err
		}
		wait := Jitter(r.Pauses.After(r.failures))
		if r.Patience > 0 && time.Since(r.last)+wait > r.Patience {
			return err
		}
		if r.Lost != nil {
			r.Lost(err, wait)
		}
		if Wait(ctx, wait) != nil {
			return err
		}
	}
}
