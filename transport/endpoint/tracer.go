package endpoint

import (
	"context"

	"github.com/slimwire/swp/profiles"
)

// Tracer follows exchanges from the handler to the verdict. Its methods, and the
// functions that it returns, are called by many goroutines at once, often on a
// read loop, and must not block. One that allocates nothing for an exchange it
// does not care for costs nothing.
type Tracer interface {
	// Begin is called before the handler of an initiating message, not for what
	// is refused before it gets there. The context that it returns, ctx or one
	// made from it, is the handler's, and that of the exchange if it goes on
	// after the handler has returned. ended is called once, after the Observer,
	// with the verdict of the message; nil means that nobody wants to know. req
	// is valid until Begin returns.
	Begin(ctx context.Context, profile *profiles.Profile, req *profiles.Request) (_ context.Context, ended func(Verdict))
}

// ContextFunc is a Tracer that makes the contexts of handlers and does not want
// to know how they end.
type ContextFunc func(ctx context.Context, profile *profiles.Profile, req *profiles.Request) context.Context

// Begin calls f.
func (f ContextFunc) Begin(ctx context.Context, profile *profiles.Profile, req *profiles.Request) (context.Context, func(Verdict)) {
	return f(ctx, profile, req), nil
}

// trace sets the context of the message being served.
func (l *lane) trace(profile *profiles.Profile) {
	l.reqCtx, l.traced = l.ctx, nil
	if t := l.s.opts.Tracer; t != nil && !l.req.Unsolicited {
		l.reqCtx, l.traced = t.Begin(l.ctx, profile, &l.req)
	}
}
