package profiles

import "context"

// Trace is a W3C trace context as the peer gave it, octet for octet.
type Trace struct {
	Parent string // traceparent; empty means none
	State  string // tracestate
}

type traceKey struct{}

// WithTrace returns ctx with a trace context for the work under it.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace context that ctx carries, zero if it carries none.
// Contexts given to handlers carry that of their exchange.
func TraceOf(ctx context.Context) Trace {
	t, _ := ctx.Value(traceKey{}).(Trace)
	return t
}
