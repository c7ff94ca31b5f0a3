package endpoint

import (
	"context"

	"github.com/slimwire/swp/profiles"
)

// Tracer follows exchanges. Its methods are called on read loops and must not
// block.
type Tracer interface {
	// Begin is called before the handler of an initiating message. The context
	// that it returns, ctx or one made from it, is the handler's. ended is
	// called once, with the verdict of the message; nil means that nobody wants
	// to know. req is valid until Begin returns.
	Begin(ctx context.Context, profile *profiles.Profile, req *profiles.Request) (_ context.Context, ended func(Verdict))
}

// trace sets the context of the message being served.
func (l *lane) trace(profile *profiles.Profile) {
	l.reqCtx, l.traced = l.ctx, nil
	if t := l.s.ep.opts.Tracer; t != nil && !l.req.Unsolicited {
		l.reqCtx, l.traced = t.Begin(l.ctx, profile, &l.req)
	}
}
