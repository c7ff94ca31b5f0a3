package endpoint

import (
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/room"
	"github.com/slimwire/swp/profiles"
)

func (r *responder) Offer(env e1.Envelope) error {
	l := (*lane)(r)
	if l.ended || l.taken != nil {
		return profiles.ErrFinished
	}
	l.answering(&l.req, &env, l.now)
	err := l.out.send(l.ctx, &env, yields)
	if err == nil {
		l.s.ep.count(&l.account, l.req.MsgID, &env, env.Size())
		l.s.alongside(l.reqCtx, &env, l.req.MsgID)
	}
	return err
}

// Pace returns at once: on the read loop Send waits instead.
func (r *responder) Pace(ctx context.Context, _ int) error {
	if r.ended || r.taken != nil {
		return profiles.ErrFinished
	}
	return ctx.Err()
}

func (e *exchange) Offer(env e1.Envelope) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done || e.answered {
		return profiles.ErrFinished
	}
	e.l.answering(&e.req, &env, e.s.opts.Now())
	err := e.l.out.send(e.ctx, &env, yields)
	if err == nil {
		e.s.ep.count(&e.account, e.req.MsgID, &env, env.Size())
		e.s.alongside(e.ctx, &env, e.req.MsgID)
	}
	return err
}

func (e *exchange) Pace(ctx context.Context, octets int) error {
	e.mu.Lock()
	over := e.done || e.answered
	if !over {
		e.l.hold() // the exchange may end during the wait
	}
	l := e.l
	e.mu.Unlock()
	if over {
		return profiles.ErrFinished
	}
	defer l.release()
	return l.out.pace(ctx, octets)
}

// bounds returns the bounds of the queue.
func (o *output) bounds() room.Bounds {
	b := &o.l.s.opts.Bounds
	return room.Bounds{Frames: b.OutboundFrames, Octets: b.OutboundBytes}
}

// pace waits until the queue has room for a sender that can wait.
func (o *output) pace(ctx context.Context, octets int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		switch {
		case o.err != nil:
			return o.err
		case o.closing:
			return profiles.ErrFinished
		case o.bounds().Paces(o.frames, o.l.s.queued.Load(), octets):
			return nil
		}
		if err := o.room.Wait(ctx, &o.mu); err != nil {
			return err
		}
	}
}
