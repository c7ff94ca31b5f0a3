package profiles

import (
	"context"
	"slices"

	"github.com/slimwire/swp/e1"
)

// Extension types from ExtEndToEnd to ExtEndToEndLast are end to end: an endpoint that
// forwards a message forwards them unchanged, known or not. All other types concern one
// hop, and are forwarded by an endpoint that knows them or not at all.
const (
	ExtEndToEnd     = 64
	ExtEndToEndLast = 127
)

// EndToEnd is what a message keeps on its way over several endpoints, whether they know its
// meaning or not: its flags, and its end-to-end extensions. The zero value is the usual one.
type EndToEnd struct {
	Flags      uint64
	Extensions string // encoded, in their order
}

// EndToEndOf returns what a message keeps.
func EndToEndOf(env *e1.Envelope) EndToEnd {
	e := EndToEnd{Flags: env.Flags}
	if len(env.Extensions) > 0 {
		e.Extensions = string(endToEnd(env.Extensions, true))
	}
	return e
}

// Put adds e to a message that is sent for the one that e was read of. If there is no room
// for the extensions, they are dropped when the message is sent.
func (e EndToEnd) Put(env *e1.Envelope) {
	env.Flags |= e.Flags
	if e.Extensions != "" {
		env.Extensions = append(slices.Clip(env.Extensions), e.Extensions...)
	}
}

// WithoutEndToEnd returns extensions without those that are end to end.
func WithoutEndToEnd(ext e1.Extensions) e1.Extensions { return endToEnd(ext, false) }

// endToEnd returns the extensions that are end to end, or the others.
func endToEnd(ext e1.Extensions, are bool) (kept e1.Extensions) {
	for typ, value := range ext.All() {
		if (typ >= ExtEndToEnd && typ <= ExtEndToEndLast) == are {
			kept = e1.AppendExtension(kept, typ, value)
		}
	}
	return kept
}

// WithEndToEnd returns ctx for the handler of a message that keeps e.
func WithEndToEnd(ctx context.Context, e EndToEnd) context.Context {
	if e == (EndToEnd{}) {
		return ctx
	}
	c := carriedBy(ctx)
	c.endToEnd = e
	return c.in(ctx)
}

// EndToEndIn returns what the message keeps to whose handler ctx was given.
func EndToEndIn(ctx context.Context) EndToEnd { return carriedBy(ctx).endToEnd }
