package partner

import (
	"context"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/obs"
)

// Trace says what of a trace context crosses to a partner.
type Trace uint8

// What crosses. It always goes with the ids of the exchange it is for: the link is
// shared, and what is set for a connection would reach everybody's.
const (
	TraceParent Trace = iota // traceparent
	TraceFull                // traceparent and tracestate
	TraceNone                // nothing
)

// of returns the part of a trace context that crosses.
func (t Trace) of(ctx context.Context) profiles.Trace {
	trace := profiles.TraceOf(ctx)
	switch t {
	case TraceNone:
		return profiles.Trace{}
	case TraceParent:
		trace.State = ""
	case TraceFull:
	}
	return trace
}

// onward prepares a message of the exchange of ctx for its way over the link: the
// extensions it goes out with, and the context to send it in, which sends ahead
// what belongs to it. ids are those of its lifecycle; the msg_id of a call is added
// where it has none.
func (l *Link) onward(ctx context.Context, p profiles.Passage, ids obs.IDs) (context.Context, e1.Extensions, error) {
	if fault := p.Spent(); fault != nil {
		return nil, nil, fault
	}
	var present func(context.Context, profiles.Lane) error
	if profiles.DelegationOf(ctx) != nil {
		if l.opts.Chain == nil {
			return nil, nil, profiles.ErrChain
		}
		id, f, err := l.opts.Chain(ctx)
		if err != nil {
			return nil, nil, err
		}
		ctx, present = profiles.WithChain(ctx, id), f
	}
	trace := l.opts.Trace.of(ctx)
	if trace.Parent != "" || present != nil {
		ctx = profiles.WithAhead(ctx, func(ctx context.Context, lane profiles.Lane, msgID []byte) error {
			if present != nil {
				if err := present(ctx, lane); err != nil {
					return err
				}
			}
			if trace.Parent == "" {
				return nil
			}
			if ids.TaskID == nil && ids.RPCID == nil {
				ids.MsgID = msgID
			}
			return obs.Send(ctx, lane, trace, ids)
		})
	}
	return ctx, p.Append(nil, time.Now()), nil
}
