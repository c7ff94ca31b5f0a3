// Package tracing makes an OpenTelemetry span of every exchange that an endpoint
// serves, and sends the spans to a collector.
//
// A span is named "<profile> <type>", such as "rpc RPC_REQ", lasts from the
// handler to the verdict, and says whose request it was and how it ended. No
// payload is in it, and nothing of one. It joins the trace that the peer has set
// (profile OBS) and that the context of the exchange carries, or begins one. Handlers find its context with profiles.TraceOf:
// what they do for the exchange goes on below it, with the tracestate of the
// peer as it was.
//
// Spans whose caller decided not to sample its trace are not made; handlers then
// have the caller's context as it is. Nothing here waits for the collector: what
// it does not take in time is dropped.
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

// Attributes of spans and of the resource they are of.
const (
	attrProfile   = "swp.profile"   // short name
	attrMsgType   = "swp.msg_type"  // number
	attrPeer      = "swp.peer"      // identity that the channel authenticated
	attrTransport = "swp.transport" // "tls", "quic", …
	attrCode      = "swp.code"      // canonical code of the verdict, or OK
	attrDetail    = "swp.detail"    // finer name, where there is one
	attrIdentity  = "swp.identity"  // of this endpoint
	attrService   = "service.name"  // always "swpd"
	attrVersion   = "service.version"
)

// Options configure New.
type Options struct {
	// Collector is the URL of a collector that speaks OTLP over HTTP. Without a
	// path it is /v1/traces. Required.
	Collector string

	// Version and Identity say who makes the spans.
	Version, Identity string

	// Failed is told of spans that the collector did not take, on the goroutine
	// that sends them. It may be nil.
	Failed func(spans int, err error)
}

// Tracer implements endpoint.Tracer.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
	sender   *sender
}

// maxAttribute bounds what a span keeps of a value: a certificate may name its
// holder at length.
const maxAttribute = 1024

// New returns a tracer that sends what it makes until Close.
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
	t.tracer = t.provider.Tracer("github.com/slimwire/swp/daemon/tracing")
	return t, nil
}

// Close sends what is left, until ctx ends, and ends the tracer. Spans that end
// later are dropped.
func (t *Tracer) Close(ctx context.Context) error {
	defer t.sender.close()
	defer context.AfterFunc(ctx, t.sender.giveUp)()
	return t.provider.Shutdown(context.WithoutCancel(ctx))
}

// Begin implements endpoint.Tracer. Messages of OBS itself are no work and get
// no span.
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
	peer := req.Session.Peer()
	own, span := t.tracer.Start(parent, p.Name+" "+typ.Name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String(attrProfile, p.Name),
		attribute.String(attrMsgType, strconv.FormatUint(req.MsgType, 10)),
		attribute.String(attrPeer, peer.Identity),
		attribute.String(attrTransport, peer.Transport),
	))
	if !span.IsRecording() {
		return ctx, nil // whoever goes on from here continues what is there already
	}
	here := profiles.Trace{Parent: traceparent(span.SpanContext()), State: from.State}
	return profiles.WithTrace(own, here), func(v endpoint.Verdict) { end(span, &v) }
}

// end says in a span how the exchange ended. The error of the verdict is not in
// it: it may quote what the peer sent.
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

// spanContext reads a traceparent that OBS has checked. A tracestate that
// OpenTelemetry does not like is left out of the span; handlers have it as it is.
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

// traceparent writes a span context as W3C has it, version 00.
func traceparent(sc trace.SpanContext) string {
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" + sc.TraceFlags().String()
}
