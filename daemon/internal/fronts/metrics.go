package fronts

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/internal/bridge/mcpfront"
)

// frontRow is a metric of a front. S has the counters of the front.
type frontRow[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*S) int64
}

func now[S any](name, help string, value func(*S) int64) frontRow[S] {
	return frontRow[S]{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, value}
}

func total[S any](name, help string, value func(*S) int64) frontRow[S] {
	return frontRow[S]{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, value}
}

var mcpRows = []frontRow[mcpfront.Stats]{
	now("swpd_http_mcp_sessions", "Legacy sessions of callers now.", func(s *mcpfront.Stats) int64 { return int64(s.Sessions) }),
	now("swpd_http_mcp_streams", "Responses that are streams, now.", func(s *mcpfront.Stats) int64 { return s.Streams }),
	now("swpd_http_mcp_stored_bytes", "Octets kept for clients that come back.", func(s *mcpfront.Stats) int64 { return s.Stored }),
	total("swpd_http_mcp_modern_total", "Requests without a session that were passed on.", func(s *mcpfront.Stats) int64 { return s.Modern }),
	total("swpd_http_mcp_legacy_total", "Requests of sessions that were passed on.", func(s *mcpfront.Stats) int64 { return s.Legacy }),
	total("swpd_http_mcp_refused_total", "Requests that were refused for what they look like.", func(s *mcpfront.Stats) int64 { return s.Refused }),
	total("swpd_http_mcp_dropped_total", "Messages that no client came for in time, or that it did not keep up with.", func(s *mcpfront.Stats) int64 { return s.Dropped }),
}

var a2aRows = []frontRow[a2afront.Stats]{
	now("swpd_http_a2a_open", "Operations under way, now.", func(s *a2afront.Stats) int64 { return s.Open }),
	now("swpd_http_a2a_streams", "Operations under way that are streams, now.", func(s *a2afront.Stats) int64 { return s.Streams }),
	total("swpd_http_a2a_rpc_total", "Operations by JSON-RPC that were passed on.", func(s *a2afront.Stats) int64 { return s.RPC }),
	total("swpd_http_a2a_rest_total", "Operations by REST that were passed on.", func(s *a2afront.Stats) int64 { return s.REST }),
	total("swpd_http_a2a_cards_total", "Requests for agent cards.", func(s *a2afront.Stats) int64 { return s.Cards }),
	total("swpd_http_a2a_refused_total", "Requests that were refused for what they look like.", func(s *a2afront.Stats) int64 { return s.Refused }),
	total("swpd_http_a2a_resumed_total", "Operations that went on after their session was lost.", func(s *a2afront.Stats) int64 { return s.Resumed }),
}

var httpExpiry = prometheus.NewDesc("swpd_http_certificate_expiry_timestamp_seconds", "When the certificate of http.tls ends.", nil, nil)

// Describe and Collect make fronts a prometheus.Collector.
func (f *Fronts) Describe(ch chan<- *prometheus.Desc) {
	for _, row := range mcpRows {
		ch <- row.desc
	}
	for _, row := range a2aRows {
		ch <- row.desc
	}
	ch <- httpExpiry
}

// Collectors implements part.Part.
func (f *Fronts) Collectors() []prometheus.Collector { return []prometheus.Collector{f} }

// Collect implements prometheus.Collector.
func (f *Fronts) Collect(ch chan<- prometheus.Metric) {
	var mcp mcpfront.Stats
	var a2a a2afront.Stats
	if f.listener != nil {
		mcp, a2a = f.mcp.Stats(), f.a2a.Stats()
		mcp.Dropped += int64(f.way.Profiles().MCP.Stats().Dropped)
	}
	collect(ch, mcpRows, &mcp)
	collect(ch, a2aRows, &a2a)
	if secure := f.secured(); secure != nil {
		ch <- identity.Expiry(httpExpiry, secure.leaf().NotAfter)
	}
}

func collect[S any](ch chan<- prometheus.Metric, rows []frontRow[S], stats *S) {
	for _, row := range rows {
		ch <- prometheus.MustNewConstMetric(row.desc, row.kind, float64(row.value(stats)))
	}
}

// Pools returns who uses the sessions of MCP servers.
func (f *Fronts) Pools() []part.Pool {
	if f.listener == nil {
		return nil
	}
	return f.mcp.Pools()
}
