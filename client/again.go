package client

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/rpc"
)

// pauses are those before the peer is dialled again. Each is cut at random.
var pauses = backoff.Exponential{First: 100 * time.Millisecond, Longest: 5 * time.Second}

// reconnecting tries something again, after pauses that grow while nothing moves.
type reconnecting struct {
	pauses   backoff.Exponential
	patience time.Duration                        // without anything that moves; 0: for ever
	lost     func(err error, pause time.Duration) // told of each pause; may be nil

	last     time.Time // that something moved
	failures int       // since
}

// moved restarts the pauses and the time of patience.
func (r *reconnecting) moved() { r.last, r.failures = time.Now(), 0 }

// run calls try until it succeeds or says that another try is of no use, ctx has ended,
// or the next try would come after the time of patience. It returns the last error of try.
func (r *reconnecting) run(ctx context.Context, try func() (again bool, err error)) error {
	for r.moved(); ; r.failures++ {
		again, err := try()
		if err == nil || !again || ctx.Err() != nil {
			return err
		}
		wait := backoff.Jitter(r.pauses.After(r.failures))
		if r.patience > 0 && time.Since(r.last)+wait > r.patience {
			return err
		}
		if r.lost != nil {
			r.lost(err, wait)
		}
		if backoff.Wait(ctx, wait) != nil {
			return err
		}
	}
}

// again does something over as many connections as it takes.
type again struct {
	connect  Dialer
	patience time.Duration                        // without anything that moves; 0: for ever
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
	r, known := reconnecting{pauses: pauses, patience: a.patience, lost: a.lost}, a.known
	return r.run(ctx, func() (again bool, err error) {
		c, err := kept.one(ctx)
		if err != nil {
			return known, err // nobody was there to begin with
		}
		err = c.Explain(do(ctx, c, func() {
			r.moved()
			known = true
		}))
		if err == nil {
			return false, nil
		}
		defer c.Close()
		return mayPass(err, func() bool { return known && c.gone() }), err
	})
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

// finalError is an error that no other connection would mend.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// mayPass reports whether a retry may succeed: the other end said so, or the
// connection was lost, with any error. A nil lost takes all that no end has said for
// the loss of the connection.
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
		// People have to make room; a new offer repairs a wrong order.
		return answer.Retryable() && answer.Code != artifact.CodeQuota || answer.Code == artifact.CodeOrdering
	case errors.As(err, &failed):
		return failed.Retryable
	case lost != nil && lost():
		return true
	case errors.As(err, &fault):
		return fault.Retryable
	}
	return lost == nil
}
