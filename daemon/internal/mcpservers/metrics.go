package mcpservers

import (
	"github.com/prometheus/client_golang/prometheus"
)

// figures are the metrics of the servers with one name, of either kind.
type figures struct {
	child, url bool // there is a command, a URL

	children, inFlight, waiting, sessions      float64
	noise, dropped, replaced, unlogged, failed float64
}

// plus returns the sum of two figures.
func (f figures) plus(g figures) figures {
	return figures{
		child: f.child || g.child, url: f.url || g.url,
		children: f.children + g.children, inFlight: f.inFlight + g.inFlight, waiting: f.waiting + g.waiting, sessions: f.sessions + g.sessions,
		noise: f.noise + g.noise, dropped: f.dropped + g.dropped, replaced: f.replaced + g.replaced,
		unlogged: f.unlogged + g.unlogged, failed: f.failed + g.failed,
	}
}

// counted returns the counters that remain after a server has ended.
func (f figures) counted() figures {
	return figures{noise: f.noise, dropped: f.dropped, replaced: f.replaced, unlogged: f.unlogged, failed: f.failed}
}

// figures returns the figures of a server, including the counters of earlier servers with
// its name.
func (s *server) figures() figures {
	f := s.past
	if s.at != nil {
		now := s.at.Stats()
		return f.plus(figures{
			url: true, inFlight: float64(now.InFlight), sessions: float64(now.Sessions),
			noise: float64(now.Noise), dropped: float64(now.Dropped), failed: float64(now.Failed),
		})
	}
	for _, child := range s.children() {
		now := child.Stats()
		f = f.plus(figures{
			child: true, children: float64(now.Children), inFlight: float64(now.InFlight), waiting: float64(now.Waiting),
			noise: float64(now.Noise), dropped: float64(now.Dropped), replaced: float64(now.Replaced), unlogged: float64(now.Unlogged),
		})
	}
	return f
}

// serverRow is a metric computed from figures.
type serverRow struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	of    func(*figures) bool // whether a server has it
	value func(*figures) float64
}

func newRow(name, help string, kind prometheus.ValueType, of func(*figures) bool, value func(*figures) float64) serverRow {
	return serverRow{prometheus.NewDesc(name, help, []string{"server"}, nil), kind, of, value}
}

func ofAll(*figures) bool     { return true }
func ofChild(f *figures) bool { return f.child }
func ofURL(f *figures) bool   { return f.url }

var serverRows = []serverRow{
	newRow("swpd_mcp_children", "Processes now.", prometheus.GaugeValue, ofChild, func(f *figures) float64 { return f.children }),
	newRow("swpd_mcp_in_flight", "Calls in flight.", prometheus.GaugeValue, ofAll, func(f *figures) float64 { return f.inFlight }),
	newRow("swpd_mcp_waiting", "Calls that wait for a child.", prometheus.GaugeValue, ofChild, func(f *figures) float64 { return f.waiting }),
	newRow("swpd_mcp_noise_total", "What a server wrote that is no message: lines of standard output, events.", prometheus.CounterValue, ofAll, func(f *figures) float64 { return f.noise }),
	newRow("swpd_mcp_dropped_total", "Messages that belonged to nothing, or could not be brought on their way.", prometheus.CounterValue, ofAll, func(f *figures) float64 { return f.dropped }),
	newRow("swpd_mcp_replaced_total", "Raw line breaks between tokens that became spaces.", prometheus.CounterValue, ofChild, func(f *figures) float64 { return f.replaced }),
	newRow("swpd_mcp_unlogged_total", "Lines of standard error above the rate.", prometheus.CounterValue, ofChild, func(f *figures) float64 { return f.unlogged }),
	newRow("swpd_mcp_url_sessions", "Sessions at a URL.", prometheus.GaugeValue, ofURL, func(f *figures) float64 { return f.sessions }),
	newRow("swpd_mcp_url_failures_total", "Requests to a URL without a proper response.", prometheus.CounterValue, ofURL, func(f *figures) float64 { return f.failed }),
}

// Collectors implements part.Part.
func (s *Servers) Collectors() []prometheus.Collector { return []prometheus.Collector{s} }

// Describe and Collect make servers a prometheus.Collector. Labels are names
// from the configuration.
func (s *Servers) Describe(ch chan<- *prometheus.Desc) {
	for _, row := range serverRows {
		ch <- row.desc
	}
	for _, vec := range s.counters() {
		vec.Describe(ch)
	}
}

// Collect implements prometheus.Collector. A departing server is added to the server that
// has its name now.
func (s *Servers) Collect(ch chan<- prometheus.Metric) {
	for name, f := range s.figures() {
		for _, row := range serverRows {
			if row.of(&f) {
				ch <- prometheus.MustNewConstMetric(row.desc, row.kind, row.value(&f), name)
			}
		}
	}
	for _, vec := range s.counters() {
		vec.Collect(ch)
	}
}

// figures returns the figures of all servers, by name.
func (s *Servers) figures() map[string]figures {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]figures, len(s.now))
	for one := range s.leaving {
		all[one.name] = all[one.name].plus(one.figures())
	}
	for name, one := range s.now {
		all[name] = all[name].plus(one.figures())
	}
	return all
}

// counters are the counters of events, created when a server with a name first exists.
func (s *Servers) counters() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{s.starts, s.exits, s.failures}
}

func childCounter(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"server"})
}
