package mcpservers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/health"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/bridge/mcptools"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/tooldisc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Inside reads the tools of the MCP servers of this process, as a peer over a connection in
// memory. Access rules do not apply. If possible it uses processes that no peer calls.
type Inside struct {
	part.Passive
	servers         *Servers
	conf            *config.Config
	log             *zap.Logger
	served, calling *mcpmap.Mapping
	way             *part.Passage
}

// NewInside does not connect yet.
func NewInside(s *Servers, c *config.Config, log *zap.Logger) (*Inside, error) {
	in := &Inside{
		servers: s, conf: c, log: log.Named(boundlog.MCP),
		// A session that ends is not resumed.
		served: mcpmap.New(mcpmap.Options{
			Backend: insiders{s}, MaxSessions: maxInside, MaxSessionsPerPeer: maxInside, SessionGrace: time.Millisecond,
		}),
		calling: mcpmap.New(mcpmap.Options{}),
	}
	near, err := insideOptions(in.calling)
	if err != nil {
		return nil, err
	}
	far, err := insideOptions(in.served)
	if err != nil {
		return nil, err
	}
	s.health.Probe(health.Server, in.prober)
	in.way, err = part.NewPassage(near, far)
	return in, err
}

// prober is a health.Prober: a server at a URL is asked, and a command with probe: true. The answers are reported as those of
// other calls are.
func (in *Inside) prober(name string) func(context.Context, *health.Entry) {
	one := in.servers.named(name)
	switch {
	case one == nil:
	case one.at != nil:
		return func(ctx context.Context, _ *health.Entry) { _ = one.at.Probe(ctx) }
	case one.conf.Probe:
		return func(ctx context.Context, e *health.Entry) {
			if in.ping(ctx, name); errors.Is(ctx.Err(), context.DeadlineExceeded) {
				e.Failed(health.ServerSilent, errNoPing, nil)
			}
		}
	}
	return nil
}

var errNoPing = errors.New("no answer to initialize and ping")

// ping opens a session of a server, pings the server in it, and ends it.
func (in *Inside) ping(ctx context.Context, name string) {
	client, end, err := in.connect()
	if err != nil {
		return
	}
	defer end()
	answer, err := client.Do(ctx, &mcpmap.Call{Target: name, Octets: []byte(mcpmap.ProbeInitialize)})
	if err == nil && answer.Session != "" {
		_, _ = client.Do(ctx, &mcpmap.Call{Target: name, Session: answer.Session, Octets: mcpmap.AppendPing(nil, `"swp-probe"`)})
	}
}

// maxInside bounds the exchanges for reading tools: several for each server, whose number a
// reload may increase.
const maxInside = 1 << 20

// insideOptions returns the options of one end. Between readings a connection is silent.
func insideOptions(m *mcpmap.Mapping) (endpoint.Options, error) {
	registry, err := profiles.NewRegistry(m.Profile())
	return endpoint.Options{Registry: registry, Observer: endpoint.Discard, Bounds: endpoint.Bounds{
		Connections: maxInside, ConnectionsPerIdentity: maxInside, Idle: part.PipeIdle, LongIdle: part.PipeIdle,
	}}, err
}

var errInside = errors.New("no connection to the own MCP servers")

// connect opens a new connection.
func (in *Inside) connect() (client *mcpmap.Client, end func(), err error) {
	here, there := in.way.Pass("swpd", "swpd", func(transport.Conn) {})
	end = func() {
		here.Close(profiles.OK)
		<-here.Context().Done()
		<-there.Context().Done()
	}
	if there.Context().Err() != nil || here.Context().Err() != nil {
		end()
		return nil, nil, errInside
	}
	return in.calling.Client(here), end, nil
}

// Close implements part.Part.
func (in *Inside) Close() error {
	in.way.End()
	in.calling.Close()
	in.served.Close()
	return nil
}

// Offer implements part.Part: it offers the tools of every MCP server, and the tools of the
// configuration.
func (in *Inside) Offer(o *all.Options) error {
	t := &in.conf.TOOLDISC
	tools, err := readTools(in.conf)
	o.TOOLDISC.Servers, o.TOOLDISC.Tools, o.TOOLDISC.Pace = in.readers(t.Refresh), tools, paceOf(t)
	o.TOOLDISC.Report = func(server string, err error) {
		if err != nil {
			in.log.Warn("tools of a server are not all known", zap.String("server", server), zap.Error(err))
			if record := in.servers.health.Of(health.Server, server); !record.Failing() { // else its record says more
				record.Failed(health.ServerTools, err, nil)
			}
		}
	}
	return err
}

