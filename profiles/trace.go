package profiles

import "context"

// Trace is a W3C trace context as the peer gave it, octet for octet.
type Trace struct {
	Parent string // traceparent; empty means none
	State  string // tracestate
}

// WithTrace returns ctx with a trace context.
func WithTrace(ctx context.Context, t Trace) context.Context {
	c := carriedBy(ctx)
	c.trace = t
	return c.in(ctx)
}

// TraceOf returns the trace context that ctx carries, zero if it carries none. The context
// of a handler carries the trace context of its exchange.
func TraceOf(ctx context.Context) Trace { return carriedBy(ctx).trace }
