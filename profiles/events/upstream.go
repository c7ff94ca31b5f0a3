package events

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
)

// upstream is a subscription at a partner, over as many sessions as it takes. It is used
// by one goroutine at a time.
type upstream struct {
	way    *profiles.Way
	opts   SubscribeOptions // there; After is where the next session goes on
	filter *Filter          // of opts
	holds  bool             // the partner stores events
	begun  bool             // the partner has confirmed it
	fatal  error            // what no other session mends

	opened func(start uint64) error // called when a session has confirmed it; begun says whether one did before
	take   func(Delivery) error     // the octets are valid until it returns
	paused func() error             // called before each further session; nil: nothing
	leave  func(*Subscription)      // ends it on one session; nil: Close
}

var followPauses = backoff.Exponential{First: 100 * time.Millisecond, Longest: 5 * time.Second}

// errInterrupted ends a subscription to events that nobody holds: some may be missing.
var errInterrupted = profiles.LinkFault(profiles.DetailLinkLost,
	"events: the link to the partner was lost, which stores no events: some may be missing; subscribe again", true, nil)

// errGapThere ends a subscription if the partner has lost some of its events.
var errGapThere = domain(profiles.NotFound, CodeGap, "what follows the last event is no longer held there; choose a cursor")

// confirmTime is how long a partner may take to confirm a subscription.
const confirmTime = 30 * time.Second

// follow takes events until ctx ends, the partner refuses or breaks the protocol, or some may
// be missing. Where the partner stores events none is missed. A subscription that is not
// confirmed the first time is not tried again.
func (u *upstream) follow(ctx context.Context) error {
	retry := backoff.Retry{Pauses: followPauses}
	err := retry.Run(ctx, func() (again bool, err error) {
		if u.begun && u.paused != nil {
			if err := u.paused(); err != nil {
				return false, err
			}
		}
		moved, err := u.once(ctx)
		if moved {
			retry.Moved()
		}
		refused, final := errors.AsType[*profiles.PeerError](err)
		switch {
		case u.overtaken(err):
		case !u.begun, u.fatal != nil, profiles.Misanswered(err), final && !refused.Retryable():
			return false, err
		case !u.holds:
			return false, errInterrupted
		}
		return true, err
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// overtaken reports whether an earlier subscription of the same name has reached the partner
// after this one. The name there is made of a name here (nameThere), which belongs to its
// newest subscription here: that one goes on until its ctx ends.
func (u *upstream) overtaken(err error) bool {
	refused, ok := errors.AsType[*profiles.PeerError](err)
	return ok && refused.Code == CodeReplaced && u.opts.Name != ""
}

// once takes what comes over one session. moved says that something did.
func (u *upstream) once(ctx context.Context) (moved bool, err error) {
	session, err := u.way.Session(ctx)
	if err != nil {
		return false, err
	}
	sub, err := u.open(ctx, session)
	if err != nil {
		return false, err
	}
	if u.leave != nil {
		defer u.leave(sub)
	} else {
		defer sub.Close()
	}
	u.holds = sub.Durable()
	if u.begun && u.opts.After != nil {
		switch start := sub.Start(); {
		case start > *u.opts.After:
			u.fatal = errGapThere
		case start < *u.opts.After:
			u.fatal = errBack(start, *u.opts.After)
		}
	}
	if u.fatal != nil {
		return false, u.fatal
	}
	if u.fatal = u.opened(sub.Start()); u.fatal != nil {
		return false, u.fatal
	}
	if !u.begun {
		u.begun = true
		u.mark(sub.Start())
	}
	for {
		d, err := sub.Recv(ctx)
		if err != nil {
			return moved, err
		}
		if u.fatal = u.fits(&d); u.fatal != nil {
			return moved, u.fatal
		}
		if u.fatal = u.take(d); u.fatal != nil {
			return moved, u.fatal
		}
		u.mark(d.Cursor)
		moved = true
	}
}

// open subscribes on a session.
func (u *upstream) open(ctx context.Context, session profiles.Session) (*Subscription, error) {
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	return Open(ctx, session, u.opts)
}

// fits returns why a delivery does not belong to this subscription.
func (u *upstream) fits(d *Delivery) error {
	if u.holds && d.Cursor < *u.opts.After {
		return errBack(d.Cursor, *u.opts.After)
	}
	for i := range d.Events {
		if _, ok := u.filter.there(&d.Events[i]); !ok {
			return invalid("", "an event of type %.80q, which is not subscribed to", d.Events[i].EventType)
		}
	}
	return nil
}

func errBack(cursor, last uint64) error {
	return invalid(DetailCursor, "the cursor goes back from %d to %d", last, cursor)
}

// mark notes after which event the next session goes on.
func (u *upstream) mark(cursor uint64) {
	if u.holds {
		u.opts.After = &cursor
	}
}
