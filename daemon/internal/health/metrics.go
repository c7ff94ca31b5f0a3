package health

import "github.com/prometheus/client_golang/prometheus"

var (
	behind         = prometheus.NewDesc("swpd_behind", "1 for the state of a thing behind this endpoint, 0 for its other states.", []string{"kind", "name", "state"}, nil)
	behindFailures = prometheus.NewDesc("swpd_behind_failures_total", "Failures of a thing behind this endpoint.", []string{"kind", "name"}, nil)
)

// Collectors implements part.Part.
func (r *Records) Collectors() []prometheus.Collector { return []prometheus.Collector{r} }

// Describe implements prometheus.Collector. Label values are names and files of the configuration.
func (r *Records) Describe(ch chan<- *prometheus.Desc) {
	ch <- behind
	ch <- behindFailures
}

// Collect implements prometheus.Collector.
func (r *Records) Collect(ch chan<- prometheus.Metric) {
	r.look()
	for _, e := range r.entries() {
		e.mu.Lock()
		is, total := e.state, e.total
		e.mu.Unlock()
		for _, state := range States() {
			value := 0.0
			if state == is {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(behind, prometheus.GaugeValue, value, string(e.kind), e.name, string(state))
		}
		ch <- prometheus.MustNewConstMetric(behindFailures, prometheus.CounterValue, float64(total), string(e.kind), e.name)
	}
}
