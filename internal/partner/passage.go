package partner

import (
	"context"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Trace says what of a trace context crosses to a partner.
type Trace uint8

// Messages that go ahead of an exchange. They always carry its ids: the link is
// shared, and a setting for the connection would affect the exchanges of all
// callers.
const (
	TraceParent Trace = iota // traceparent
	TraceFull                // traceparent and tracestate
	TraceNone                // nothing
)

// onward prepares a message of the exchange of ctx for its way over the link: the
// extensions it goes out with, and the context to send it in, which sends ahead what
// travels with it. on and lifecycle are those of profiles.WithForward.
func (l *Link) onward(
	ctx context.Context, p profiles.Passage, on profiles.Onward, lifecycle func(*e1.Envelope) []byte,
) (context.Context, e1.Extensions, error) {
	if fault := p.Spent(); fault != nil {
		return nil, nil, fault
	}
	switch {
	case l.opts.Carrier != nil:
		ctx = profiles.WithForward(l.crossing(ctx), l.opts.Carrier, on, lifecycle)
	case profiles.DelegationOf(ctx) != nil:
		return nil, nil, profiles.ErrChain
	}
	return ctx, p.Append(nil, time.Now()), nil
}

// crossing returns ctx with what of its trace context crosses.
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
