package telemetry

import (
	"context"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/tracing"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// Traces gives handlers the context that travels with messages. With a collector it also
// makes a span of each exchange. A span goes to the collector that was configured when its
// exchange began.
type Traces struct {
	part.Passive
	o     TraceOptions
	now   atomic.Pointer[collector] // nil: no spans
	flush sync.WaitGroup

	mu         sync.Mutex              // guards the following fields
	open       map[*collector]struct{} // with those that are being closed
	sent, lost uint64                  // to collectors that were closed
	told       time.Time               // time of the last log line of failed
	untold     int                     // lost spans since then
}

// TraceOptions configure Traces.
type TraceOptions struct {
	Carriers  profiles.Carriers // context that travels with messages
	Collector string            // empty: no spans
	Version   string
	Identity  func() string // of this endpoint
	Log       *zap.Logger
}

// collector makes spans for one collector.
type collector struct {
	*tracing.Tracer
	url     string
	users   atomic.Int64 // spans that have not ended, and one while the collector is configured
	closing bool         // guarded by the mu of Traces
}

// use reports whether the collector may get another span. If so, call leave when it has
// ended.
func (c *collector) use() bool {
	for {
		n := c.users.Load()
		if n == 0 {
			return false
		}
		if c.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// NewTraces does not connect to the collector yet.
func NewTraces(o TraceOptions) (*Traces, error) {
	t := &Traces{o: o, open: make(map[*collector]struct{})}
	c, err := t.collect(o.Collector)
	if err != nil {
		return nil, err
	}
	t.now.Store(c)
	return t, nil
}

// collect returns the collector at a URL; nil if that is empty.
func (t *Traces) collect(at string) (*collector, error) {
	if at == "" {
		return nil, nil
	}
	spans, err := tracing.New(tracing.Options{Collector: at, Version: t.o.Version, Identity: t.o.Identity(), Failed: t.failed})
	if err != nil {
		return nil, err
	}
	c := &collector{Tracer: spans, url: at}
	c.users.Store(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[c] = struct{}{}
	return c, nil
}

// leave ends a use of a collector. The last use of one that is not configured any more
// closes it.
func (t *Traces) leave(c *collector) {
	if c != nil && c.users.Add(-1) == 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.end(c)
	}
}

// end sends the remaining spans to a collector and closes it, in the background. The caller
// holds mu.
func (t *Traces) end(c *collector) {
	if c.closing {
		return
	}
	c.closing = true
	t.flush.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.o.Log.Warn("traces not closed in order", zap.Error(err))
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.open, c)
		t.sent, t.lost = t.sent+c.Sent(), t.lost+c.Lost()
	})
}

// Begin implements endpoint.Tracer.
func (t *Traces) Begin(ctx context.Context, p *profiles.Profile, req *profiles.Request) (context.Context, func(endpoint.Verdict)) {
	ctx = t.o.Carriers.Attach(ctx, p, req)
	c := t.now.Load()
	for c != nil && !c.use() { // it was replaced since
		c = t.now.Load()
	}
	if c == nil {
		return ctx, nil
	}
	ctx, end := c.Begin(ctx, p, req)
	if end == nil {
		t.leave(c)
		return ctx, nil
	}
	return ctx, func(v endpoint.Verdict) {
		end(v)
		t.leave(c)
	}
}

// TraceSection is the collector of spans.
func TraceSection(prepare part.Prepare) part.Section {
	return part.Section{Name: "traces", Stays: "the old collector stays", Keys: []string{"telemetry.otlp"}, Prepare: prepare}
}

// Prepare prepares another collector, for the spans of later exchanges.
func (t *Traces) Prepare(c *config.Config) (part.Change, error) {
	at := c.Telemetry.OTLP
	old := t.now.Load()
	if old == nil && at == "" || old != nil && old.url == at {
		return part.Change{Commit: func() bool { return false }}, nil
	}
	next, err := t.collect(at)
	return part.Change{
		Fields: []zap.Field{zap.String("traces", Collector(at))},
		Commit: func() bool {
			t.leave(t.now.Swap(next))
			return false
		},
		Abandon: func() { t.leave(next) },
	}, err
}

// Collectors implements part.Part.
func (t *Traces) Collectors() []prometheus.Collector {
	count := func(name, help string, of func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(of()) })
	}
	return []prometheus.Collector{
		count("swpd_spans_sent_total", "Spans that the collector took.", func() uint64 { sent, _ := t.counts(); return sent }),
		count("swpd_spans_lost_total", "Spans that the collector did not take in time.", func() uint64 { _, lost := t.counts(); return lost }),
	}
}

// counts returns the number of spans that collectors took, and of those that they did not.
func (t *Traces) counts() (sent, lost uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sent, lost = t.sent, t.lost
	for c := range t.open {
		sent, lost = sent+c.Sent(), lost+c.Lost()
	}
	return sent, lost
}

// failed logs at most once a minute that spans were lost.
func (t *Traces) failed(spans int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.untold += spans
	if now := time.Now(); t.told.IsZero() || now.Sub(t.told) >= time.Minute {
		t.o.Log.Warn("spans not taken by the collector", zap.Int("spans", t.untold), zap.Error(err))
		t.told, t.untold = now, 0
	}
}

// flushTime limits the wait for the collector at a stop.
const flushTime = 2 * time.Second

// Close implements part.Part. It starts to send the remaining spans while other parts
// close; see Wait.
func (t *Traces) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.open {
		t.end(c)
	}
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
