package telemetry

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/profiles"
)

// otherOperation is the label value for operations outside the tables of the profiles, so
// that peers cannot create label values.
const otherOperation = "other"

// latency holds the durations of exchanges.
type latency struct {
	exchanges *prometheus.HistogramVec
	servers   *prometheus.HistogramVec
	partners  *prometheus.HistogramVec

	known map[[2]string]*byOutcome // by profile and operation; read-only
}

// byOutcome holds the histograms of one operation, so that the hot path needs no lookup.
type byOutcome [profiles.Outcomes]struct {
	once sync.Once
	h    prometheus.Observer
}

func newLatency(tables []*profiles.Profile) *latency {
	l := &latency{
		exchanges: histograms("swpd_exchange_seconds", "How long exchanges took that peers opened.", "profile", "operation", "outcome"),
		servers:   histograms("swpd_mcp_seconds", "How long exchanges took with the MCP servers of this endpoint.", "server", "outcome"),
		partners:  histograms("swpd_partner_seconds", "How long exchanges took that were passed on to partners.", "partner", "profile", "outcome"),
		known:     make(map[[2]string]*byOutcome),
	}
	for _, p := range tables {
		for _, o := range p.Operations {
			l.known[[2]string{p.Name, o.Name}] = new(byOutcome)
		}
		l.known[[2]string{p.Name, otherOperation}] = new(byOutcome)
	}
	l.known[[2]string{otherOperation, otherOperation}] = new(byOutcome)
	return l
}

func histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(Histogram(name, help, 300), labels)
}

// Histogram returns options for a native histogram with classic buckets up to longest
// seconds, for scrapers without support for native ones.
func Histogram(name, help string, longest float64) prometheus.HistogramOpts {
	buckets := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	return prometheus.HistogramOpts{
		Name: name, Help: help,
		Buckets:                         buckets[:slices.Index(buckets, longest)+1],
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}
}

// observe counts an exchange.
func (l *latency) observe(s *profiles.Subject, o profiles.Outcome, seconds float64) {
	key := [2]string{s.Profile, s.Operation}
	known := l.known[key]
	if known == nil {
		key[1] = otherOperation
		known = l.known[key]
	}
	if known == nil {
		key[0] = otherOperation
		known = l.known[key]
	}
	one := &known[o]
	one.once.Do(func() { one.h = l.exchanges.WithLabelValues(key[0], key[1], o.String()) })
	one.h.Observe(seconds)
}

// server records an exchange with a configured MCP server.
func (l *latency) server(name string, o profiles.Outcome, seconds float64) {
	l.servers.WithLabelValues(name, o.String()).Observe(seconds)
}

// partner records an exchange with a configured partner. The profile must be one whose
// exchanges may go to partners.
func (l *latency) partner(name, profile string, o profiles.Outcome, seconds float64) {
	l.partners.WithLabelValues(name, profile, o.String()).Observe(seconds)
}

// forgetServer removes the histograms of an MCP server.
func (l *latency) forgetServer(name string) {
	l.servers.DeletePartialMatch(prometheus.Labels{"server": name})
}

// forgetPartner removes the histograms of a partner.
func (l *latency) forgetPartner(name string) {
	l.partners.DeletePartialMatch(prometheus.Labels{"partner": name})
}

func (l *latency) vecs() []*prometheus.HistogramVec {
	return []*prometheus.HistogramVec{l.exchanges, l.servers, l.partners}
}

func (l *latency) describe(ch chan<- *prometheus.Desc) {
	for _, vec := range l.vecs() {
		vec.Describe(ch)
	}
}

func (l *latency) collect(ch chan<- prometheus.Metric) {
	for _, vec := range l.vecs() {
		vec.Collect(ch)
	}
}
