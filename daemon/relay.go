package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/store"
)

// relayOptions configure profile 19. How many deliveries wait, and how many ids
// are remembered, is a matter of the store; see openState.
func relayOptions(c *config.Config, queues store.Queues) relay.Options {
	r := &c.Relay
	return relay.Options{
		Store: queues, Window: r.Window, TTL: r.TTL, Retention: r.Retention, DeadRetention: r.DeadRetention,
		AckTimeout: r.AckTimeout, Backoff: r.Backoff, MaxBackoff: r.MaxBackoff, MaxAttempts: r.MaxAttempts,
		MaxPayload: int(c.RelayPayload()), FrameLimit: int(c.Limits.FrameBytes),
		Envelope:  e1.Limits{MaxPayload: int(c.Limits.PayloadBytes), MaxExtensions: int(c.Limits.ExtensionBytes)},
		MaxAnswer: int(c.Limits.PayloadBytes / 16 * 15), MaxInFlight: r.MaxInFlight, IdentityInFlight: r.InFlightPerIdentity, InFlight: r.InFlight,
	}
}

// relayed is a relay as metrics.
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
