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

// Messages that go ahead of an exchange. They always carry its ids: the link is
// shared, and a setting for the connection would affect the exchanges of all
// callers.
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

// onward prepares a message of the exchange of ctx for its way over the link: its
// extensions, and the context to send it in, which sends the messages that belong
// ahead of it. hints sends its hints, and may be nil.
func (l *Link) onward(
	ctx context.Context, p profiles.Passage, hints func(ctx context.Context, lane profiles.Lane, env *e1.Envelope) error,
) (context.Context, e1.Extensions, error) {
	if fault := p.Spent(); fault != nil {
		return nil, nil, fault
	}
	delegated := profiles.DelegationOf(ctx) != nil
	if delegated && l.opts.Credentials == nil {
		return nil, nil, profiles.ErrChain
	}
	trace := l.opts.Trace.of(ctx)
	if delegated || trace.Parent != "" || hints != nil {
		ctx = profiles.WithAhead(ctx, func(ctx context.Context, lane profiles.Lane, env *e1.Envelope) error {
			if trace.Parent != "" {
				if err := obs.Send(ctx, lane, trace, obs.IDs{MsgID: env.MsgID}); err != nil {
					return err
				}
			}
			if hints != nil {
				if err := hints(ctx, lane, env); err != nil {
					return err
				}
			}
			if delegated {
				ctx, err := l.opts.Credentials(ctx, lane)
				if err != nil {
					return err
				}
				env.Extensions = profiles.AppendChain(ctx, env.Extensions)
			}
			return nil
		})
	}
	return ctx, p.Append(nil, time.Now()), nil
}
