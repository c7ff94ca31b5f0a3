package telemetry

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/tracing"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// Traces gives handlers the context that travels with messages. With a collector it also
// makes a span of each exchange.
type Traces struct {
	part.Passive
	carriers profiles.Carriers
	spans    *tracing.Tracer // nil without a collector
	log      *zap.Logger

	// told is the time of the last log line of failed. One goroutine calls failed.
	told time.Time
	lost int // since then

	flush sync.WaitGroup
}

// TraceOptions configure Traces.
type TraceOptions struct {
	Carriers  profiles.Carriers // context that travels with messages
	Collector string            // empty: no spans
	Version   string
	Identity  string // of this endpoint
	Log       *zap.Logger
}

// NewTraces does not connect to the collector yet.
func NewTraces(o TraceOptions) (*Traces, error) {
	t := &Traces{carriers: o.Carriers, log: o.Log}
	if o.Collector == "" {
		return t, nil
	}
	var err error
	t.spans, err = tracing.New(tracing.Options{
		Collector: o.Collector, Version: o.Version, Identity: o.Identity, Failed: t.failed,
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Begin implements endpoint.Tracer.
func (t *Traces) Begin(ctx context.Context, p *profiles.Profile, req *profiles.Request) (context.Context, func(endpoint.Verdict)) {
	ctx = t.carriers.Attach(ctx, p, req)
	if t.spans == nil {
		return ctx, nil
	}
	return t.spans.Begin(ctx, p, req)
}

// Collectors implements part.Part.
func (t *Traces) Collectors() []prometheus.Collector {
	if t.spans == nil {
		return nil
	}
	count := func(name, help string, of func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(of()) })
	}
	return []prometheus.Collector{
		count("swpd_spans_sent_total", "Spans that the collector took.", t.spans.Sent),
		count("swpd_spans_lost_total", "Spans that the collector did not take in time.", t.spans.Lost),
	}
}

// failed logs at most once a minute that spans were lost.
func (t *Traces) failed(spans int, err error) {
	t.lost += spans
	if now := time.Now(); t.told.IsZero() || now.Sub(t.told) >= time.Minute {
		t.log.Warn("spans not taken by the collector", zap.Int("spans", t.lost), zap.Error(err))
		t.told, t.lost = now, 0
	}
}

// flushTime limits the wait for the collector at a stop.
const flushTime = 2 * time.Second

// Close implements part.Part. It starts to send the remaining spans while other parts
// close; see Wait.
func (t *Traces) Close() error {
	if t.spans == nil {
		return nil
	}
	t.flush.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		defer cancel()
		if err := t.spans.Close(ctx); err != nil {
			t.log.Warn("traces not closed in order", zap.Error(err))
		}
	})
	return nil
}

// Wait returns when the remaining spans were sent or dropped.
func (t *Traces) Wait() {
	if t != nil {
		t.flush.Wait()
	}
}

// Collector returns the address of the collector without secrets, for the log.
func Collector(configured string) string {
	if configured == "" {
		return "off"
	}
	u, err := url.Parse(configured)
	if err != nil {
		return "?"
	}
	return u.Redacted()
}
