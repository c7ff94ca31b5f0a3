package endpoint

import (
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Offer implements profiles.Offerer.
func (e *exchange) Offer(env e1.Envelope) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done || e.answered {
		return profiles.ErrFinished
	}
	e.l.answering(&e.req, &env, e.s.ep.opts.Now())
	err := e.l.out.send(e.ctx, &env, yields)
	if err == nil {
		e.s.ep.count(&e.account, &env)
	}
	return err
}

// Pace implements profiles.Pacer.
func (e *exchange) Pace(ctx context.Context) error {
	return e.PaceTo(ctx, e.s.ep.opts.Bounds.OutboundBytes/2)
}

// PaceTo implements profiles.Trickler.
func (e *exchange) PaceTo(ctx context.Context, octets int) error {
	e.mu.Lock()
	over := e.done || e.answered
	if !over {
		e.l.hold() // the exchange may end meanwhile
	}
	l := e.l
	e.mu.Unlock()
	if over {
		return profiles.ErrFinished
	}
	defer l.release()
	return l.out.pace(ctx, octets)
}

// pace waits until at most half of the frames that may be queued are, and no more
// than so many octets.
func (o *output) pace(ctx context.Context, octets int) error {
	b := &o.l.s.ep.opts.Bounds
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		switch {
		case o.err != nil:
			return o.err
		case o.closing:
			return profiles.ErrFinished
		case o.frames == 0, o.frames <= b.OutboundFrames/2 && o.l.s.queued.Load() <= int64(octets):
			return nil
		}
		if o.room == nil {
			o.room = make(chan struct{})
		}
		room := o.room
		o.mu.Unlock()
		var err error
		select {
		case <-room:
		case <-ctx.Done():
			err = ctx.Err()
		}
		o.mu.Lock()
		if err != nil {
			return err
		}
	}
}
