package partner

import (
	"context"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Trace selects the parts of trace contexts that are forwarded to a partner.
type Trace uint8

// The metadata messages sent ahead of an exchange always carry its ids: the link is shared,
// and metadata for the whole connection would affect the exchanges of all callers.
const (
	TraceParent Trace = iota // traceparent
	TraceFull                // traceparent and tracestate
	TraceNone                // nothing
)

// Onward prepares a message for the link: it returns its extensions, and the context that
// sends the metadata of ctx ahead of it, on behalf of an identity. on and lifecycle are
// those of profiles.WithForward.
func (l *Link) Onward(
	ctx context.Context, identity string, p profiles.Passage, on profiles.Onward, lifecycle func(*e1.Envelope) []byte,
) (context.Context, e1.Extensions, error) {
	if fault := p.Spent(); fault != nil {
		return nil, nil, fault
	}
	if len(profiles.AllHints(ctx)) > 0 {
		ctx = profiles.WithHints(ctx, profiles.OwnHints(ctx, on.Name))
	}
	if l.opts.Carrier == nil && profiles.DelegationOf(ctx) != nil {
		return nil, nil, profiles.ErrChain
	}
	ctx = profiles.WithForward(l.crossing(ctx), l.opts.Carrier, on, lifecycle)
	return l.on(ctx, identity), p.Append(nil, time.Now()), nil
}

// crossing returns ctx with the parts of its trace context that are forwarded.
func (l *Link) crossing(ctx context.Context) context.Context {
	trace := profiles.TraceOf(ctx)
	switch {
	case trace == profiles.Trace{}, l.opts.Trace == TraceFull, l.opts.Trace == TraceParent && trace.State == "":
		return ctx
	case l.opts.Trace == TraceParent:
		return profiles.WithTrace(ctx, profiles.Trace{Parent: trace.Parent})
	}
	return profiles.WithTrace(ctx, profiles.Trace{})
}
