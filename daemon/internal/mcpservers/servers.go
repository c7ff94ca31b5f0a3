// Package mcpservers runs the MCP servers of this endpoint, which are commands and URLs of
// the configuration, and reads their tools.
package mcpservers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/health"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/bridge/mcpstdio"
	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// readingChildren is how many processes of a server are reserved for reading its tools: one
// for the session, one for detecting the era. Tools that a peer's calls add are then not
// mixed in.
const readingChildren = 2

// Servers are the MCP servers of this endpoint for peers. A command is started, and a URL
// called, when it is needed. Reloads run one at a time; other methods may be called during
// a reload. It implements mcpmap.Backend.
type Servers struct {
	part.Passive
	served  func() *all.Set
	declare func(*config.Config)
	log     *zap.Logger
	groups  *proc.Groups
	place   part.Place
	memory  *memory.Budget
	table   atomic.Pointer[mcpmap.Table] // for peers
	inside  atomic.Pointer[mcpmap.Table] // for reading tools

	starts, exits, failures *prometheus.CounterVec
	forgotten               func(name string)

	health *health.Records

	mu      sync.Mutex
	now     map[string]*server // in force, by name
	leaving map[*server]context.CancelFunc
	work    sync.WaitGroup // of departing servers
}

// Options configure Servers.
type Options struct {
	Config *config.Config
	Log    *zap.Logger
	Groups *proc.Groups // keeps those of the processes
	Place  part.Place   // of servers with nodes: all
	Memory *memory.Budget
	Health *health.Records // has a record of each server; nil: nobody has one

	// Served returns the profiles. They are notified of changed servers.
	Served func() *all.Set

	// Declare puts the hints of a configuration in force.
	Declare func(*config.Config)

	// Forgotten is called when a server has ended and its metrics are removed.
	Forgotten func(name string)
}

// New makes the servers of a configuration without starting any.
func New(o Options) (*Servers, error) {
	s := &Servers{
		served: o.Served, declare: o.Declare, forgotten: o.Forgotten, groups: o.Groups, place: o.Place, memory: o.Memory, health: o.Health,
		log: o.Log.Named(boundlog.MCP), now: make(map[string]*server), leaving: make(map[*server]context.CancelFunc),
	}
	s.starts = childCounter("swpd_mcp_child_starts_total", "Processes started.")
	s.exits = childCounter("swpd_mcp_child_exits_total", "Processes ended, for whatever reason.")
	s.failures = childCounter("swpd_mcp_child_failures_total", "Processes that could not be started, or ended with a failure.")
	next, err := s.prepare(o.Config)
	if err != nil {
		return nil, err
	}
	s.put(next, defaultOf(o.Config))
	return s, nil
}

// Targets implements mcpmap.Backend.
func (s *Servers) Targets() (names []string, def string) { return s.table.Load().Targets() }

// Server implements mcpmap.Backend.
func (s *Servers) Server(name string) (mcpmap.Server, bool) { return s.table.Load().Server(name) }

// insiders are the servers for reading tools. It implements mcpmap.Backend.
type insiders struct{ *Servers }

// Targets implements mcpmap.Backend.
func (i insiders) Targets() (names []string, def string) { return i.inside.Load().Targets() }

// Server implements mcpmap.Backend.
func (i insiders) Server(name string) (mcpmap.Server, bool) { return i.inside.Load().Server(name) }

// prepare returns the servers of a configuration: the present ones for unchanged entries,
// else new ones, which are not started.
func (s *Servers) prepare(c *config.Config) (map[string]*server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[string]*server, len(c.MCP.Servers))
	for _, name := range slices.Sorted(maps.Keys(c.MCP.Servers)) {
		conf := c.MCP.Servers[name]
		if old := s.now[name]; old != nil && old.runs(&conf) {
			next[name] = old
			continue
		}
		one, err := s.build(name, &conf)
		if err != nil {
			s.discard(next)
			return nil, fmt.Errorf("mcp.servers.%s: %w", name, err)
		}
		next[name] = one
	}
	return next, nil
}

// named returns the server that has a name now, or nil.
func (s *Servers) named(name string) *server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now[name]
}

// discard releases the servers that prepare has made. The caller holds mu.
func (s *Servers) discard(next map[string]*server) {
	for name, one := range next {
		if s.now[name] != one {
			one.close(ended())
		}
	}
}

// put replaces the servers for peers. It returns the servers that were removed.
func (s *Servers) put(next map[string]*server, def string) (left []*server) {
	peers, inside := make(map[string]mcpmap.Server), make(map[string]mcpmap.Server)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, one := range next {
		peers[name], inside[name] = &place{s, one}, one.inside()
		if one.at == nil {
			s.count(name)
		}
	}
	for name, one := range s.now {
		if next[name] != one {
			left = append(left, one)
		}
	}
	s.health.Set(health.Server, slices.Collect(maps.Keys(next))...)
	for _, one := range left {
		s.health.Of(health.Server, one.name).Changed()
	}
	s.now = next
	s.table.Store(tableOf(peers, def))
	s.inside.Store(tableOf(inside, ""))
	return left
}

// tableOf returns the Table of servers. The configuration was checked, so it cannot fail.
func tableOf(of map[string]mcpmap.Server, def string) *mcpmap.Table {
	table, err := mcpmap.NewTable(of, def)
	if err != nil {
		panic(err)
	}
	return table
}

