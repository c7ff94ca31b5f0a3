// Package endpointtest helps tests of profiles: it connects to an endpoint over each kind
// of connection, and has a profile that synchronises with the endpoint.
package endpointtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// patience bounds how long connecting may take.
const patience = 60 * time.Second

// Kinds are the kinds of connection: a pipe in memory of one stream, one of
// many, and the two of a network.
var Kinds = []string{"pipe", "mux", "tls", "quic"}

// Server is an endpoint that accepts one kind of connection until the test ends.
type Server struct {
	t    testing.TB
	kind string
	ep   *endpoint.Endpoint
	ln   transport.Listener // nil for pipes
	ca   *transporttest.CA
}

// Serve makes ep accept connections. The caller closes ep.
func Serve(t testing.TB, kind string, ep *endpoint.Endpoint) *Server {
	t.Helper()
	s := &Server{t: t, kind: kind, ep: ep}
	if kind == "pipe" || kind == "mux" {
		return s
	}
	s.ca = transporttest.NewCA(t)
	s.ln = transporttest.Listen(t, kind, s.ca.Policy(t, transporttest.Server), nil)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := ep.Serve(context.Background(), s.ln); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		_ = s.ln.Close()
		serving.Wait()
	})
	return s
}

// Connect returns a connection with an identity. Nothing reads from it yet.
func (s *Server) Connect(identity string) transport.Conn {
	s.t.Helper()
	if s.ln == nil {
		mine, theirs := transport.NewPipe(transport.PipeOptions{Multiplexed: s.kind == "mux", A: identity, B: transporttest.Server})
		s.ep.Attach(theirs)
		return mine
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := transporttest.Dial(ctx, s.kind, s.ln.Addr().String(), s.ca.Policy(s.t, identity))
	if err != nil {
		s.t.Fatal(err)
	}
	return conn
}
