package client

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/rpc"
)

// again does something over as many connections as it takes.
type again struct {
	connect  Dialer
	patience time.Duration                        // without anything that moves
	silence  time.Duration                        // that a sign of life may take
	lost     func(err error, pause time.Duration) // may be nil
	known    bool                                 // the other end was there before
}

// run calls do with a connection, and with another one when that is lost, until it
// succeeds, fails for good, or nothing has moved for the time of patience. do says
// what moves; before anything has, a connection that does not come about is an
// error at once.
func (a again) run(ctx context.Context, do func(ctx context.Context, c *Client, moved func()) error) error {
	kept := Keep(KeepOptions{Dial: a.connect, Timeout: a.silence})
	defer kept.Close()
	defer kept.Watch()()
	last, pause, known := time.Now(), firstPause, a.known
	moved := func() { last, pause, known = time.Now(), firstPause, true }
	for {
		c, err := kept.one(ctx)
		if err != nil && !known {
			return err // nobody was there to begin with
		}
		if err == nil {
			if err = c.Explain(do(ctx, c, moved)); err == nil {
				return nil
			}
			passing := mayPass(err, func() bool { return known && c.gone() })
			c.Close()
			if !passing {
				return err
			}
		}
		if ctx.Err() != nil || time.Since(last) > a.patience {
			return err
		}
		wait := jitter(pause)
		if a.lost != nil {
			a.lost(err, wait)
		}
		if !sleep(ctx, wait) {
			return err
		}
		pause = min(2*pause, lastPause)
	}
}

// goneTime is how much later than a stream of its the end of a connection may show.
const goneTime = time.Second

// gone reports whether the connection has ended, or does so in a moment: over QUIC
// what is under way may fail before that is known.
func (c *Client) gone() bool {
	select {
	case <-c.Context().Done():
		return true
	case <-time.After(goneTime):
		return false
	}
}

// mayPass reports whether another try may not meet an error: the other end said so,
// or the connection was lost, whatever that looked like.
func mayPass(err error, lost func() bool) bool {
	var (
		answer *profiles.PeerError
		fault  *profiles.Error
		failed *rpc.Error
	)
	switch {
	case errors.As(err, new(*finalError)):
		return false
	case errors.As(err, &answer):
		// Room is made by people; what is out of order is put right by an offer.
		return answer.Retryable() && answer.Code != artifact.CodeQuota || answer.Code == artifact.CodeOrdering
	case errors.As(err, &failed):
		return failed.Retryable
	case lost():
		return true
	}
	return errors.As(err, &fault) && fault.Retryable
}