func defaultOf(c *config.Config) string {
	for name, conf := range c.MCP.Servers {
		if conf.Default {
			return name
		}
	}
	return ""
}

// count makes the counters of a server visible from the start.
func (s *Servers) count(name string) {
	for _, vec := range s.counters() {
		vec.WithLabelValues(name)
	}
}

func (s *Servers) abandon(next map[string]*server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discard(next)
}

// leave waits for the requests of a server, and then ends the server. endless ends
// exchanges without an expected end.
func (s *Servers) leave(one *server, endless func(name string)) {
	ctx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	s.leaving[one] = cancel
	s.mu.Unlock()
	s.log.Info("server leaves, once what is under way there has ended", zap.String("server", one.name))
	s.work.Go(func() {
		defer cancel()
		one.shut()
		endless(one.name)
		one.retire(ctx)
		s.forget(one)
		s.log.Info("server has left", zap.String("server", one.name))
	})
}

// forget removes the metrics of a server that has ended. Another server may have its name.
func (s *Servers) forget(one *server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leaving, one)
	if now := s.now[one.name]; now != nil {
		now.past = now.past.plus(one.figures().counted())
		return
	}
	for left := range s.leaving {
		if left.name == one.name {
			left.past = left.past.plus(one.figures().counted())
			return
		}
	}
	for _, vec := range s.counters() {
		vec.DeleteLabelValues(one.name)
	}
	s.forgotten(one.name)
}

// Yield ends the requests at departing servers whose name a partner now has, because rules
// with that name are now about the partner.
func (s *Servers) Yield(to config.Partners) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one, end := range s.leaving {
		if _, taken := to[one.name]; taken {
			end()
		}
	}
}

// Departing returns the names of the servers that are being removed, sorted.
func (s *Servers) Departing() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := []string{} // not nil, which would be null in JSON
	for one := range s.leaving {
		names = append(names, one.name)
	}
	slices.Sort(names)
	return names
}

// Pools returns who uses the processes of each server that runs any, sorted by name.
func (s *Servers) Pools() (list []fair.Pool) {
	for _, name := range s.Names() {
		if one := s.named(name); one != nil && one.child != nil {
			if pool := one.child.Pool(); pool.Used > 0 {
				list = append(list, pool)
			}
		}
	}
	return list
}

// Has reports whether there is a server of a name.
func (s *Servers) Has(name string) bool {
	_, ok := s.Server(name)
	return ok
}

// readsApart reports whether a server may have separate processes for reading its tools.
func readsApart(c *config.MCPServer) bool { return c.URL == "" && c.MaxChildren > readingChildren }

func (s *Servers) config(name string, c config.MCPServer) mcpstdio.Config {
	p := part.Program(c.Command, c.Args, c.Env, c.Dir, s.groups)
	if c.Nodes == config.NodesAll && s.place != nil {
		p.Place = s.place("mcp/"+name, p)
	}
	return mcpstdio.Config{
		Name: name, Command: p.Command, Args: p.Args, Env: p.Env, Path: p.Path, Dir: p.Dir, Groups: p.Groups, Place: p.Place, Memory: s.memory,
		Timeouts:    mcpmap.Timeouts{Each: c.Timeout, Tools: c.Timeouts},
		MaxChildren: c.MaxChildren, MaxShared: min(c.MaxChildren, 8),
		Idle: c.Idle, SessionIdle: c.SessionIdle, Lifetime: c.Lifetime, Grace: part.ChildGrace,
		Observe: s.observe, Answered: func() { s.health.Of(health.Server, name).Worked() },
	}
}

// observe logs and counts events of children. It does not log lines of standard output,
// since they can be parts of a payload.
func (s *Servers) observe(ev mcpstdio.Event) {
	fields := []zap.Field{zap.String("server", ev.Server), zap.Int("pid", ev.PID), part.Node(ev.Node), zap.Error(ev.Err)}
	record := s.health.Of(health.Server, ev.Server)
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
		s.failures.WithLabelValues(ev.Server).Inc()
		s.log.Warn("child ended", fields...)
		if !errors.Is(ev.Err, memory.ErrFull) { // else this endpoint had no room
			record.Failed(health.ServerEnded, ev.Err, ev.Output)
		}
	case mcpstdio.Failed:
		s.failures.WithLabelValues(ev.Server).Inc()
		s.log.Error("child could not be started", fields...)
		record.Failed(health.ServerStart, ev.Err, nil)
	case mcpstdio.Silent:
		s.log.Warn("child did not answer in time", fields...)
		record.Failed(health.ServerSilent, ev.Err, nil)
	case mcpstdio.Stderr:
		s.log.Info("child says", append(fields, zap.String("line", ev.Line))...)
	case mcpstdio.Noise:
		s.log.Warn("child wrote a line that is no message", append(fields, zap.Int("octets", ev.Octets))...)
	}
}

// Names returns the names of the servers, sorted.
func (s *Servers) Names() []string {
	names, _ := s.Targets()
	return append([]string{}, names...) // not nil, which would be null in JSON
}

// Close implements part.Part: it ends all children and sessions at URLs, and waits for
// them. It does not wait for calls, because all connections have ended.
func (s *Servers) Close() error {
	s.mu.Lock()
	now := s.now
	for _, end := range s.leaving {
		end()
	}
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, one := range now {
		all.Go(func() { one.close(ended()) })
	}
	all.Wait()
	s.work.Wait()
	return nil
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
