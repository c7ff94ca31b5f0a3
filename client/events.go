package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
)

// Publisher returns a Publisher of events on a new lane. The caller closes it.
func (c *Client) Publisher(ctx context.Context) (*events.Publisher, error) {
	lane, err := c.Open(ctx)
	if err != nil {
		return nil, c.Explain(err)
	}
	return events.NewPublisher(lane, c.sync), nil
}

// EventsOptions say which events are followed, and how. Deliver is required.
type EventsOptions struct {
	events.SubscribeOptions

	// Patience is how long the peer may be unreachable after its first answer. Zero means
	// no limit.
	Patience time.Duration

	// Silence is how long the peer may take to answer a request for a sign of life; default
	// 10 s.
	Silence time.Duration

	// Deliver is called once for each Delivery, in order. At the beginning of each
	// subscription it is called with a Delivery without events, whose Cursor is the start.
	// If it returns an error, FollowEvents ends with that error.
	Deliver func(events.Delivery) error

	// Gap is called if events between two cursors are no longer stored. May be nil.
	Gap func(after, start uint64)

	// Lost is called for each connection or subscription that ended too early, with the
	// pause before the next attempt. May be nil.
	Lost func(err error, pause time.Duration)
}

// FollowEvents subscribes to events, over as many connections as necessary, until ctx ends
// or a retry cannot help. If the peer stores events, none is delivered twice, and none is
// missed except those reported to Gap.
func FollowEvents(ctx context.Context, dial Dialer, o EventsOptions) error {
	o.Silence = cmp.Or(o.Silence, 10*time.Second)
	kept := Keep(KeepOptions{Dial: dial, Timeout: o.Silence})
	defer kept.Close()
	defer kept.Watch()()
	f := eventFollower{o: o, kept: kept}
	r := backoff.Retry{Pauses: pauses, Patience: o.Patience, Lost: o.Lost}
	err := r.Run(ctx, func() (again bool, err error) {
		f.heard = false
		err = f.once(ctx)
		if f.heard {
			r.Moved()
		}
		return f.began && mayPass(err, nil), err
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// eventFollower is the state of FollowEvents.
type eventFollower struct {
	o     EventsOptions
	kept  *Kept
	began bool // a subscription was confirmed
	heard bool // the subscription of this connection was confirmed
}

// once follows over one connection.
func (f *eventFollower) once(ctx context.Context) error {
	c, err := f.kept.one(ctx, true)
	if err != nil {
		return err
	}
	defer c.Close()
	opening, cancel := context.WithTimeout(ctx, f.o.Silence)
	defer cancel()
	sub, err := events.Open(opening, c.Session, f.o.SubscribeOptions)
	if err != nil {
		return c.ExplainAbout(err, f.about())
	}
	defer sub.Close()
	f.began, f.heard = true, true
	if sub.Durable() {
		if after := f.o.After; after != nil && sub.Start() > *after && f.o.Gap != nil {
			f.o.Gap(*after, sub.Start())
		}
	}
	for d := (events.Delivery{Cursor: sub.Start()}); ; {
		if err := f.o.Deliver(d); err != nil {
			return &finalError{err}
		}
		if sub.Durable() {
			f.next(d.Cursor)
		}
		if d, err = sub.Recv(ctx); err != nil {
			return c.ExplainAbout(err, f.about())
		}
	}
}

// about returns an event_type that the filter names, if any.
func (f *eventFollower) about() string {
	filter, err := events.ParseFilter(f.o.Filter)
	if err != nil || len(filter.Types()) == 0 {
		return ""
	}
	return filter.Types()[0]
}

// next sets the start of the next subscription.
func (f *eventFollower) next(cursor uint64) { f.o.After = &cursor }

// EventLines publishes events, one for each line of input.
type EventLines struct {
	Events *events.Publisher

	// Make returns the event for a line; n counts from 1.
	Make func(n uint64, line []byte) *events.Record

	// Every is how many lines are confirmed together; the first batches are smaller.
	// Default 256.
	Every int

	// Timeout is how long each confirmation may take.
	Timeout time.Duration
}

// pausing is the pause in the input after which the lines so far are confirmed.
const pausing = 500 * time.Millisecond

// Publish publishes lines until the channel is closed, and returns how many are confirmed.
// After an error further lines may have been accepted; the same events can be published
// again. A peer that cannot confirm gets all lines; the error is then a
// *profiles.UnconfirmedError.
func (l *EventLines) Publish(ctx context.Context, lines <-chan []byte) (confirmed uint64, err error) {
	every, batch := cmp.Or(l.Every, 256), 1
	pause := time.NewTimer(pausing)
	defer pause.Stop()
	var unsure *profiles.UnconfirmedError
	for n, waiting := uint64(0), 0; ; {
		more, due := true, false
		select {
		case line, ok := <-lines:
			if more = ok; !ok {
				break
			}
			n++
			if err := l.Events.Publish(ctx, l.Make(n, line)); err != nil {
				if !errors.As(err, new(*profiles.PeerError)) { // a PeerError is about an earlier line
					err = fmt.Errorf("line %d: %w", n, err)
				}
				return l.Events.Confirmed(), err
			}
			waiting++
			pause.Reset(pausing)
		case <-pause.C:
			due = true
		case <-ctx.Done():
			return l.Events.Confirmed(), context.Cause(ctx)
		}
		if waiting > 0 && (waiting >= batch || due || !more) {
			if err := l.sync(ctx); err != nil && (!errors.As(err, &unsure) || unsure.Lost) {
				return l.Events.Confirmed(), err
			}
			// Begin with small batches: a fault of the first line often affects all lines,
			// and a peer that refuses many at once ends the connection.
			waiting, batch = 0, min(2*batch, every)
		}
		if !more && unsure != nil {
			return l.Events.Confirmed(), unsure
		}
		if !more {
			return l.Events.Confirmed(), nil
		}
	}
}

func (l *EventLines) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	return l.Events.Sync(ctx)
}
