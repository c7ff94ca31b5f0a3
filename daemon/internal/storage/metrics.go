package storage

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/telemetry"
	"github.com/slimwire/swp/store"
)

type storeRow struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*store.Stats) float64
}

func storeNow(name, help string, value func(*store.Stats) float64) storeRow {
	return storeRow{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, value}
}

func storeTotal(name, help string, value func(*store.Stats) float64) storeRow {
	return storeRow{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, value}
}

var storeRows = []storeRow{
	storeNow("swpd_store_used_bytes", "Octets that are kept, as quotas reckon them, artifacts apart.", func(s *store.Stats) float64 { return float64(s.Used) }),
	storeNow("swpd_store_file_bytes", "Octets of the database and its log on disk.", func(s *store.Stats) float64 { return float64(s.FileSize) }),
	storeNow("swpd_store_write_queue", "Operations that wait to be written, or are.", func(s *store.Stats) float64 { return float64(s.Queued) }),
	storeNow("swpd_store_write_queue_bytes", "Octets of them.", func(s *store.Stats) float64 { return float64(s.QueuedOctets) }),
	storeNow("swpd_relay_queues", "Queues of the relay with deliveries: topics, and the dead of topics.", func(s *store.Stats) float64 { return float64(s.Queues) }),
	storeNow("swpd_relay_waiting", "Deliveries that are kept: waiting, in flight or dead.", func(s *store.Stats) float64 { return float64(s.Items) }),
	storeTotal("swpd_store_commits_total", "Transactions.", func(s *store.Stats) float64 { return float64(s.Commits) }),
	storeTotal("swpd_store_operations_total", "Operations that were written.", func(s *store.Stats) float64 { return float64(s.Operations) }),
	storeTotal("swpd_store_failed_total", "Operations that the medium did not take.", func(s *store.Stats) float64 { return float64(s.Failed) }),
	storeTotal("swpd_store_refused_total", "Operations refused because too many waited.", func(s *store.Stats) float64 { return float64(s.Refused) }),
}

var storeQuota = prometheus.NewDesc("swpd_store_quota_bytes", "What swpd_store_used_bytes may come to.", nil, nil)

func newCommits() prometheus.Histogram {
	return prometheus.NewHistogram(telemetry.Histogram("swpd_store_commit_seconds", "How long transactions took, their fsync included.", 10))
}

// committed returns a function that observes transactions.
func committed(to prometheus.Observer) func(time.Duration, int) {
	return func(took time.Duration, _ int) { to.Observe(took.Seconds()) }
}

// Collectors implements part.Part.
func (s *Storage) Collectors() []prometheus.Collector { return []prometheus.Collector{s} }

// Describe implements prometheus.Collector.
func (s *Storage) Describe(ch chan<- *prometheus.Desc) {
	for i := range storeRows {
		ch <- storeRows[i].desc
	}
	ch <- storeQuota
	s.commits.Describe(ch)
}

// Collect implements prometheus.Collector.
func (s *Storage) Collect(ch chan<- prometheus.Metric) {
	stats := s.engine.Stats()
	for i := range storeRows {
		row := &storeRows[i]
		ch <- prometheus.MustNewConstMetric(row.desc, row.kind, row.value(&stats))
	}
	ch <- prometheus.MustNewConstMetric(storeQuota, prometheus.GaugeValue, float64(s.quota.Load()))
	s.commits.Collect(ch)
}

// Pools returns who uses the store and the artifacts.
func (s *Storage) Pools(ctx context.Context) []part.Pool {
	return append(s.engine.Pools(ctx), s.blobs.Pools()...)
}
