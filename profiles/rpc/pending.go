package rpc

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/profiles"
)

// Pending is an open call of a Held method. It is safe for concurrent use; only Pace waits.
// Return or Fail must be called once. After the end of the call both do nothing.
type Pending struct {
	seat    seat
	session profiles.Session
	peer    *profiles.Peer
	lane    profiles.Lane
	key     string
	target  string
	passage profiles.Passage
	ctx     context.Context
	stop    context.CancelCauseFunc
	after   func(f func(), of ...[]byte) bool // of the request; nil once Held has returned
	run     *run                              // under an idempotency_key, else nil
}

// Session is the connection of the caller.
func (p *Pending) Session() profiles.Session { return p.session }

// Peer is the caller, see profiles.Request.Peer.
func (p *Pending) Peer() *profiles.Peer { return p.peer }

// Lane is the lane of the call; messages that belong to it are sent there.
func (p *Pending) Lane() profiles.Lane { return p.lane }

// About sets the subject of the call for observers, in place of the name of the method.
func (p *Pending) About(profile, operation, name string) {
	p.seat.about(profiles.Subject{Profile: profile, Operation: operation, Name: name})
}

// Permit implements profiles.Permitter.
func (p *Pending) Permit(one profiles.Permit) { p.seat.permit(one) }

// IdempotencyKey is the key of the caller, or empty. It is unique only within the identity
// of the caller.
func (p *Pending) IdempotencyKey() string { return p.key }

// Target is where the call goes (extension 52). It is empty unless the method handles
// targets itself.
func (p *Pending) Target() string { return p.target }

// came notes what the request says of its way.
func (p *Pending) came(req *profiles.Request, m *method) {
	p.peer = req.Peer()
	p.passage = profiles.PassageOf(req.Extensions, time.Now())
	if m.targets {
		p.target, _ = profiles.TargetOf(req.Extensions) // validated when the request was read
	}
}

// Passage is the passage of the request. The context of the call ends at its deadline.
func (p *Pending) Passage() profiles.Passage { return p.passage }

// After calls f once every message deferred earlier on the caller's stream is done, or
// those with the given msg_ids (see profiles.Request); at once if none is open. f must not
// block. It may be called only until Held returns.
func (p *Pending) After(f func(), of ...[]byte) {
	if p.after == nil || !p.after(f, of...) {
		f()
	}
}

// Context ends with the call: it returned, failed, was cancelled, timed out, or the caller
// disconnected. With an idempotency_key a call that is not Long continues without its
// caller, which may repeat it to get the outcome.
func (p *Pending) Context() context.Context { return p.ctx }

// Item queues a stream item. It fails with profiles.ErrFinished after the end of the call.
// A peer that is too slow is disconnected: call Pace first for backpressure.
func (p *Pending) Item(item []byte) error { return p.ForwardItem(item, profiles.EndToEnd{}) }

// ForwardItem is Item for an item of another endpoint, with the data that it keeps.
func (p *Pending) ForwardItem(item []byte, keeps profiles.EndToEnd) error {
	if p.ctx.Err() != nil {
		return profiles.ErrFinished
	}
	err := p.seat.item(item, keeps)
	if p.run != nil && p.ctx.Err() == nil {
		return nil // the caller has disconnected, but the call continues
	}
	return err
}

// Pace waits until the outbound queue has room for more items, the call has ended, or ctx
// ends.
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

// Return ends the call with its result. It fails with profiles.ErrFinished after the end of
// the call.
func (p *Pending) Return(result []byte) error {
	return p.ForwardResult(result, profiles.EndToEnd{})
}

// ForwardResult is Return for a result of another endpoint, with the data that it keeps.
func (p *Pending) ForwardResult(result []byte, keeps profiles.EndToEnd) error {
	if p.run != nil {
		return p.run.finish(outcome{result: append([]byte{}, result...), keeps: keeps})
	}
	if p.ctx.Err() != nil {
		return profiles.ErrFinished
	}
	defer p.stop(nil)
	return p.seat.answer(outcome{result: result, keeps: keeps})
}

// Fail ends the call with an error, as if a method had returned it. Nil means internal.
func (p *Pending) Fail(err error) {
	o := outcomeOf(err)
	if p.run != nil {
		_ = p.run.finish(o)
		return
	}
	_ = p.seat.answer(o) // fails if the caller has disconnected
	p.stop(err)
}

// Leave ends the call without an answer, because its caller is leaving. With an
// idempotency_key the call continues, see Context.
func (p *Pending) Leave() {
	if p.run == nil {
		p.seat.refuse(nil)
		p.stop(nil)
	}
}

// hold opens the call of a Held method.
func (s *service) hold(req *profiles.Request, in *Req, m *method, left time.Duration) error {
	p := &Pending{session: req.Session, lane: req.Lane, key: string(in.IdempotencyKey), stop: func(error) {}}
	p.came(req, m)
	leave := func(why *Error) {
		if why != nil {
			p.Fail(why)
			return
		}
		p.Leave()
	}
	err := s.sit(&p.seat, req, in, m, left, leave, func(*profiles.Request) {
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

// ErrStopped is the cause for the context of a call with an idempotency_key when the
// endpoint stops: the call has not ended finally.
var ErrStopped = errors.New("rpc: the endpoint stops")
