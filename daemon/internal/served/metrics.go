package served

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/relay"
)

// relayed exposes the state of a relay as metrics.
type relayed struct{ *relay.Service }

var (
	relayConsumers = prometheus.NewDesc("swpd_relay_consumers", "Consumers that are attached.", nil, nil)
	relayInFlight  = prometheus.NewDesc("swpd_relay_in_flight", "Deliveries that consumers have and have not answered.", nil, nil)
	relayTaken     = prometheus.NewDesc("swpd_relay_taken_total", "Deliveries that custody was taken of.", nil, nil)
	relayAcked     = prometheus.NewDesc("swpd_relay_processed_total", "Deliveries that a consumer has processed.", nil, nil)
	relayFailed    = prometheus.NewDesc("swpd_relay_failed_attempts_total", "Attempts that were not acknowledged.", nil, nil)
	relayDead      = prometheus.NewDesc("swpd_relay_dead_total", "Deliveries that are dead, by why.", []string{"reason"}, nil)
)

// Describe implements prometheus.Collector.
func (r relayed) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{relayConsumers, relayInFlight, relayTaken, relayAcked, relayFailed, relayDead} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (r relayed) Collect(ch chan<- prometheus.Metric) {
	s := r.Stats()
	ch <- prometheus.MustNewConstMetric(relayConsumers, prometheus.GaugeValue, float64(s.Consumers))
	ch <- prometheus.MustNewConstMetric(relayInFlight, prometheus.GaugeValue, float64(s.InFlight))
	ch <- prometheus.MustNewConstMetric(relayTaken, prometheus.CounterValue, float64(s.Taken))
	ch <- prometheus.MustNewConstMetric(relayAcked, prometheus.CounterValue, float64(s.Acked))
	ch <- prometheus.MustNewConstMetric(relayFailed, prometheus.CounterValue, float64(s.Failed))
	for _, reason := range relay.Reasons() {
		ch <- prometheus.MustNewConstMetric(relayDead, prometheus.CounterValue, float64(s.Dead[reason]), string(reason))
	}
}

// waitingTasks counts the waiting tasks of a Service.
func waitingTasks(s *a2a.Service) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swpd_a2a_waiting", Help: "Tasks of peers that wait for a worker, or for an agent that is away.",
	}, func() float64 { return float64(s.Waiting()) })
}

// liveTasks counts the tasks without a final state.
func liveTasks(s *a2a.Service) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swpd_a2a_tasks", Help: "Tasks of peers that are not over, wherever they are carried out.",
	}, func() float64 { return float64(s.Live()) })
}
