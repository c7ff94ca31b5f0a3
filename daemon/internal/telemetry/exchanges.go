package telemetry

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/accesslog"
	"github.com/slimwire/swp/daemon/internal/guard"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// Exchanges records the exchanges of peers: an access log line and a latency for each.
type Exchanges struct {
	part.Passive
	log     *accesslog.Log
	latency *latency

	passedOn map[string]bool // profiles whose exchanges may go to partners

	server  func(name string) bool           // whether an MCP server has the name
	partner func(name string) (string, bool) // the partner of the first segment of a name
}

// accessModes are the values of log.access.
var accessModes = map[string]accesslog.Mode{
	config.AccessOff: accesslog.Off, config.AccessDenied: accesslog.Denied, config.AccessAll: accesslog.All,
}

// NewExchanges opens the access log. tables are the profiles that are served.
func NewExchanges(c *config.Log, tables []*profiles.Profile, logs *Logs) (*Exchanges, error) {
	x := &Exchanges{
		passedOn: make(map[string]bool),
		log:      accesslog.New(accesslog.Options{Text: logs.text, Output: logs.out}),
		latency:  newLatency(tables),
		server:   func(string) bool { return false },
		partner:  func(string) (string, bool) { return "", false },
	}
	for _, p := range tables {
		x.passedOn[p.Name] = p.Behind == profiles.PassedOn
	}
	if err := x.log.Reopen(c.AccessFile); err != nil {
		x.log.Close()
		return nil, err
	}
	x.log.Use(accessModes[c.Access])
	return x, nil
}

// Name sets the lookups for counting by MCP server and by partner: server reports whether
// an MCP server has the name, and partner returns the partner of the first segment of a
// name.
func (x *Exchanges) Name(server func(name string) bool, partner func(name string) (string, bool)) {
	x.server, x.partner = server, partner
}

// ForgetServer removes the metrics of an MCP server that was removed.
func (x *Exchanges) ForgetServer(name string) { x.latency.forgetServer(name) }

// ForgetPartner removes the metrics of a partner that was removed.
func (x *Exchanges) ForgetPartner(name string) { x.latency.forgetPartner(name) }

// CloseLog flushes and closes the access log. Call it after the last exchange.
func (x *Exchanges) CloseLog() { x.log.Close() }

// AccessLogSection is the reloadable part of the configuration.
func AccessLogSection(prepare part.Prepare) part.Section {
	return part.Section{Name: "access log", Stays: "the old one stays", Keys: []string{"log.access", "log.access_file"}, Prepare: prepare}
}

// Prepare reopens the file, even if the configuration has not changed: log rotation may
// have moved it. The new file is in use at once, because nothing else depends on it.
func (x *Exchanges) Prepare(c *config.Config) (part.Change, error) {
	return part.Change{
		Fields: []zap.Field{zap.String("access", c.Log.Access)},
		Commit: func() bool {
			x.log.Use(accessModes[c.Log.Access])
			return false
		},
	}, x.log.Reopen(c.Log.AccessFile)
}

// PartnerOf returns the partner that an exchange was passed on to, or "".
func (x *Exchanges) PartnerOf(s *profiles.Subject) string {
	if !x.passedOn[s.Profile] {
		return ""
	}
	partner, _ := x.partner(s.Name)
	return partner
}

// observe records an exchange that has ended.
func (x *Exchanges) observe(r *endpoint.Report) {
	partner := x.PartnerOf(&r.Subject)
	x.latency.observe(&r.Subject, r.Outcome, r.Took.Seconds())
	switch {
	case partner != "":
		x.latency.partner(partner, r.Subject.Profile, r.Outcome, r.Took.Seconds())
		if _, still := x.partner(r.Subject.Name); !still { // the partner was removed in the meantime
			x.latency.forgetPartner(partner)
		}
	case r.Subject.Profile == "mcp":
		if server, _, _ := strings.Cut(r.Subject.Name, "/"); server != "" && x.server(server) {
			x.latency.server(server, r.Outcome, r.Took.Seconds())
		}
	}
	denied := r.Outcome == profiles.OutcomeDenied
	if !x.log.Wants(denied) || r.Subject.Part && r.Outcome == profiles.OutcomeOK {
		return
	}
	x.write(r, partner)
}

func (x *Exchanges) write(r *endpoint.Report, partner string) {
	v := &r.Verdict
	peer := r.Peer
	line := accesslog.Line{
		Time: r.Began.Add(r.Took), Identity: profiles.Link(peer.Identity), For: profiles.For(peer.Identity),
		Profile: r.Subject.Profile, Operation: r.Subject.Operation, Name: r.Subject.Name, Partner: partner,
		Outcome: OutcomeOf(r), Denied: r.Outcome == profiles.OutcomeDenied,
		In: uint64(v.Bytes) + r.Subject.Before, Out: uint64(r.Sent), Took: r.Took,
		Transport: TransportOf(peer), Session: v.Session.ID(), Trace: TraceID(profiles.TraceOf(r.Context)),
	}
	x.log.Write(&line)
}

// OutcomeOf returns the outcome of an exchange, of a refusal with its code.
func OutcomeOf(r *endpoint.Report) string { return r.Outcome.With(r.Verdict.Code) }

// TransportOf returns the transport of a peer; of an HTTP caller it is http.
func TransportOf(p *profiles.Peer) string {
	if guard.IsCaller(p.Identity) {
		return "http"
	}
	return p.Transport
}

// TraceID returns the trace id of a trace context, or the empty string.
func TraceID(t profiles.Trace) string {
	if len(t.Parent) < 35 {
		return ""
	}
	return t.Parent[3:35]
}

var (
	accessLines = prometheus.NewDesc("swpd_access_lines_total", "Lines of the access log.", nil, nil)
	accessLeft  = prometheus.NewDesc("swpd_access_lines_left_out_total", "Lines that the access log does not have, by why.", []string{"reason"}, nil)
)

// Collectors implements part.Part.
func (x *Exchanges) Collectors() []prometheus.Collector { return []prometheus.Collector{x} }

// Describe implements prometheus.Collector.
func (x *Exchanges) Describe(ch chan<- *prometheus.Desc) {
	ch <- accessLines
	ch <- accessLeft
	x.latency.describe(ch)
}

// Collect implements prometheus.Collector.
func (x *Exchanges) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(accessLines, prometheus.CounterValue, float64(x.log.Lines()))
	left := x.log.Left()
	for _, row := range []struct {
		reason string
		n      uint64
	}{{"rate", left.Rate}, {"buffer", left.Buffer}, {"write", left.Failed}} {
		ch <- prometheus.MustNewConstMetric(accessLeft, prometheus.CounterValue, float64(row.n), row.reason)
	}
	x.latency.collect(ch)
}
