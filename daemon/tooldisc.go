package daemon

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/bridge/mcptools"
	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/tooldisc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// inside is how this process calls its own MCP servers, to read what tools they
// have: as a peer does, over a connection in memory, to a mapping that asks no
// rules. Where there is room that is to processes that no peer calls.
type inside struct {
	served, calling *mcpmap.Mapping
	far, near       *endpoint.Endpoint
}

func newInside(s *servers, refresh time.Duration) (*inside, error) {
	n := max(len(s.list)+len(s.urls), 1)
	in := &inside{
		// A session that is left is left for good.
		served: mcpmap.New(mcpmap.Options{
			Backend: s.inside, MaxSessions: 2 * n, MaxSessionsPerPeer: 2 * n, SessionGrace: time.Millisecond,
		}),
		calling: mcpmap.New(mcpmap.Options{}),
	}
	var err error
	if in.far, err = insideEndpoint(in.served, n, refresh); err != nil {
		return nil, err
	}
	if in.near, err = insideEndpoint(in.calling, n, refresh); err != nil {
		return nil, err
	}
	return in, nil
}

// insideEndpoint makes one end. Between readings a connection is silent.
func insideEndpoint(m *mcpmap.Mapping, servers int, refresh time.Duration) (*endpoint.Endpoint, error) {
	registry, err := profiles.NewRegistry(m.Profile())
	if err != nil {
		return nil, err
	}
	silence := refresh + 10*time.Minute
	return endpoint.New(endpoint.Options{Registry: registry, Observer: endpoint.Discard, Bounds: endpoint.Bounds{
		Connections: 2 * servers, ConnectionsPerIdentity: 2 * servers, Idle: silence, LongIdle: silence,
	}})
}

var errInside = errors.New("daemon: no connection to the own MCP servers")

// connect opens a connection of its own.
func (in *inside) connect() (client *mcpmap.Client, end func(), err error) {
	near, far := transport.NewPipe(transport.PipeOptions{A: "swpd", B: "swpd"})
	there, here := in.far.Attach(far), in.near.Attach(near)
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

func (in *inside) close() {
	_ = in.near.Close()
	_ = in.far.Close()
	in.calling.Close()
	in.served.Close()
}

// toolOptions configure TOOLDISC: the tools of every MCP server, and those that
// the configuration describes.
func toolOptions(c *config.Config, s *servers, in *inside, log *zap.Logger) (tooldisc.Options, error) {
	log = log.Named(boundlog.MCP)
	o := tooldisc.Options{
		Servers: make(map[string]tooldisc.Server), Refresh: c.TOOLDISC.Refresh, Idle: c.TOOLDISC.Idle, Eager: c.TOOLDISC.Eager,
		Report: func(server string, err error) {
			if err != nil {
				log.Warn("tools of a server are not all known", zap.String("server", server), zap.Error(err))
				s.troubles.note(server, "its tools are not all known: "+err.Error())
			}
		},
	}
	for name, server := range c.MCP.Servers {
		o.Servers[name] = mcptools.New(mcptools.Options{
			Connect: in.connect, Target: name, Refresh: c.TOOLDISC.Refresh,
			// Its few children must not be taken from those who want to call it.
			Brief: server.URL == "" && !readsApart(&server),
		})
	}
	for i := range c.TOOLDISC.Tools {
		tool, err := readTool(&c.TOOLDISC.Tools[i])
		if err != nil {
			return o, fmt.Errorf("tooldisc.tools[%d]: %w", i, err)
		}
		o.Tools = append(o.Tools, tool)
	}
	return o, nil
}

func readTool(t *config.Tool) (tooldisc.Configured, error) {
	c := tooldisc.Configured{Tool: tooldisc.Tool{ID: t.ToolID, Name: t.Name, Version: t.Version, SchemaRef: t.SchemaRef}}
	if c.Name == "" {
		c.Name = c.ID
	}
	var err error
	if t.Schema != "" {
		if c.Schema, err = readUpTo(t.Schema, tooldisc.MaxDescriptor); err != nil {
			return c, err
		}
	}
	if t.Descriptor != "" {
		c.Payload, err = readUpTo(t.Descriptor, tooldisc.MaxDescriptor)
	}
	return c, err
}
