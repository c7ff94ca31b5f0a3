package daemon

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/bridge/mcptools"
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
	passive
	served, calling *mcpmap.Mapping
	way             *passage
}

func newInside(s *servers, refresh time.Duration) (*inside, error) {
	in := &inside{
		// A session that is left is left for good.
		served: mcpmap.New(mcpmap.Options{
			Backend: insiders{s}, MaxSessions: maxInside, MaxSessionsPerPeer: maxInside, SessionGrace: time.Millisecond,
		}),
		calling: mcpmap.New(mcpmap.Options{}),
	}
	near, err := insideOptions(in.calling, refresh)
	if err != nil {
		return nil, err
	}
	far, err := insideOptions(in.served, refresh)
	if err != nil {
		return nil, err
	}
	in.way, err = newPassage(near, far)
	return in, err
}

// maxInside bounds what is open to read tools: some for each server, of which there may
// be more after a reload.
const maxInside = 1 << 20

// insideOptions are those of one end. Between readings a connection is silent.
func insideOptions(m *mcpmap.Mapping, refresh time.Duration) (endpoint.Options, error) {
	registry, err := profiles.NewRegistry(m.Profile())
	silence := refresh + 10*time.Minute
	return endpoint.Options{Registry: registry, Observer: endpoint.Discard, Bounds: endpoint.Bounds{
		Connections: maxInside, ConnectionsPerIdentity: maxInside, Idle: silence, LongIdle: silence,
	}}, err
}

var errInside = errors.New("daemon: no connection to the own MCP servers")

// connect opens a connection of its own.
func (in *inside) connect() (client *mcpmap.Client, end func(), err error) {
	here, there := in.way.pass("swpd", "swpd", func(transport.Conn) {})
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

// close implements part.
func (in *inside) close() error {
	in.way.end()
	in.calling.Close()
	in.served.Close()
	return nil
}

// toolOptions configure TOOLDISC: the tools of every MCP server, and those that
// the configuration describes.
func toolOptions(c *config.Config, s *servers, in *inside, log *zap.Logger) (tooldisc.Options, error) {
	log = log.Named(boundlog.MCP)
	tools, err := readTools(c)
	return tooldisc.Options{
		Servers: s.readers(in, c.TOOLDISC.Refresh), Tools: tools,
		Refresh: c.TOOLDISC.Refresh, Idle: c.TOOLDISC.Idle, Eager: c.TOOLDISC.Eager,
		Report: func(server string, err error) {
			if err != nil {
				log.Warn("tools of a server are not all known", zap.String("server", server), zap.Error(err))
				s.troubles.note(server, "its tools are not all known: "+err.Error())
			}
		},
	}, err
}

// readers read the tools of the servers that are in force. Each server keeps its own.
func (s *servers) readers(in *inside, refresh time.Duration) map[string]tooldisc.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make(map[string]tooldisc.Server, len(s.now))
	for name, one := range s.now {
		if one.tools == nil {
			one.tools = mcptools.New(mcptools.Options{
				Connect: in.connect, Target: name, Refresh: refresh,
				// Its few children must not be taken from those who want to call it.
				Brief: one.at == nil && one.reader == nil,
			})
		}
		list[name] = one.tools
	}
	return list
}

// toolFiles are those that section mcp servers reads again.
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

// readTools reads the tools that the configuration describes.
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
		if c.Schema, err = readUpTo(t.Schema, tooldisc.MaxDescriptor); err != nil {
			return c, err
		}
	}
	if t.Descriptor != "" {
		c.Payload, err = readUpTo(t.Descriptor, tooldisc.MaxDescriptor)
	}
	return c, err
}
