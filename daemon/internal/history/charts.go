package history

import (
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// Chart says what of the metrics is drawn.
type Chart struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Unit  Unit   `json:"unit"`

	Metric string `json:"-"`
	Of     Of     `json:"-"`
	Label  string `json:"-"` // each of its values has a series; without it there is one
}

// Unit is the unit of the points of a chart.
type Unit string

const (
	PerSecond Unit = "1/s"
	Seconds   Unit = "s"
	Octets    Unit = "B"
	Number    Unit = ""
)

// Of is what of a metric is drawn.
type Of int

const (
	Rate      Of = iota // a counter: how much it grew in a second
	Level               // a gauge
	Quantiles           // a histogram: its 50th, 95th and 99th percentiles, a series for each
	Slowest             // a histogram: the 95th percentile of each label
)

// Charts are those of swpd, in the order of the page.
var Charts = []Chart{
	{"messages", "Messages received, by profile", PerSecond, "swpd_messages_total", Rate, "profile"},
	{"refused", "Messages refused, by code", PerSecond, "swpd_rejects_total", Rate, "code"},
	{"latency", "Duration of exchanges that peers opened", Seconds, "swpd_exchange_seconds", Quantiles, ""},
	{"servers", "Exchanges with MCP servers: 95 of 100 are shorter", Seconds, "swpd_mcp_seconds", Slowest, "server"},
	{"partners", "Exchanges with partners: 95 of 100 are shorter", Seconds, "swpd_partner_seconds", Slowest, "partner"},
	{"denials", "Requests denied by the rules", PerSecond, "swpd_denials_total", Rate, ""},
	{"security", "Security events, by reason", PerSecond, "swpd_security_events_total", Rate, "reason"},
	{"sessions", "Connections open, by transport", Number, "swpd_sessions", Level, "transport"},
	{"waiting", "Messages that wait in queues", Number, "swpd_relay_waiting", Level, ""},
	{"dead", "Dead letters", PerSecond, "swpd_relay_dead_total", Rate, ""},
	{"in-flight", "Octets of messages in flight", Octets, "swpd_in_flight_bytes", Level, ""},
	{"memory", "Memory of the process", Octets, "process_resident_memory_bytes", Level, ""},
	{"store", "Octets that the store holds", Octets, "swpd_store_used_bytes", Level, ""},
}

// sums reports whether the points of two series can be added.
func (c *Chart) sums() bool { return c.Of == Rate || c.Of == Level }

// reading is what a counter or a histogram says.
type reading struct {
	count   float64
	buckets []bucket
}

// bucket has the number of values up to a bound, those of smaller buckets included.
type bucket struct {
	bound float64
	count float64
}

// since returns the growth since an earlier reading. A counter that has fallen began again at 0.
func (r reading) since(before reading) reading {
	if r.count < before.count || len(r.buckets) != len(before.buckets) {
		return r
	}
	grown := reading{count: r.count - before.count, buckets: slices.Clone(r.buckets)}
	for i := range grown.buckets {
		grown.buckets[i].count -= before.buckets[i].count
	}
	return grown
}

// plus returns the sum of two readings of one metric.
func (r reading) plus(other reading) reading {
	sum := reading{count: r.count + other.count, buckets: slices.Clone(r.buckets)}
	if sum.buckets == nil {
		sum.buckets = slices.Clone(other.buckets)
		return sum
	}
	for i := range min(len(sum.buckets), len(other.buckets)) {
		sum.buckets[i].count += other.buckets[i].count
	}
	return sum
}

// quantile returns the value that a part of the values do not exceed. Within a bucket it is interpolated.
// Above the last bound it is that bound.
func (r reading) quantile(part float64) float64 {
	rank, bound, below := part*r.count, 0.0, 0.0
	for _, b := range r.buckets {
		if b.count >= rank && b.count > below {
			if math.IsInf(b.bound, 1) {
				return bound
			}
			return bound + (b.bound-bound)*(rank-below)/(b.count-below)
		}
		if !math.IsInf(b.bound, 1) {
			bound = b.bound
		}
		below = b.count
	}
	return bound
}

// read returns what the chart shows now, by label: of counters and histograms what has come in a number of seconds,
// since the last call.
func (c *chart) read(f *dto.MetricFamily, seconds float64) map[string]float64 {
	values, grown, now := make(map[string]float64), make(map[string]reading), make(map[string]reading)
	for _, m := range f.GetMetric() {
		label, all := "", ""
		for _, l := range m.GetLabel() {
			if l.GetName() == c.Label {
				label = l.GetValue()
			}
			all += l.GetValue() + "\x00"
		}
		if c.Of == Level {
			values[label] += m.GetGauge().GetValue()
			continue
		}
		now[all] = reading{count: m.GetCounter().GetValue()}
		if h := m.GetHistogram(); h != nil {
			now[all] = histogram(h)
		}
		grown[label] = grown[label].plus(now[all].since(c.before[all]))
	}
	for label, r := range grown {
		switch {
		case c.Of == Rate:
			values[label] = r.count / seconds
		case r.count == 0: // nobody waited
		case c.Of == Quantiles:
			values["p50"], values["p95"], values["p99"] = r.quantile(.5), r.quantile(.95), r.quantile(.99)
		default:
			values[label] = r.quantile(.95)
		}
	}
	c.before = now
	return values
}

func histogram(h *dto.Histogram) reading {
	r := reading{count: float64(h.GetSampleCount())}
	for _, b := range h.GetBucket() {
		r.buckets = append(r.buckets, bucket{b.GetUpperBound(), float64(b.GetCumulativeCount())})
	}
	return r
}