// paceOf returns when tools are read.
func paceOf(t *config.TOOLDISC) tooldisc.Pace {
	return tooldisc.Pace{Refresh: t.Refresh, Idle: t.Idle, Eager: t.Eager}
}

// CheckTools reads the tools of the configuration, and asks no server.
func CheckTools(c *config.Config) error {
	tools, err := readTools(c)
	if err != nil {
		return err
	}
	t, err := tooldisc.New(tooldisc.Options{Tools: tools, Pace: paceOf(&c.TOOLDISC)})
	if err != nil {
		return err
	}
	t.Close()
	return nil
}

// Section has the servers, the tools of the configuration, and when tools are read.
func Section(prepare part.Prepare) part.Section {
	return part.Section{
		Name: "mcp servers", Stays: "the old ones stay", Files: toolFiles, Prepare: prepare,
		Keys: []string{"mcp.servers", "tooldisc.tools", "tooldisc.refresh", "tooldisc.idle", "tooldisc.eager"},
	}
}

// Prepare prepares the changed servers, and the tools of the configuration.
func (in *Inside) Prepare(c *config.Config) (part.Change, error) {
	s := in.servers
	next, err := s.prepare(c)
	if err != nil {
		return part.Change{}, err
	}
	tools, err := readTools(c)
	if err == nil {
		err = tooldisc.Check(nil, tools) // the configuration has checked the names of servers
	}
	if err != nil {
		s.abandon(next)
		return part.Change{}, err
	}
	return part.Change{
		Fields: []zap.Field{zap.String("mcp_servers", part.Names(next))},
		Commit: func() bool {
			left := s.put(next, defaultOf(c))
			s.declare(c)
			_ = s.served().TOOLDISC.Set(in.readers(c.TOOLDISC.Refresh), tools) // checked above
			_ = s.served().TOOLDISC.SetPace(paceOf(&c.TOOLDISC))               // the configuration was checked
			for _, one := range left {
				s.leave(one, s.served().MCP.Leave)
			}
			return false
		},
		Abandon: func() { s.abandon(next) },
	}, nil
}

// readers returns the readers of the tools of all servers in force, one for each server.
// They read again after refresh.
func (in *Inside) readers(refresh time.Duration) map[string]tooldisc.Server {
	s := in.servers
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make(map[string]tooldisc.Server, len(s.now))
	for name, one := range s.now {
		if one.tools == nil {
			one.tools = mcptools.New(mcptools.Options{
				Connect: in.connect, Target: name, Refresh: refresh,
				// A server with few children keeps them for callers.
				Brief: one.at == nil && one.reader == nil,
			})
		}
		one.tools.SetRefresh(refresh)
		list[name] = one.tools
	}
	return list
}

// toolFiles are the files that the section reloads.
func toolFiles(c *config.Config) (files []string) {
	for i := range c.TOOLDISC.Tools {
		for _, file := range []string{c.TOOLDISC.Tools[i].Schema, c.TOOLDISC.Tools[i].Descriptor} {
			if file != "" {
				files = append(files, file)
			}
		}
	}
	return files
}

// readTools reads the tools of the configuration.
func readTools(c *config.Config) (list []tooldisc.Configured, err error) {
	for i := range c.TOOLDISC.Tools {
		tool, err := readTool(&c.TOOLDISC.Tools[i])
		if err != nil {
			return nil, fmt.Errorf("tooldisc.tools[%d]: %w", i, err)
		}
		list = append(list, tool)
	}
	return list, nil
}

func readTool(t *config.Tool) (tooldisc.Configured, error) {
	c := tooldisc.Configured{Tool: tooldisc.Tool{ID: t.ToolID, Name: t.Name, Version: t.Version, SchemaRef: t.SchemaRef}}
	if c.Name == "" {
		c.Name = c.ID
	}
	var err error
	if t.Schema != "" {
		if c.Schema, err = part.ReadUpTo(t.Schema, tooldisc.MaxDescriptor); err != nil {
			return c, err
		}
	}
	if t.Descriptor != "" {
		c.Payload, err = part.ReadUpTo(t.Descriptor, tooldisc.MaxDescriptor)
	}
	return c, err
}
