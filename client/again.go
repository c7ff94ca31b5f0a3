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

// pauses are the pauses before the next attempt to dial. Each is shortened at random.
var pauses = backoff.Exponential{First: 100 * time.Millisecond, Longest: 5 * time.Second}

// again repeats an operation over as many connections as necessary.
type again struct {
	connect  Dialer
	patience time.Duration                        // maximum time without progress; 0: no limit
	silence  time.Duration                        // maximum time for a sign of life
	lost     func(err error, pause time.Duration) // may be nil
	known    bool                                 // the peer was reached before
	about    string                               // the name that do is about; may be empty
	alone    bool                                 // do goes before the question what the peer offers, see Kept.one
}

// run calls do with a connection, and with a new connection after each loss, until do
// succeeds or fails permanently, or there was no progress for the time of patience. do
// calls moved for each progress; before the first progress a failed dial is an error at
// once.
func (a again) run(ctx context.Context, do func(ctx context.Context, c *Client, moved func()) error) error {
	kept := Keep(KeepOptions{Dial: a.connect, Timeout: a.silence})
	defer kept.Close()
	defer kept.Watch()()
	r, known := backoff.Retry{Pauses: pauses, Patience: a.patience, Lost: a.lost}, a.known
	return r.Run(ctx, func() (again bool, err error) {
		c, err := kept.one(ctx, !a.alone)
		if err != nil {
			return known, err // the peer was never reached
		}
		err = c.ExplainAbout(do(ctx, c, func() {
			r.Moved()
			known = true
		}), a.about)
		if err == nil {
			return false, nil
		}
		defer c.Close()
		return mayPass(err, func() bool { return known && c.gone() }), err
	})
}

// goneTime is how long after the failure of a stream the end of its connection may be
// detected.
const goneTime = time.Second

// gone reports whether the connection has ended or ends within goneTime: over QUIC a stream
// may fail before the end of its connection is known.
func (c *Client) gone() bool {
	select {
	case <-c.Context().Done():
		return true
	case <-time.After(goneTime):
		return false
	}
}

// finalError is an error that a new connection cannot change.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// mayPass reports whether a retry may succeed: the peer said so, or the connection was
// lost. A nil lost treats every error without an answer of the peer as a lost connection.
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
		// A quota needs action by the user. A new offer corrects a wrong order.
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
