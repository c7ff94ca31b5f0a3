package mcptransport

import (
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// Server puts an mcp.Server behind an endpoint, as one of the servers of a mcpmap.Backend.
// It serves both eras. Each session of the legacy era, and each request of the modern one,
// is a separate connection of the SDK, so that its output can be assigned. It is safe for
// concurrent use.
type Server struct {
	server *mcp.Server
	opts   ServerOptions
	ctx    context.Context // of all handlers
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	conns  sync.WaitGroup
}

// ServerOptions configure a Server. The zero value is usable.
type ServerOptions struct {
	// Session configures each connection of the SDK. Nil means its defaults.
	Session *mcp.ServerSessionOptions
}

// NewServer returns a Server. The caller closes it, after the endpoint.
func NewServer(server *mcp.Server, opts ServerOptions) *Server {
	s := &Server{server: server, opts: opts}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends everything in flight, and waits until the handlers have returned.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.conns.Wait()
}

// Do implements mcpmap.Server.
func (s *Server) Do(x *mcpmap.Exchange) {
	c := newServerConn(nil)
	if !s.run(c) {
		x.Fail(errClosed)
		return
	}
	c.do(x)
}

// Connect implements mcpmap.Server.
func (s *Server) Connect(client mcpmap.Counterpart) (mcpmap.Conversation, error) {
	c := newServerConn(client)
	if !s.run(c) {
		return nil, errClosed
	}
	return conversation{c}, nil
}

var errClosed = profiles.Busy("mcp_server", "the server is being closed")

// run makes the SDK serve a connection until it is closed. It does not wait.
func (s *Server) run(c *serverConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns.Go(func() {
		defer c.ended()
		session, err := s.server.Connect(s.ctx, c, s.opts.Session)
		if err != nil {
			return
		}
		stop := context.AfterFunc(s.ctx, func() { _ = c.Close() })
		defer stop()
		_ = session.Wait()
	})
	return true
}

// conversation is a connection of the legacy era.
type conversation struct{ c *serverConn }

func (v conversation) Do(x *mcpmap.Exchange)    { v.c.do(x) }
func (v conversation) Notify(m *mcpmap.Message) { v.c.notify(m) }
func (v conversation) Close()                   { _ = v.c.Close() }
