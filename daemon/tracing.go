package daemon

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/tracing"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// traces gives handlers what travels with messages, and if there is a collector makes a
// span of each exchange.
type traces struct {
	passive
	carriers profiles.Carriers
	spans    *tracing.Tracer // nil without a collector
	log      *zap.Logger

	// The state of failed, which one goroutine calls.
	told time.Time
	lost int // since then

	flush sync.WaitGroup
}

func (d *daemon) newTraces() (*traces, error) {
	t := &traces{carriers: d.profiles.Carriers, log: d.log}
	collector := d.config.Telemetry.OTLP
	if collector == "" {
		return t, nil
	}
	var err error
	t.spans, err = tracing.New(tracing.Options{
		Collector: collector, Version: d.opts.Version, Identity: d.credentials.identity(), Failed: t.failed,
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Begin implements endpoint.Tracer.
func (t *traces) Begin(ctx context.Context, p *profiles.Profile, req *profiles.Request) (context.Context, func(endpoint.Verdict)) {
	ctx = t.carriers.Attach(ctx, p, req)
	if t.spans == nil {
		return ctx, nil
	}
	return t.spans.Begin(ctx, p, req)
}

// collectors implements part.
func (t *traces) collectors() []prometheus.Collector {
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
func (t *traces) failed(spans int, err error) {
	t.lost += spans
	if now := time.Now(); t.told.IsZero() || now.Sub(t.told) >= time.Minute {
		t.log.Warn("spans not taken by the collector", zap.Int("spans", t.lost), zap.Error(err))
		t.told, t.lost = now, 0
	}
}

// flushTime is how long a stop waits for the collector to take what is left.
const flushTime = 2 * time.Second

// close implements part. What is left is sent while the other parts close: see wait.
func (t *traces) close() error {
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

// wait returns when what was left has been sent or given up.
func (t *traces) wait() {
	if t != nil {
		t.flush.Wait()
	}
}

// collector is where traces go, fit for the log.
func collector(configured string) string {
	if configured == "" {
		return "off"
	}
	u, err := url.Parse(configured)
	if err != nil {
		return "?"
	}
	return u.Redacted()
}
