package daemon

import (
	"io"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/slimwire/swp/daemon/accesslog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// exchanges are what peers ask for: a line of the access log for each, and how long
// they take.
type exchanges struct {
	passive
	log     *accesslog.Log
	latency *latency

	passedOn map[string]bool // profiles of which exchanges are passed on to partners

	server  func(name string) bool           // whether a name is that of an MCP server
	partner func(name string) (string, bool) // the partner that a name leads to
}

// accessModes are the values of log.access.
var accessModes = map[string]accesslog.Mode{
	config.AccessOff: accesslog.Off, config.AccessDenied: accesslog.Denied, config.AccessAll: accesslog.All,
}

func newExchanges(c *config.Log, tables []*profiles.Profile, text *atomic.Bool, out io.Writer) (*exchanges, error) {
	x := &exchanges{
		passedOn: make(map[string]bool),
		log:      accesslog.New(accesslog.Options{Text: text, Output: out}),
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

// prepareLog has the log write more, or less, and in which form.
func (d *daemon) prepareLog(c *config.Config) (change, error) {
	level, err := zapcore.ParseLevel(c.Log.Level)
	return change{
		fields: []zap.Field{zap.String("level", c.Log.Level), zap.String("format", c.Log.Format)},
		commit: func() bool {
			d.level.SetLevel(level)
			d.text.Store(c.Log.Format == config.LogText)
			return false
		},
	}, err
}

// prepareAccessLog opens the file anew, also if nothing has changed: it may have been moved
// away. It is of nobody else's concern, so that it is in use at once.
func (d *daemon) prepareAccessLog(c *config.Config) (change, error) {
	return change{
		fields: []zap.Field{zap.String("access", c.Log.Access)},
		commit: func() bool {
			d.exchanges.log.Use(accessModes[c.Log.Access])
			return false
		},
	}, d.exchanges.log.Reopen(c.Log.AccessFile)
}

// observe takes an exchange that has ended.
func (x *exchanges) observe(r *endpoint.Report) {
	partner := ""
	if x.passedOn[r.Subject.Profile] {
		partner, _ = x.partner(r.Subject.Name)
	}
	x.latency.observe(&r.Subject, r.Outcome, r.Took.Seconds())
	switch {
	case partner != "":
		x.latency.partner(partner, r.Subject.Profile, r.Outcome, r.Took.Seconds())
		if _, still := x.partner(r.Subject.Name); !still { // it was removed meanwhile
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

func (x *exchanges) write(r *endpoint.Report, partner string) {
	v := &r.Verdict
	peer := v.Session.Peer()
	line := accesslog.Line{
		Time: r.Began.Add(r.Took), Identity: peer.Identity,
		Profile: r.Subject.Profile, Operation: r.Subject.Operation, Name: r.Subject.Name, Partner: partner,
		Outcome: r.Outcome.String(), Denied: r.Outcome == profiles.OutcomeDenied,
		In: uint64(v.Bytes) + r.Subject.Before, Out: uint64(r.Sent), Took: r.Took,
		Transport: peer.Transport, Session: v.Session.ID(), Trace: traceID(profiles.TraceOf(r.Context)),
	}
	switch {
	case r.Outcome == profiles.OutcomeRefused:
		line.Outcome += ":" + v.Code.String()
	case isCaller(peer.Identity):
		line.Transport = "http"
	}
	x.log.Write(&line)
}

// traceID is the trace id of a trace context, empty if there is none.
func traceID(t profiles.Trace) string {
	if len(t.Parent) < 35 {
		return ""
	}
	return t.Parent[3:35]
}

var (
	accessLines = prometheus.NewDesc("swpd_access_lines_total", "Lines of the access log.", nil, nil)
	accessLeft  = prometheus.NewDesc("swpd_access_lines_left_out_total", "Lines that the access log does not have, by why.", []string{"reason"}, nil)
)

// collectors implements part.
func (x *exchanges) collectors() []prometheus.Collector { return []prometheus.Collector{x} }

// Describe implements prometheus.Collector.
func (x *exchanges) Describe(ch chan<- *prometheus.Desc) {
	ch <- accessLines
	ch <- accessLeft
	x.latency.describe(ch)
}

// Collect implements prometheus.Collector.
func (x *exchanges) Collect(ch chan<- prometheus.Metric) {
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
