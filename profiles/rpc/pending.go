package rpc

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/profiles"
)

// Pending is an open call of a Held method. It is safe for concurrent use, and
// no method but Pace waits. One of Return and Fail must be called in the end;
// once the call is over, whoever ended it, they do nothing.
type Pending struct {
	seat    seat
	session profiles.Session
	lane    profiles.Lane
	key     string
	passage profiles.Passage
	ctx     context.Context
	stop    context.CancelCauseFunc
	after   func(f func(), of ...[]byte) bool // of the request; nil once Held has returned
	run     *run                              // under an idempotency_key, else nil
}

// Session is the connection of the caller.
func (p *Pending) Session() profiles.Session { return p.session }

// Lane is the lane of the call; messages that belong to it are sent there.
func (p *Pending) Lane() profiles.Lane { return p.lane }

// About names the subject of the call in the terms of the access rules, for
// observers: they record it in place of the name of the method.
func (p *Pending) About(profile, operation, name string) {
	p.seat.about(profiles.Subject{Profile: profile, Operation: operation, Name: name})
}

// IdempotencyKey is the key that the caller gave, or empty. It means something
// for the identity of the caller only.
func (p *Pending) IdempotencyKey() string { return p.key }

// Passage is what the request says of its way. The context of the call ends at its
// deadline.
func (p *Pending) Passage() profiles.Passage { return p.passage }

// After calls f once every message that was deferred earlier on the caller's
// stream is done, or those with the msg_ids given, see profiles.Request; at once if
// there is none. f must not block. After belongs to Held: it may be called until that
// returns.
func (p *Pending) After(f func(), of ...[]byte) {
	if p.after == nil || !p.after(f, of...) {
		f()
	}
}

// Context ends when the call is over, in any way: returned, failed, cancelled by
// the caller, out of time, or the caller is gone. Under an idempotency_key a
// call, unless it is Long, goes on without its caller, which may repeat it to
// get the outcome.
func (p *Pending) Context() context.Context { return p.ctx }

// Item queues a stream item. It fails with profiles.ErrFinished when the call
// is over. A peer that is too slow is disconnected in the end: call Pace first
// for backpressure.
func (p *Pending) Item(item []byte) error {
	if p.ctx.Err() != nil {
		return profiles.ErrFinished
	}
	err := p.seat.item(item)
	if p.run != nil && p.ctx.Err() == nil {
		return nil // the caller is gone, the call is not
	}
	return err
}

// Pace waits until the outbound queue has room for more items, or the call is
// over, or ctx ends.
func (p *Pending) Pace(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	err := p.seat.pace(ctx)
	if p.run != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// Return ends the call with its result. It fails with profiles.ErrFinished when
// the call is over already.
func (p *Pending) Return(result []byte) error {
	if p.run != nil {
		return p.run.finish(outcome{result: append([]byte{}, result...)})
	}
	if p.ctx.Err() != nil {
		return profiles.ErrFinished
	}
	defer p.stop(nil)
	return p.seat.answer(outcome{result: result})
}

// Fail ends the call with an error, as if a method had returned it. Nil stands
// for internal.
func (p *Pending) Fail(err error) {
	o := outcomeOf(err)
	if p.run != nil {
		_ = p.run.finish(o)
		return
	}
	_ = p.seat.answer(o) // or nobody is left to be told
	p.stop(err)
}

// hold opens the call of a Held method.
func (s *service) hold(req *profiles.Request, in *Req, m *method, left time.Duration) error {
	p := &Pending{session: req.Session, lane: req.Lane, key: string(in.IdempotencyKey), stop: func(error) {}}
	p.passage = profiles.PassageOf(req.Extensions, time.Now())
	leave := func(why *Error) {
		if why != nil {
			p.Fail(why)
			return
		}
		p.seat.refuse(nil)
		p.stop(nil)
	}
	err := s.sit(&p.seat, req, in, m.Long, left, leave, func(*profiles.Request) {
		p.ctx, p.stop = context.WithCancelCause(p.seat.w.Context())
	})
	if err != nil {
		return err
	}
	p.after = req.After
	err = m.Held(p, in.Params)
	p.after = nil
	if err != nil {
		p.Fail(err)
	}
	return nil
}

// ErrStopped is the cause of the context of a call under an idempotency_key that
// ends with this endpoint: it is not over for good.
var ErrStopped = errors.New("rpc: the endpoint stops")
