// Package telemetry produces the logs, metrics and traces of swpd from the reports of
// endpoints and listeners.
package telemetry

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/slimwire/swp/daemon/internal/history"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Metrics are the metrics of a daemon. No peer chooses a label value: profile names come
// from the registry; codes, details and reasons from fixed sets; names of servers from the
// configuration.
type Metrics struct {
	Registry *prometheus.Registry

	past *history.Recorder

	dense [32]*profileMetrics // by profile_id; nil for unknown ones
	more  map[uint64]*profileMetrics
	other *profileMetrics // for profile_ids that are not served

	rejects     *prometheus.CounterVec
	security    *prometheus.CounterVec
	opened      *prometheus.CounterVec
	sessions    *prometheus.GaugeVec
	refused     *prometheus.CounterVec
	flags       prometheus.Counter
	unsolicited prometheus.Counter
}

// profileMetrics holds the counters of one profile, so that the hot path needs no lookup.
type profileMetrics struct {
	name     string
	messages prometheus.Counter
	octets   prometheus.Counter
}

// NewMetrics makes the metrics of profiles and of the program.
func NewMetrics(reg *profiles.Registry, version string) *Metrics {
	t := &Metrics{Registry: prometheus.NewRegistry(), more: make(map[uint64]*profileMetrics)}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		t.Registry.MustRegister(c)
		return c
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		t.Registry.MustRegister(c)
		return c
	}
	t.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	messages := vec("swpd_messages_total", "Messages received, refused ones included.", "profile")
	octets := vec("swpd_received_bytes_total", "Octets of frames received, prefixes included.", "profile")
	of := func(name string) *profileMetrics {
		return &profileMetrics{name, messages.WithLabelValues(name), octets.WithLabelValues(name)}
	}
	t.other = of("other")
	t.add(endpoint.ErrorProfile, of("error"))
	for _, p := range reg.All() {
		t.add(p.ID, of(p.Name))
	}

	t.rejects = vec("swpd_rejects_total", "Messages refused.", "code", "detail", "profile")
	t.security = vec("swpd_security_events_total", "Failures of authentication or integrity, handshakes among them.", "transport", "reason")
	t.opened = vec("swpd_sessions_opened_total", "Connections served.", "transport")
	t.refused = vec("swpd_connections_refused_total", "Authenticated connections closed unserved: over a bound, or stopping.", "transport")
	t.sessions = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "swpd_sessions", Help: "Connections open."}, []string{"transport"})
	t.Registry.MustRegister(t.sessions)
	for _, name := range transports {
		t.sessions.WithLabelValues(name)
		t.opened.WithLabelValues(name)
		t.refused.WithLabelValues(name) // an alert on the increase sees the first one
	}
	t.flags = counter("swpd_unknown_flags_total", "Messages with a flag bit set; none is assigned.")
	t.unsolicited = counter("swpd_unsolicited_total", "Answers that nobody had asked for.")

	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "swpd_build_info", Help: "Always 1."}, []string{"version", "go"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	t.Registry.MustRegister(build)
	return t
}

var transports = []string{"tls", "quic", "tcp"}

func (t *Metrics) add(id uint64, m *profileMetrics) {
	if id < uint64(len(t.dense)) {
		t.dense[id] = m
		return
	}
	t.more[id] = m
}

func (t *Metrics) profile(id uint64) *profileMetrics {
	if id < uint64(len(t.dense)) {
		if m := t.dense[id]; m != nil {
			return m
		}
		return t.other
	}
	if m, ok := t.more[id]; ok {
		return m
	}
	return t.other
}

// Watch adds the metrics that are read at scrape time.
func (t *Metrics) Watch(stats func() endpoint.Stats, curtailed func() uint64) {
	gauge := func(name, help string, f func() float64) {
		t.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	gauge("swpd_handlers", "Detached handlers running.", func() float64 { return float64(stats().Handlers) })
	t.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "swpd_answers_unreceived_total", Help: "Answers to calls of this endpoint that were lost because they came faster than they were received.",
	}, func() float64 { return float64(stats().Unreceived) }))
	t.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "swpd_end_to_end_extensions_dropped_total", Help: "Messages sent without their end-to-end extensions, for which there was no room.",
	}, func() float64 { return float64(curtailed()) }))
	gauge("swpd_deferred_bytes", "Octets of messages whose commit is under way.", func() float64 { return float64(stats().DeferredBytes) })
}

func (t *Metrics) verdict(v *endpoint.Verdict) *profileMetrics {
	p := t.profile(v.ProfileID)
	p.messages.Inc()
	p.octets.Add(float64(v.Bytes))
	if v.Flags != 0 {
		t.flags.Inc()
	}
	switch {
	case v.Reject:
		t.rejects.WithLabelValues(v.Code.String(), v.Detail, p.name).Inc()
	case v.Detail == detailUnsolicited:
		t.unsolicited.Inc()
	}
	return p
}

// detailUnsolicited is the Detail of an answer without a matching request.
const detailUnsolicited = "unsolicited"

func (t *Metrics) event(ev *transport.SecurityEvent) {
	t.security.WithLabelValues(ev.Transport, ev.Reason).Inc()
}
