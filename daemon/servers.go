package daemon

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/bridge/mcphttp"
	"github.com/slimwire/swp/bridge/mcpstdio"
	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// childGrace is how long a child has between SIGTERM and SIGKILL.
const childGrace = 2 * time.Second

// readingChildren is how many processes of a server are for reading which tools
// it has: one that is read, one of which it is learned how that is done. What
// follows them then never mixes with what peers call.
const readingChildren = 2

// servers are the MCP servers behind this endpoint. A command is started when it is
// first needed, a URL is asked when it is.
type servers struct {
	list    []*mcpstdio.Server          // by name
	urls    []*mcphttp.Backend          // by name
	readers map[string]*mcpstdio.Server // those with processes of their own for reading tools
	table   *mcpmap.Table               // for peers
	inside  *mcpmap.Table               // for reading tools
	log     *zap.Logger

	starts, exits, failures *prometheus.CounterVec

	troubles troubles
}

func newServers(c *config.Config, log *zap.Logger) (*servers, error) {
	s := &servers{log: log.Named(boundlog.MCP), readers: make(map[string]*mcpstdio.Server)}
	s.starts = childCounter("swpd_mcp_child_starts_total", "Processes started.")
	s.exits = childCounter("swpd_mcp_child_exits_total", "Processes ended, for whatever reason.")
	s.failures = childCounter("swpd_mcp_child_failures_total", "Processes that could not be started.")
	byName, inside, def := make(map[string]mcpmap.Server), make(map[string]mcpmap.Server), ""
	for _, name := range slices.Sorted(maps.Keys(c.MCP.Servers)) {
		conf := c.MCP.Servers[name]
		if conf.Default {
			def = name
		}
		if conf.URL != "" {
			server, err := s.backend(name, &conf)
			if err != nil {
				return nil, fmt.Errorf("mcp.servers.%s: %w", name, err)
			}
			s.urls = append(s.urls, server)
			byName[name], inside[name] = server, server
			continue
		}
		if readsApart(&conf) {
			reading := s.config(name, conf)
			reading.MaxChildren, reading.MaxShared, reading.Idle = readingChildren, 1, min(conf.Idle, time.Minute)
			reader, err := mcpstdio.New(reading)
			if err != nil {
				return nil, fmt.Errorf("mcp.servers.%s: %w", name, err)
			}
			s.readers[name], inside[name] = reader, reader
			conf.MaxChildren -= readingChildren
		}
		server, err := mcpstdio.New(s.config(name, conf))
		if err != nil {
			return nil, fmt.Errorf("mcp.servers.%s: %w", name, err)
		}
		s.list = append(s.list, server)
		byName[name] = server
		if inside[name] == nil {
			inside[name] = server
		}
		for _, vec := range []*prometheus.CounterVec{s.starts, s.exits, s.failures} {
			vec.WithLabelValues(name)
		}
	}
	var err error
	if s.inside, err = mcpmap.NewTable(inside, ""); err != nil {
		return nil, err
	}
	s.table, err = mcpmap.NewTable(byName, def)
	return s, err
}

// has reports whether there is a server of a name.
func (s *servers) has(name string) bool {
	_, ok := s.table.Server(name)
	return ok
}

// readsApart reports whether a server may have processes that are for reading
// its tools alone.
func readsApart(c *config.MCPServer) bool { return c.URL == "" && c.MaxChildren > readingChildren }

func childCounter(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"server"})
}

func (s *servers) config(name string, c config.MCPServer) mcpstdio.Config {
	env := make([]string, 0, len(c.Env))
	for _, key := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, key+"="+c.Env[key])
	}
	return mcpstdio.Config{
		Name: name, Command: c.Command, Args: c.Args, Env: env, Path: os.Getenv("PATH"), Dir: c.Dir,
		MaxChildren: c.MaxChildren, MaxShared: min(c.MaxChildren, 8),
		Idle: c.Idle, SessionIdle: c.SessionIdle, Lifetime: c.Lifetime, Grace: childGrace,
		Observe: s.observe,
	}
}

// observe logs and counts what happens to children. What they write to standard
// output is not logged: it may be a payload that came out broken.
func (s *servers) observe(ev mcpstdio.Event) {
	fields := []zap.Field{zap.String("server", ev.Server), zap.Int("pid", ev.PID), zap.Error(ev.Err)}
	switch ev.What {
	case mcpstdio.Started:
		s.starts.WithLabelValues(ev.Server).Inc()
		s.log.Info("child started", fields...)
	case mcpstdio.Exited:
		s.exits.WithLabelValues(ev.Server).Inc()
		if ev.Err == nil {
			s.log.Info("child ended", fields...)
			return
		}
		s.log.Warn("child ended", fields...)
		s.troubles.note(ev.Server, "a child ended: "+ev.Err.Error())
	case mcpstdio.Failed:
		s.failures.WithLabelValues(ev.Server).Inc()
		s.log.Error("child could not be started", fields...)
		s.troubles.note(ev.Server, "a child could not be started: "+ev.Err.Error())
	case mcpstdio.Stderr:
		s.log.Info("child says", append(fields, zap.ByteString("line", ev.Line))...)
	case mcpstdio.Noise:
		s.log.Warn("child wrote a line that is no message", append(fields, zap.Int("octets", len(ev.Line)))...)
	}
}

