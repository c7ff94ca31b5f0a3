package endpoint

import (
	"context"

	"github.com/slimwire/swp/profiles"
)

// Pace implements profiles.Pacer.
func (e *exchange) Pace(ctx context.Context) error {
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
	return l.out.pace(ctx)
}

// pace waits until at most half of what may be queued is.
func (o *output) pace(ctx context.Context) error {
	b := &o.l.s.ep.opts.Bounds
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		switch {
		case o.err != nil:
			return o.err
		case o.closing:
			return profiles.ErrFinished
		case o.frames == 0, o.frames <= b.OutboundFrames/2 && o.l.s.queued.Load() <= int64(b.OutboundBytes/2):
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
