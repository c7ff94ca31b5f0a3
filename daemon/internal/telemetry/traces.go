package telemetry

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/tracing"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// Traces gives handlers what travels with messages, and if there is a collector makes a
// span of each exchange.
type Traces struct {
	part.Passive
	carriers profiles.Carriers
	spans    *tracing.Tracer // nil without a collector
	log      *zap.Logger

	// The state of failed, which one goroutine calls.
	told time.Time
	lost int // since then

	flush sync.WaitGroup
}

// TraceOptions configure Traces.
type TraceOptions struct {
	Carriers  profiles.Carriers // what travels with messages
	Collector string            // empty: no spans are made
	Version   string
	Identity  string // of this endpoint
	Log       *zap.Logger
}

// NewTraces connects nothing yet.
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

// failed logs that the collector does not take spans, once a minute.
func (t *Traces) failed(spans int, err error) {
	t.lost += spans
	if now := time.Now(); t.told.IsZero() || now.Sub(t.told) >= time.Minute {
		t.log.Warn("spans not taken by the collector", zap.Int("spans", t.lost), zap.Error(err))
		t.told, t.lost = now, 0
	}
}

// flushTime is how long a stop waits for the collector to take what is left.
const flushTime = 2 * time.Second

// Close implements part.Part. What is left is sent while the other parts close: see Wait.
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

// Wait returns when what was left has been sent or given up.
func (t *Traces) Wait() {
	if t != nil {
		t.flush.Wait()
	}
}

// Collector is where traces go, fit for the log.
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
