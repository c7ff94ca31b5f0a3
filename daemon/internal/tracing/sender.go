package tracing

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Bounds on the queue for the collector, and on its delays.
const (
	maxWaiting = 4096             // spans; more are dropped
	maxBatch   = 512              // spans in one request
	interval   = time.Second      // between requests, if batches are not full
	timeout    = 5 * time.Second  // of one request
	patience   = 10 * time.Second // for one batch, with retries
	maxAnswer  = 64 << 10         // octets of an answer
)

// sender sends spans to a collector. It is a sdktrace.SpanExporter that never returns
// an error: spans that the collector refuses are counted, reported and dropped.
type sender struct {
	sdktrace.SpanExporter
	transport *http.Transport
	failed    func(int, error)
	given     context.Context // ends when the sender must not wait any longer
	giveUp    context.CancelFunc

	sent, lost atomic.Uint64
}

func newSender(collector string, failed func(int, error)) (*sender, error) {
	u, err := url.Parse(collector)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("collector %q: want a URL such as http://127.0.0.1:4318", collector)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	s := &sender{failed: failed}
	s.given, s.giveUp = context.WithCancel(context.Background())
	// Not the default transport, which is never closed.
	s.transport = &http.Transport{Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: 1, IdleConnTimeout: time.Minute}
	s.SpanExporter, err = otlptracehttp.New(s.given,
		otlptracehttp.WithEndpointURL(u.String()),
		otlptracehttp.WithHTTPClient(&http.Client{Transport: s.transport, Timeout: timeout, CheckRedirect: noRedirect}),
		otlptracehttp.WithMaxResponseSize(maxAnswer),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: timeout, MaxElapsedTime: patience,
		}),
	)
	if err != nil {
		s.giveUp()
		return nil, fmt.Errorf("collector %q: %w", collector, err)
	}
	return s, nil
}

// noRedirect keeps spans from a collector that is not configured.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// processor collects ended spans in batches, on a separate goroutine.
func (s *sender) processor() sdktrace.SpanProcessor {
	return sdktrace.NewBatchSpanProcessor(s,
		sdktrace.WithMaxQueueSize(maxWaiting),
		sdktrace.WithMaxExportBatchSize(maxBatch),
		sdktrace.WithBatchTimeout(interval),
		sdktrace.WithExportTimeout(patience),
	)
}

// ExportSpans sends a batch. It never fails: the processor would pass the error to a
// global handler.
func (s *sender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.given, cancel)()
	err := s.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		s.sent.Add(uint64(len(spans)))
		return nil
	}
	s.lost.Add(uint64(len(spans)))
	if s.failed != nil {
		s.failed(len(spans), err)
	}
	return nil
}

// close ends the connection to the collector.
func (s *sender) close() {
	s.giveUp()
	s.transport.CloseIdleConnections()
}

// Sent counts the spans that the collector accepted.
func (t *Tracer) Sent() uint64 { return t.sender.sent.Load() }

// Lost counts the spans that the collector did not accept in time. It does not count
// spans that found the queue full.
func (t *Tracer) Lost() uint64 { return t.sender.lost.Load() }
