package obs

import (
	"context"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// FromHeader returns the trace context of an HTTP request, given its header in the
// canonical form. As W3C Trace Context asks, there is none without exactly one valid
// traceparent, and an invalid tracestate is dropped alone.
func FromHeader(h map[string][]string) profiles.Trace {
	parents := h["Traceparent"]
	if len(parents) != 1 {
		return profiles.Trace{}
	}
	t := profiles.Trace{Parent: parents[0]}
	if t.Parent == "" || Check(t) != nil {
		return profiles.Trace{}
	}
	t.State = strings.Join(h["Tracestate"], ",")
	if Check(t) != nil {
		t.State = ""
	}
	return t
}

// Ahead returns ctx for one call, ahead of which its trace context is sent for its
// msg_id. It is ctx itself if that carries none.
func Ahead(ctx context.Context) context.Context {
	t := profiles.TraceOf(ctx)
	if t.Parent == "" {
		return ctx
	}
	return profiles.WithAhead(ctx, func(ctx context.Context, lane profiles.Lane, env *e1.Envelope) error {
		return Send(ctx, lane, t, IDs{MsgID: env.MsgID})
	})
}