func (s *servers) names() []string {
	names, _ := s.table.Targets()
	return append([]string{}, names...) // never nil, which JSON shows as null
}

// stop ends all children and sessions at URLs, and returns when they are gone. It
// waits for no call: it is for when nobody is left to answer.
func (s *servers) stop() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var all sync.WaitGroup
	for _, server := range s.list {
		all.Go(func() { _ = server.Close(ctx) }) // its error is that of ctx
	}
	for _, server := range s.urls {
		all.Go(func() { _ = server.Close(ctx) })
	}
	for _, reader := range s.readers {
		all.Go(func() { _ = reader.Close(ctx) })
	}
	all.Wait()
}

// Describe and Collect make servers a prometheus.Collector. Labels are names
// from the configuration.
func (s *servers) Describe(ch chan<- *prometheus.Desc) {
	for _, row := range childRows {
		ch <- row.desc
	}
	for _, row := range urlRows {
		ch <- row.desc
	}
	s.starts.Describe(ch)
	s.exits.Describe(ch)
	s.failures.Describe(ch)
}

// Collect implements prometheus.Collector.
func (s *servers) Collect(ch chan<- prometheus.Metric) {
	for _, server := range s.list {
		stats := server.Stats()
		if reader := s.readers[server.Name()]; reader != nil {
			stats = sum(stats, reader.Stats())
		}
		for _, row := range childRows {
			ch <- prometheus.MustNewConstMetric(row.desc, row.kind, row.value(&stats), server.Name())
		}
	}
	for _, server := range s.urls {
		stats := server.Stats()
		for _, row := range urlRows {
			ch <- prometheus.MustNewConstMetric(row.desc, row.kind, row.value(&stats), server.Name())
		}
	}
	s.starts.Collect(ch)
	s.exits.Collect(ch)
	s.failures.Collect(ch)
}

func sum(a, b mcpstdio.Stats) mcpstdio.Stats {
	return mcpstdio.Stats{
		Children: a.Children + b.Children, InFlight: a.InFlight + b.InFlight, Waiting: a.Waiting + b.Waiting,
		Noise: a.Noise + b.Noise, Dropped: a.Dropped + b.Dropped, Replaced: a.Replaced + b.Replaced, Unlogged: a.Unlogged + b.Unlogged,
	}
}

// statRow is a metric that is read from the figures of a server.
type statRow[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*S) float64
}

func newRow[S any](name, help string, kind prometheus.ValueType, value func(*S) float64) statRow[S] {
	return statRow[S]{prometheus.NewDesc(name, help, []string{"server"}, nil), kind, value}
}

// What is said of both kinds of server.
const (
	helpInFlight = "Calls in flight."
	helpNoise    = "What a server wrote that is no message: lines of standard output, events."
	helpDropped  = "Messages that belonged to nothing, or could not be brought on their way."
)

var childRows = []statRow[mcpstdio.Stats]{
	newRow("swpd_mcp_children", "Processes now.", prometheus.GaugeValue, func(s *mcpstdio.Stats) float64 { return float64(s.Children) }),
	newRow("swpd_mcp_in_flight", helpInFlight, prometheus.GaugeValue, func(s *mcpstdio.Stats) float64 { return float64(s.InFlight) }),
	newRow("swpd_mcp_waiting", "Calls that wait for a child.", prometheus.GaugeValue, func(s *mcpstdio.Stats) float64 { return float64(s.Waiting) }),
	newRow("swpd_mcp_noise_total", helpNoise, prometheus.CounterValue, func(s *mcpstdio.Stats) float64 { return float64(s.Noise) }),
	newRow("swpd_mcp_dropped_total", helpDropped, prometheus.CounterValue, func(s *mcpstdio.Stats) float64 { return float64(s.Dropped) }),
	newRow("swpd_mcp_replaced_total", "Raw line breaks between tokens that became spaces.", prometheus.CounterValue, func(s *mcpstdio.Stats) float64 { return float64(s.Replaced) }),
	newRow("swpd_mcp_unlogged_total", "Lines of standard error above the rate.", prometheus.CounterValue, func(s *mcpstdio.Stats) float64 { return float64(s.Unlogged) }),
}
