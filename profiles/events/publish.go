package events

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// Publish publishes an event of this process. producer should be the identity of this
// endpoint. It returns when the event is accepted, and with a Store stored. If ctx ends
// first, the event may or may not be accepted, and can be published again. Access is not
// asked. The error is an *profiles.Error.
func (b *Bus) Publish(ctx context.Context, producer string, r *Record) error {
	own := *r
	if err := own.Validate(); err != nil {
		return err
	}
	if b.ctx.Err() != nil {
		return errEnding
	}
	done := make(chan error, 1)
	b.accept(nil, producer, newEntry(&own), func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// accept stores an event, notifies subscriptions and calls done, from any goroutine. It
// does not wait. lane is where the event came; nil for one of this process.
func (b *Bus) accept(lane profiles.Lane, producer string, e *entry, done func(error)) {
	if b.opts.Store == nil {
		done(b.acceptLive(producer, e))
		return
	}
	id := scoped(producer, e.record.EventID)
	if len(id) > maxKey {
		done(invalid(DetailSize, "event_id and the identity of its producer are too long together"))
		return
	}
	from := source{lane, producer}
	if !b.order.admits(from, id, b.opts.Now(), func() bool { return b.tail.has(e) }) {
		done(errHeld)
		return
	}
	size := len(e.octets())
	if fault := b.pending.Take(producer, size).Refuse(errPending); fault != nil {
		if b.pending.Used() > 0 {
			b.order.refused(from, id, b.opts.Now())
			done(fault)
			return
		}
		b.pending.Add(producer, size) // it may be larger than the bound, alone
	}
	b.opts.Store.Append(spaceLog, logName, id, producer, e.octets(), b.opts.Now().Add(time.Duration(b.kept.Load())),
		func(r store.AppendResult) {
			b.pending.Give(producer, size)
			switch {
			case r.Err != nil:
				fault := profiles.Unavailable(r.Err)
				if fault.Retryable {
					b.order.refused(from, id, b.opts.Now())
				}
				done(fault)
				return
			case r.Fresh:
				e.seq = r.Seq
				b.tail.append(e)
			case !r.Equal:
				done(errConflict)
				return
			}
			done(nil)
		})
}

var errPending = profiles.Busy(DetailPending, "too many events wait to be stored")

// errConflict refuses another event under a used event_id.
var errConflict = invalid(DetailConflict, "event_id was used for another event")

// acceptAll accepts the records of a batch, in order, and calls done when all are accepted,
// or the last is not, with the first error. Events accepted before an error stay, and are
// not duplicated when the batch is repeated.
func (b *Bus) acceptAll(lane profiles.Lane, producer string, events []*entry, done func(error)) {
	if len(events) == 0 {
		done(nil)
		return
	}
	var mu sync.Mutex
	left, first := len(events), error(nil)
	for _, e := range events {
		b.accept(lane, producer, e, func(err error) {
			mu.Lock()
			left--
			if first == nil {
				first = err
			}
			err, last := first, left == 0
			mu.Unlock()
			if last {
				done(err)
			}
		})
	}
}

// publish serves an EVT_PUBLISH.
func (b *Bus) publish(req *profiles.Request) error {
	var m Publish
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	producer := req.Identity()
	req.About("publish", string(m.Event.EventType))
	if err := b.mayPublish(producer, &m.Event); err != nil {
		return err
	}
	e := newEntry(&m.Event)
	if b.opts.Store == nil {
		return b.acceptLive(producer, e)
	}
	b.accept(req.Lane, producer, e, req.Defer())
	return nil
}

// batch serves an EVT_BATCH that a peer publishes.
func (b *Bus) batch(req *profiles.Request) error {
	var m Batch
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	producer := req.Identity()
	events := make([]*entry, len(m.Events))
	seen := make(map[string]*entry, len(m.Events))
	for i := range m.Events {
		r := &m.Events[i]
		if i == 0 {
			req.About("publish", string(r.EventType)) // the first event names a batch
		}
		if err := b.mayPublish(producer, r); err != nil {
			return err
		}
		events[i] = newEntry(r)
		if other := seen[string(r.EventID)]; other != nil && string(other.octets()) != string(events[i].octets()) {
			return errConflict
		}
		seen[string(r.EventID)] = events[i]
	}
	if b.opts.Store == nil {
		var err error
		b.acceptAll(req.Lane, producer, events, func(first error) { err = first })
		return err
	}
	b.acceptAll(req.Lane, producer, events, req.Defer())
	return nil
}

func (b *Bus) mayPublish(producer string, r *Record) error {
	if b.ctx.Err() != nil {
		return errEnding
	}
	if !b.opts.Access.Allowed(producer, "events", "publish", string(r.EventType)) {
		return &profiles.Error{Code: profiles.SecurityPolicy, Text: "events: not allowed to publish events of this type", Denied: true}
	}
	return nil
}

// errEnding refuses events after Close.
var errEnding = &profiles.Error{Code: profiles.RateLimitExceeded, Detail: "closed", Text: "events: this endpoint is shutting down",
	Pace: true, Retryable: true, Cause: errors.New("events: closed")}
