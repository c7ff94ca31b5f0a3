package endpoint

import (
	"context"

	"github.com/slimwire/swp/profiles"
)

// Tracer follows exchanges from the handler to the verdict. Its methods and the functions
// that they return are called by many goroutines at once, often on a read loop, and must
// not block. An implementation should allocate nothing for an exchange that it does not
// trace.
type Tracer interface {
	// Begin is called before the handler of an initiating message, but not for a message
	// that was refused earlier. It returns ctx or a context derived from it, which the
	// handler and the exchange use. ended is called once with the verdict of the message,
	// after the Observer; it may be nil. req is valid until Begin returns.
	Begin(ctx context.Context, profile *profiles.Profile, req *profiles.Request) (_ context.Context, ended func(Verdict))
}

// ContextFunc is a Tracer that only makes the contexts of handlers.
type ContextFunc func(ctx context.Context, profile *profiles.Profile, req *profiles.Request) context.Context

// Begin calls f.
func (f ContextFunc) Begin(ctx context.Context, profile *profiles.Profile, req *profiles.Request) (context.Context, func(Verdict)) {
	return f(ctx, profile, req), nil
}

// trace sets the context of the message being served.
func (l *lane) trace(profile *profiles.Profile) {
	l.reqCtx, l.traced, l.carries = l.ctx, nil, false
	if l.req.Unsolicited {
		return
	}
	l.reqCtx = profiles.WithEndToEnd(l.ctx, profiles.EndToEndOf(&l.req.Envelope))
	if t := l.s.opts.Tracer; t != nil {
		before := l.reqCtx
		l.reqCtx, l.traced = t.Begin(before, profile, &l.req)
		l.carries = l.reqCtx != before
	}
}
