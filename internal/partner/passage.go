package partner

import (
	"context"
	"slices"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/policyhint"
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
	for _, h := range profiles.HintsOf(ctx, on.Name) {
		if h.Mode == profiles.Must && on.Scope != "" && !l.servesNow(policyhint.ProfileID) {
			return nil, nil, l.ignorant("profile policyhint, and a hint is a MUST")
		}
	}
	switch {
	case l.opts.Carrier != nil:
		ctx = profiles.WithForward(l.crossing(ctx), l.opts.Carrier, on, lifecycle)
	case profiles.DelegationOf(ctx) != nil:
		return nil, nil, profiles.ErrChain
	}
	return ctx, p.Append(nil, time.Now()), nil
}

// crossing returns ctx with what of its trace context and its hints crosses. What is
// optional is left out for a partner that is not known to serve its profile, because a
// message of it could end the session.
func (l *Link) crossing(ctx context.Context) context.Context {
	if all := profiles.AllHints(ctx); len(all) > 0 && !l.servesNow(policyhint.ProfileID) {
		ctx = profiles.WithHints(ctx, slices.DeleteFunc(slices.Clone(all), func(h profiles.Hint) bool { return h.Mode != profiles.Must }))
	}
	trace := profiles.TraceOf(ctx)
	switch {
	case trace != profiles.Trace{} && !l.servesNow(obs.ProfileID):
		return profiles.WithTrace(ctx, profiles.Trace{})
	case trace == profiles.Trace{}, l.opts.Trace == TraceFull, l.opts.Trace == TraceParent && trace.State == "":
		return ctx
	case l.opts.Trace == TraceParent:
		return profiles.WithTrace(ctx, profiles.Trace{Parent: trace.Parent})
	}
	return profiles.WithTrace(ctx, profiles.Trace{})
}
