// Package tracing makes an OpenTelemetry span of every exchange that an endpoint
// serves, and sends the spans to a collector.
//
// A span is named "<profile> <type>", such as "rpc RPC_REQ". It lasts from the handler
// to the verdict, and records the identity of the peer and the outcome. It has no part
// of a payload. It joins the trace in the context of the exchange, which the peer has
// set with profile OBS, or begins a new trace. Handlers find the context of the span
// with profiles.TraceOf: their calls for the exchange become its children, with the
// unchanged tracestate of the peer.
//
// If the caller does not sample its trace there is no span, and handlers have the
// unchanged context of the caller. Exchanges never wait for the collector: spans that
// it does not accept in time are dropped.
package tracing

import (
	"context"
	"encoding/hex"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/transport/endpoint"
)

// Attributes of spans and of their resource.
const (
	attrProfile   = "swp.profile"   // short name
	attrMsgType   = "swp.msg_type"  // number
	attrPeer      = "swp.peer"      // identity that the channel authenticated
	attrTransport = "swp.transport" // "tls", "quic", …
	attrCode      = "swp.code"      // canonical code of the verdict, or OK
	attrDetail    = "swp.detail"    // detail of the verdict, if any
	attrIdentity  = "swp.identity"  // of this endpoint
	attrService   = "service.name"  // always "swpd"
	attrVersion   = "service.version"
)

// Options configure New.
type Options struct {
	// Collector is the URL of a collector that speaks OTLP over HTTP. Without a
	// path it is /v1/traces. Required.
	Collector string

	// Version and Identity describe this endpoint.
	Version, Identity string

	// Failed gets the number of spans that the collector did not accept, on the
	// goroutine of the sender. It may be nil.
	Failed func(spans int, err error)
}

// Tracer implements endpoint.Tracer.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
	sender   *sender
}

// maxAttribute bounds the values of a span: the identity in a certificate may be
// long.
const maxAttribute = 1024

// New returns a tracer that sends its spans until Close.
func New(opts Options) (*Tracer, error) {
	s, err := newSender(opts.Collector, opts.Failed)
	if err != nil {
		return nil, err
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxAttribute
	t := &Tracer{sender: s}
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String(attrService, "swpd"),
			attribute.String(attrVersion, opts.Version),
			attribute.String(attrIdentity, opts.Identity),
		)),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())),
		sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithSpanProcessor(s.processor()),
	)
	t.tracer = t.provider.Tracer("github.com/slimwire/swp/daemon/internal/tracing")
	return t, nil
}

// Close sends the remaining spans, until ctx ends, and ends the tracer. Spans that end
// later are dropped.
func (t *Tracer) Close(ctx context.Context) error {
	defer t.sender.close()
	defer context.AfterFunc(ctx, t.sender.giveUp)()
	return t.provider.Shutdown(context.WithoutCancel(ctx))
}

// Begin implements endpoint.Tracer. Messages of OBS get no span.
func (t *Tracer) Begin(ctx context.Context, p *profiles.Profile, req *profiles.Request) (context.Context, func(endpoint.Verdict)) {
	if p.ID == obs.ProfileID {
		return ctx, nil
	}
	from := profiles.TraceOf(ctx)
	parent := ctx
	if sc, ok := spanContext(from); ok {
		parent = trace.ContextWithRemoteSpanContext(ctx, sc)
	}
	typ, _ := p.Type(req.MsgType)
	peer := req.Peer()
	own, span := t.tracer.Start(parent, p.Name+" "+typ.Name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String(attrProfile, p.Name),
		attribute.String(attrMsgType, strconv.FormatUint(req.MsgType, 10)),
		attribute.String(attrPeer, peer.Identity),
		attribute.String(attrTransport, peer.Transport),
	))
	if !span.IsRecording() {
		return ctx, nil // calls of the handler continue the trace of the caller
	}
	here := profiles.Trace{Parent: traceparent(span.SpanContext()), State: from.State}
	return profiles.WithTrace(own, here), func(v endpoint.Verdict) { end(span, &v) }
}

// end records the outcome of the exchange in a span, without the error of the verdict,
// since it can quote the peer.
func end(span trace.Span, v *endpoint.Verdict) {
	span.SetAttributes(attribute.String(attrCode, v.Code.String()))
	if v.Detail != "" {
		span.SetAttributes(attribute.String(attrDetail, v.Detail))
	}
	if v.Code == profiles.Internal || v.Reject {
		span.SetStatus(codes.Error, v.Code.String())
	}
	span.End()
}

// spanContext reads a traceparent that OBS has checked. A tracestate that OpenTelemetry
// refuses is left out of the span; handlers have it unchanged.
func spanContext(t profiles.Trace) (trace.SpanContext, bool) {
	if len(t.Parent) < 55 {
		return trace.SpanContext{}, false
	}
	id, err := trace.TraceIDFromHex(t.Parent[3:35])
	if err != nil {
		return trace.SpanContext{}, false
	}
	parent, err := trace.SpanIDFromHex(t.Parent[36:52])
	if err != nil {
		return trace.SpanContext{}, false
	}
	flags, err := hex.DecodeString(t.Parent[53:55])
	if err != nil {
		return trace.SpanContext{}, false
	}
	state, err := trace.ParseTraceState(t.State)
	if err != nil {
		state = trace.TraceState{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: parent, TraceFlags: trace.TraceFlags(flags[0]), TraceState: state, Remote: true,
	}), true
}

// traceparent formats a span context as a W3C traceparent, version 00.
func traceparent(sc trace.SpanContext) string {
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" + sc.TraceFlags().String()
}
